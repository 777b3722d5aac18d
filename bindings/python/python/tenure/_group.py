"""Partition groups: many partitions, shared by some members."""

from __future__ import annotations

import asyncio
import inspect
import json
import logging
import threading
from collections.abc import Awaitable, Sequence
from contextlib import suppress
from typing import Any, Callable, Optional, Union

from . import _tenure
from ._calls import DEFAULT, Seconds, seconds, settings_json, typed, wait, wait_async, whole
from ._election import Store, open_stores
from ._errors import InvalidInputError, TenureError
from .testing import Clock, native

_logger = logging.getLogger("tenure")


class Partition:
    """A partition that this member owns until its work returns.

    Call ``check()`` right before each write, and send the token with the write.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> group = tenure.Group(store, prefix="shards", partitions=["eu"], poll_interval=0.1)
    >>> def work(partition):
    ...     print(partition.name, partition.check() == partition.token, partition.revoked)
    ...     print(0 < partition.remaining <= 30)
    ...     group.leave()
    ...     partition.wait_revoked(timeout=10)
    >>> group.run(work)
    eu True False
    True
    """

    def __init__(self, inner: _tenure.Partition) -> None:
        self._inner = inner
        self.__dict__["check"] = inner.check  # calls the native method directly

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
        """True if the work must return, because the partition moves or the lease ends."""
        return self._inner.revoked

    def wait_revoked(self, timeout: Optional[Seconds] = None) -> None:
        """Wait until the work must return. After ``timeout`` seconds, raises ``TimeoutError``."""
        wait(self._inner.wait_revoked(), timeout, "the partition was not revoked")

    async def wait_revoked_async(self) -> None:
        """Wait as ``wait_revoked`` does, in an event loop. Limit: ``asyncio.wait_for``."""
        await wait_async(self._inner.wait_revoked())

    def __repr__(self) -> str:
        return f"<tenure.Partition {self.name!r} token={self.token} revoked={self.revoked}>"


