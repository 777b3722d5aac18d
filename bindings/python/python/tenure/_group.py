"""Partition groups: many partitions, shared by some members."""

from __future__ import annotations

import asyncio
import json
import logging
import threading
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Callable, Optional, Union

from . import _tenure
from ._calls import DEFAULT, Seconds, seconds, settings_json, wait, wait_async
from ._election import Store, open_stores
from ._errors import InvalidInputError, TenureError
from .testing import Clock

_logger = logging.getLogger("tenure")


class Partition:
    """A partition that this member owns until its work returns.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> group = tenure.Group(store, prefix="shards", partitions=["eu"], poll_interval=0.1)
    >>> def work(partition):
    ...     print(partition.name, partition.check() == partition.token, partition.revoked)
    ...     group.leave()
    >>> group.run(work)
    eu True False
    """

    def __init__(self, inner: _tenure.Partition) -> None:
        self._inner = inner
        self.__dict__["check"] = inner.check  # saves a call in Python

    def check(self) -> int:
        """Return the token while this member owns the partition.

        Otherwise raises ``LeadershipLost``.
        """
        return self._inner.check()

    @property
    def name(self) -> str:
        """The name of the partition."""
        return self._inner.name

    @property
    def token(self) -> int:
        """The fencing token. It is valid only while ``check()`` succeeds."""
        return self._inner.token

    @property
    def remaining(self) -> float:
        """The remaining seconds of the lease."""
        return self._inner.remaining

    @property
    def revoked(self) -> bool:
        """True if the work must return."""
        return self._inner.revoked

    def wait_revoked(self, timeout: Optional[Seconds] = None) -> None:
        """Wait until the work must return. After ``timeout``, raises ``TimeoutError``."""
        wait(self._inner.wait_revoked(), timeout)

    async def wait_revoked_async(self) -> None:
        """Wait as ``wait_revoked`` does, in an event loop."""
        await wait_async(self._inner.wait_revoked())

    def __repr__(self) -> str:
        return f"<tenure.Partition {self.name!r} token={self.token} revoked={self.revoked}>"