class Group:
    """A member of a group that shares partitions, with one lease for each member.

    Durations are seconds or ``timedelta``. V is the validity:

    - ``store``: a URL, the path of a directory, or a ``MemoryStore``, as in ``Election``.
    - ``prefix``: only for a ``MemoryStore``, because a URL contains the prefix. Default: empty.
    - ``partitions``: their number, or a list of their names, at most 100000. The first member
      creates them. With ``None``, a member waits until another member has created them.
    - ``name``: a name for people, 1 to 256 bytes. Partitions are reserved for it. Default:
      ``$HOSTNAME``, else ``candidate``, and the process id.
    - ``validity``: the length of the lease, 0.1 to 3600. After a crash, other members own the
      partitions after about this time. Default: 30.
    - ``data``: JSON that ``snapshot`` shows, such as an address, at most 44 KiB. Default: none.
    - ``weight``: the share of this member, relative to the weights of the others, from 1. Default:
      1.
    - ``renew_interval``: the time between two renewals, 0.01 to V minus two request timeouts.
      Default: V/3.
    - ``poll_interval``: the time between two polls, 0.01 to V. Default: V/6.
    - ``request_timeout``: the time limit of a request, 0.01 to V/5. Default: V/5.
    - ``rebalance_delay``: the time for which the group collects joining members, at most 3600. So a
      rollout moves the partitions only once. Default: 1.
    - ``revocation_deadline``: the time after which the log reports work that has not returned, at
      most 86400. The partition moves only after its work has returned. Default: V.
    - ``retry_denied``: the time for which a joining member retries while the store denies access or
      does not exist. ``None`` has no limit, for services. Default: 10.
    - ``clock_drift_max``: the greatest difference between the rates of two clocks, a ratio from 0
      to 0.5. Default: 0.01.
    - ``leave_when_overdue``: leaves the group if work has not returned by ``revocation_deadline``,
      so that the partitions move although the work still runs. Default: ``False``.
    - ``check_store``: checks the store before the first join, with 5 requests. Default: ``True``.
    - ``name_is_unique``: asserts that no two living processes have this name, so a restarted
      process gets its partitions back without a wait. Default: ``False``.
    - ``machine_is_never_paused``: asserts that nothing pauses the machine, so the lease survives a
      step of the wall clock. Default: ``False``.
    - ``clock``: a ``tenure.testing.Clock``, for tests. An advance counts as a pause of all members
      with this clock. Only a member whose validity is longer than the advance can take over.
      Default: none.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> group = tenure.Group(store, prefix="shards", partitions=2, name="a", poll_interval=0.1)
    >>> def work(partition):
    ...     partition.check()  # right before each write
    ...     group.leave()
    ...     partition.wait_revoked()
    >>> group.run(work)
    >>> group.name, group.is_member
    ('a', False)
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
        names: Any = partitions
        if isinstance(partitions, int):
            names = [str(number) for number in range(partitions)]
        is_list = isinstance(names, Sequence) and not isinstance(names, str) and len(names) > 0
        if names is not None and not is_list:
            raise InvalidInputError(
                f"partitions must be a number from 1, or a list of names, got {partitions!r}"
            )
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
            "partitions": names and [typed("partitions", one, str) for one in names],
            "data": data,
            "weight": whole("weight", weight, 1, 2**32 - 1),
            "clock_drift_max": clock_drift_max,
            "leave_when_overdue": leave_when_overdue,
            "check_store": check_store,
            "name_is_unique": name_is_unique,
            "machine_is_never_paused": machine_is_never_paused,
        }
        settings = settings_json(durations, {"retry_denied": retry_denied}, others)
        self._inner = _tenure.Group(open_stores(store, prefix), settings, native(clock))

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

        ``work`` is a function of a ``Partition``. It must return once ``partition.revoked`` is
        true. If it raises, the exception is logged and the partition moves. After ``leave()``, this
        call returns once all work has returned. After an exception such as KeyboardInterrupt, this
        call leaves the group, and raises the exception once all work has returned. A second
        exception is raised at once.
        """
        if not callable(work) or inspect.iscoroutinefunction(work):
            raise TypeError(f"work must be a function, or use run_async, got {work!r}")
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

        ``work`` is a coroutine function of a ``Partition``. If this call is cancelled, it leaves
        the group, cancels all work, and waits until the work has ended.

        >>> import asyncio, tenure, tenure.testing
        >>> store = tenure.testing.MemoryStore()
        >>> group = tenure.Group(store, prefix="shards", partitions=["eu"], poll_interval=0.1)
        >>> async def work(partition):
        ...     print(partition.name)
        ...     group.leave()
        ...     await partition.wait_revoked_async()
        >>> asyncio.run(group.run_async(work))
        eu
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
        """Leave: the running work gets the signal to return. Does not wait.

        ``reserve`` is for a restart: for these seconds, at most 3600, only a member with the same
        name gets the partitions. With ``None``, the other members get them at once. Later calls of
        ``run()`` return at once. To join again, create another ``Group``.
        """
        self._inner.leave(None if reserve is None else seconds("reserve", reserve))

    def snapshot(self) -> dict[str, Any]:
        """Return the members, and the owner and token of each partition. Cost: LIST and GET.

        ``epoch`` is the number of the assignment, or ``None``. ``restoring`` is true during a
        restore. ``members`` is a list with the keys ``session``, ``name``, ``weight``, ``validity``
        (in seconds), ``data`` and ``coordinates`` (true for the coordinator). ``partitions`` is a
        list with the keys ``name``, ``owner``, ``token``, ``target`` (the next owner) and
        ``reserved_for``. ``owner``, ``target`` and ``reserved_for`` are names of members or
        ``None``.
        """
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
        # If the partition is revoked, a cancellation is not a failure.
        error = None if inner.revoked else "the task of the work was cancelled"
        raise
    except Exception as raised:
        _logger.exception("the work on partition %s raised an exception", inner.name)
        error = repr(raised)
    finally:
        inner.done(error)