class Group:
    """A member of a group that shares partitions, with one lease for each member.

    ``partitions`` is the number of partitions, or their names. The first member creates them. With
    ``None``, a member waits until another member has created them.

    ``clock`` is the clock of a test. An advance suspends all members with this clock, so the member
    that takes over needs a validity above the advance.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> group = tenure.Group(store, prefix="shards", partitions=2, name="a", poll_interval=0.1)
    >>> def work(partition):
    ...     partition.check()  # right before each write
    ...     group.leave()
    ...     partition.wait_revoked()
    >>> group.run(work)
    >>> [partition["name"] for partition in group.snapshot()["partitions"]]
    ['0', '1']
    """

    def __init__(
        self,
        store: Store,
        *,
        prefix: Optional[str] = None,
        partitions: Union[int, Sequence[str], None] = None,
        name: Optional[str] = None,
        validity: Optional[Seconds] = None,
        data: Any = None,
        weight: Optional[int] = None,
        renew_interval: Optional[Seconds] = None,
        poll_interval: Optional[Seconds] = None,
        request_timeout: Optional[Seconds] = None,
        rebalance_delay: Optional[Seconds] = None,
        revocation_deadline: Optional[Seconds] = None,
        retry_denied: Optional[Seconds] = DEFAULT,
        clock_drift_max: Optional[float] = None,
        leave_when_overdue: Optional[bool] = None,
        check_store: Optional[bool] = None,
        name_is_unique: Optional[bool] = None,
        machine_is_never_paused: Optional[bool] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        if isinstance(partitions, int):
            partitions = [str(number) for number in range(partitions)]
        if isinstance(partitions, str) or partitions is not None and not partitions:
            raise InvalidInputError("partitions must be a number from 1, or a list of names")
        durations = {
            "validity": validity,
            "renew_interval": renew_interval,
            "poll_interval": poll_interval,
            "request_timeout": request_timeout,
            "rebalance_delay": rebalance_delay,
            "revocation_deadline": revocation_deadline,
        }
        others = {
            "name": name,
            "partitions": None if partitions is None else list(partitions),
            "data": data,
            "weight": weight,
            "clock_drift_max": clock_drift_max,
            "leave_when_overdue": leave_when_overdue,
            "check_store": check_store,
            "name_is_unique": name_is_unique,
            "machine_is_never_paused": machine_is_never_paused,
        }
        settings = settings_json(durations, {"retry_denied": retry_denied}, others)
        inner_clock = None if clock is None else clock._inner
        self._inner = _tenure.Group(open_stores(store, prefix), settings, inner_clock)

    @property
    def name(self) -> str:
        """The display name of this member."""
        return self._inner.name

    @property
    def is_member(self) -> bool:
        """True while this process is a member."""
        return self._inner.is_member

    def run(self, work: Callable[[Partition], object]) -> None:
        """Join, and call ``work`` in a thread for each partition that this member is granted.

        ``work`` returns once ``partition.revoked`` is true. If it raises, the exception is logged
        and the partition moves. After ``leave()`` this call returns once all work has returned. An
        exception such as KeyboardInterrupt also leaves, and is raised after all work has returned;
        a second one does not wait.
        """
        granted, ended = self._inner.run()
        try:
            try:
                _start_threads(granted, work)
            except BaseException:
                self.leave()
                _start_threads(granted, work)
                wait(ended)
                raise
            wait(ended)
        except BaseException:
            ended.cancel()
            raise

    async def run_async(self, work: Callable[[Partition], Awaitable[object]]) -> None:
        """Join as ``run`` does, with an asyncio task for each partition.

        A cancellation leaves the group, cancels all work, and waits for its end.
        """
        granted, ended = self._inner.run()
        works: set[asyncio.Task[None]] = set()
        try:
            while (inner := await wait_async(granted.next())) is not None:
                task = asyncio.ensure_future(_work_async(inner, work))
                works.add(task)
                task.add_done_callback(works.discard)
        except BaseException:
            self.leave()
            for task in works:
                task.cancel()
            await asyncio.gather(*works, return_exceptions=True)
            # Partitions that were granted meanwhile have no task.
            while (inner := await wait_async(granted.next())) is not None:
                inner.done(None)
            with suppress(TenureError):
                await wait_async(ended)
            raise
        await wait_async(ended)

    def leave(self, reserve: Optional[Seconds] = None) -> None:
        """Leave: the running work gets the signal to return.

        The partitions are reserved for the name of this member for the time ``reserve``.
        """
        self._inner.leave(None if reserve is None else seconds("reserve", reserve))

    def snapshot(self) -> dict[str, Any]:
        """Return the members, and the owner and token of each partition."""
        snapshot: dict[str, Any] = json.loads(wait(self._inner.snapshot()))
        return snapshot

    async def snapshot_async(self) -> dict[str, Any]:
        """Return the snapshot as ``snapshot`` does, in an event loop."""
        snapshot: dict[str, Any] = json.loads(await wait_async(self._inner.snapshot()))
        return snapshot


def _start_threads(granted: _tenure.Stream, work: Callable[[Partition], object]) -> None:
    while (inner := wait(granted.next())) is not None:
        name = f"tenure-partition-{inner.name}"
        threading.Thread(target=_work, args=(inner, work), name=name, daemon=True).start()


def _work(inner: _tenure.Partition, work: Callable[[Partition], object]) -> None:
    error: Optional[str] = "the thread of the work ended"
    try:
        work(Partition(inner))
        error = None
    except Exception as raised:
        _logger.exception("the work on partition %s raised an exception", inner.name)
        error = repr(raised)
    finally:
        inner.done(error)


async def _work_async(
    inner: _tenure.Partition, work: Callable[[Partition], Awaitable[object]]
) -> None:
    error: Optional[str] = None
    try:
        await work(Partition(inner))
    except asyncio.CancelledError:
        # After the signal to return, a cancellation is not a failure.
        error = None if inner.revoked else "the task of the work was cancelled"
        raise
    except Exception as raised:
        _logger.exception("the work on partition %s raised an exception", inner.name)
        error = repr(raised)
    finally:
        inner.done(error)
