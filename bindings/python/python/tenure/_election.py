"""The election."""

from __future__ import annotations

import inspect
import json
import os
from collections.abc import Sequence
from typing import Any, Callable, Literal, Optional, Union

from . import _tenure
from ._calls import (
    DEFAULT,
    Seconds,
    seconds,
    settings_json,
    store_urls,
    wait,
    wait_async,
    whole,
)
from ._leadership import Leadership, PendingCampaign
from ._stream import Stream
from ._types import Event, Leader, Observation, Outcome, Snapshot, leader_of
from .testing import Clock, MemoryStore, native

#: A store: a URL, the path of a directory, a list of 3 or 5 of them, or a store in memory.
Store = Union[str, os.PathLike[str], Sequence[Union[str, os.PathLike[str]]], MemoryStore]

_VALIDITY = 30.0


def open_stores(store: Store, prefix: Optional[str]) -> _tenure.Stores:
    """Open a store."""
    if isinstance(store, MemoryStore):
        return store._inner.at(prefix or "")
    if prefix is not None:
        raise TypeError("prefix is for a MemoryStore: a URL contains the prefix")
    several: Any = [store] if isinstance(store, (str, os.PathLike)) else store
    is_list = isinstance(several, Sequence) and len(several) > 0
    if not is_list or not all(isinstance(one, (str, os.PathLike)) for one in several):
        raise TypeError(
            f"store must be a URL, a path, a list of them, or a MemoryStore, got {store!r}"
        )
    urls = [url for one in several for url in store_urls(one)]
    opened: _tenure.Stores = wait(_tenure.Stores.open(urls))
    return opened


class Election:
    """One contest for leadership, under one prefix of one store.

    ``store`` is a URL such as ``s3://my-bucket/orders``, ``gs://``, ``az://``, ``dynamodb://`` or
    ``file:///var/lib/orders``; the path of a directory; or a ``tenure.testing.MemoryStore``.
    Three or five URLs are an election across stores. A path starts with ``/`` or ``./``.
    Credentials come from the environment of the service.

    Durations are seconds or ``timedelta``. All candidates should use the same settings, except for
    ``name``, ``data`` and ``priority_delay``. The page ``docs/reference/settings.md`` of the
    project states their costs. V is the validity:

    - ``prefix``: only for a ``MemoryStore``, because a URL contains the prefix. Default: empty.
    - ``name``: a name for people, 1 to 256 bytes. Default: ``$HOSTNAME``, else ``candidate``, and
      the process id.
    - ``validity``: the length of the lease, 0.1 to 86400. After a crash, another candidate leads
      after about this time. Default: 30.
    - ``data``: JSON that the leader publishes, such as its address, at most 47 KiB. Default: none.
    - ``liveness``: resigns if the program hangs. A duration is the longest time between two calls
      of ``check()`` or ``leading``. A callable is called from a thread three times per validity;
      the leadership ends if the callable returns ``False``, raises, or does not return within a
      validity. Default: off.
    - ``renew_interval``: the time between two renewals, 0.01 to V minus two request timeouts.
      Default: V/3.
    - ``poll_interval``: the time between two polls of a follower, 0.01 to V. With ``None``, a
      follower polls only when the lease would lapse. Default: V/6.
    - ``poll_backoff``: while the leader does not change, the poll interval doubles up to this
      bound, at most V. Default: off.
    - ``request_timeout``: the time limit of a request, 0.01 to V/5. Default: V/5.
    - ``retry_denied``: the time for which a campaign retries while the store denies access or does
      not exist. ``None`` has no limit, for services. Default: 10.
    - ``takeover_delay``: an extra wait for late writes of a dead leader, at most 86400. It does not
      apply after a resignation. Default: 0.
    - ``priority_delay``: an extra wait, at most 86400, so that other candidates are elected first.
      Default: 0.
    - ``store_clock_margin``: followers do not wait if the lease ended at least this time ago by the
      store's dates, 2 to 86400. Default: off.
    - ``clock_drift_max``: the greatest difference between the rates of two clocks, a ratio from 0
      to 0.5. Default: 0.01.
    - ``layout``: how the store keeps the epochs: ``epoch-files`` (the default) or
      ``single-object``.
    - ``reason``: a text that ``depose`` writes into the record, at most 1000 bytes. Default: none.
    - ``verify_renewals``: sends a LIST with each renewal. Proxies that send a PUT twice need it.
      Default: ``False``.
    - ``check_store``: checks the store before the first campaign, with 5 requests. Default:
      ``True``.
    - ``name_is_unique``: asserts that no two living processes have this name, so a restarted
      process does not wait for its old lease. Default: ``False``.
    - ``machine_is_never_paused``: asserts that nothing pauses the machine, so the lease survives a
      step of the wall clock. Default: ``False``.
    - ``clock``: a ``tenure.testing.Clock``, for tests. Default: the clocks of the machine.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> election = tenure.Election(store, prefix="orders", name="worker-7", validity=30)
    >>> with election.campaign() as leadership:
    ...     leadership.token
    1
    """

    def __init__(
        self,
        store: Store,
        *,
        prefix: Optional[str] = None,
        name: Optional[str] = None,
        validity: Seconds = _VALIDITY,
        data: Any = None,
        liveness: Union[Seconds, Callable[[], bool], None] = None,
        renew_interval: Optional[Seconds] = None,
        poll_interval: Optional[Seconds] = DEFAULT,
        poll_backoff: Optional[Seconds] = None,
        request_timeout: Optional[Seconds] = None,
        retry_denied: Optional[Seconds] = DEFAULT,
        takeover_delay: Optional[Seconds] = None,
        priority_delay: Optional[Seconds] = None,
        store_clock_margin: Optional[Seconds] = None,
        clock_drift_max: Optional[float] = None,
        layout: Optional[Literal["epoch-files", "single-object"]] = None,
        reason: Optional[str] = None,
        verify_renewals: Optional[bool] = None,
        check_store: Optional[bool] = None,
        name_is_unique: Optional[bool] = None,
        machine_is_never_paused: Optional[bool] = None,
        clock: Optional[Clock] = None,
    ) -> None:
        if inspect.iscoroutinefunction(liveness):
            raise TypeError("liveness is called from a thread, so it must not be `async def`")
        self._liveness = liveness if callable(liveness) else None
        self._every = seconds("validity", validity) / 3
        durations = {
            "validity": validity,
            "renew_interval": renew_interval,
            "poll_backoff": poll_backoff,
            "request_timeout": request_timeout,
            "takeover_delay": takeover_delay,
            "priority_delay": priority_delay,
            "store_clock_margin": store_clock_margin,
            "liveness": validity if callable(liveness) else liveness,
        }
        others = {
            "name": name,
            "data": data,
            "clock_drift_max": clock_drift_max,
            "layout": layout,
            "reason": reason,
            "verify_renewals": verify_renewals,
            "check_store": check_store,
            "name_is_unique": name_is_unique,
            "machine_is_never_paused": machine_is_never_paused,
            "asks": callable(liveness),
        }
        nullable = {"poll_interval": poll_interval, "retry_denied": retry_denied}
        settings = settings_json(durations, nullable, others)
        stores = open_stores(store, prefix)
        self._place = repr(stores)
        self._inner = _tenure.Election(stores, settings, native(clock))

    @property
    def name(self) -> str:
        """The name of this candidate for people."""
        return self._inner.name

    def campaign(self, timeout: Optional[Seconds] = None) -> Leadership:
        """Wait until this process is elected. Use the result in a ``with`` statement.

        After ``timeout`` seconds, raises ``TimeoutError``, whose text names the leader. With
        ``None``, the wait has no limit. A campaign that ends by a timeout or by KeyboardInterrupt
        leaves no leadership behind.

        >>> import tenure, tenure.testing
        >>> store = tenure.testing.MemoryStore()
        >>> with tenure.Election(store, prefix="orders", name="a").campaign():
        ...     tenure.Election(store, prefix="orders", name="b").campaign(timeout=0.2)
        Traceback (most recent call last):
        ...
        TimeoutError: not elected within 0.2 s: a leads with token 1
        """
        try:
            leadership = self._wait_elected(self._inner.campaign, "campaign", timeout)
        except TimeoutError as error:
            raise TimeoutError(f"{error}: {self._leads_instead()}") from None
        assert leadership is not None, "only try_campaign returns None"
        return leadership

    def _leads_instead(self) -> str:
        leader = self.last_seen
        if leader is not None:
            return f"{leader.candidate} leads with token {leader.epoch}"
        if self.since_last_answer is None:
            return "the store has not answered"
        return "no other candidate leads yet"

    def campaign_async(self) -> PendingCampaign:
        """Campaign as ``campaign`` does, for ``async with`` or ``await`` in an event loop.

        The result is a coroutine, for example for ``asyncio.create_task``. For a time limit, use
        ``asyncio.wait_for``.

        >>> import asyncio, tenure, tenure.testing
        >>> async def main(election):
        ...     async with election.campaign_async() as leadership:
        ...         return leadership.check()
        >>> asyncio.run(main(tenure.Election(tenure.testing.MemoryStore(), prefix="orders")))
        1
        """

        async def campaign() -> Leadership:
            return self._leads(await wait_async(self._inner.campaign()), None)

        return PendingCampaign(campaign)

    def try_campaign(self) -> Optional[Leadership]:
        """Make one attempt to be elected. Return ``None`` if another candidate may lead.

        Repeated calls on one ``Election`` take over from a dead leader. ``last_seen`` is the
        leader.

        >>> import tenure, tenure.testing
        >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders", name="a")
        >>> leadership = election.try_campaign()
        >>> election.try_campaign() is None, election.last_seen.candidate
        (True, 'a')
        """
        return self._wait_elected(self._inner.try_campaign, "try_campaign")

    async def try_campaign_async(self) -> Optional[Leadership]:
        """Make one attempt as ``try_campaign`` does, in an event loop."""
        inner = await wait_async(self._inner.try_campaign())
        return None if inner is None else self._leads(inner, None)

    def leader(self) -> Optional[Leader]:
        """Return the holder of the newest epoch, or ``None`` if it is sealed. Cost: LIST, GET.

        >>> import tenure, tenure.testing
        >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders", name="a")
        >>> with election.campaign():
        ...     print(election.name, election.leader().candidate, election.newest_epoch())
        a a 1
        >>> print(election.leader())
        None
        """
        return _unsealed(self.snapshot())

    async def leader_async(self) -> Optional[Leader]:
        """Return the leader as ``leader`` does, in an event loop."""
        return _unsealed(await self.snapshot_async())

    def snapshot(self) -> Snapshot:
        """Read the newest epoch object, sealed or not. Cost: LIST and GET."""
        return Snapshot._parse(wait(self._inner.snapshot()))

    async def snapshot_async(self) -> Snapshot:
        """Read as ``snapshot`` does, in an event loop."""
        return Snapshot._parse(await wait_async(self._inner.snapshot()))

    def newest_epoch(self) -> Optional[int]:
        """Return the greatest epoch that was created, or ``None``. Cost: LIST."""
        epoch: Optional[int] = wait(self._inner.newest_epoch())
        return epoch

    def observe(self) -> Stream[Observation]:
        """Follow the leadership without campaigning, for ``for`` or ``async for``.

        The stream yields the current state, then each change. Cost: one GET every poll interval.

        >>> import tenure, tenure.testing
        >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
        >>> next(election.observe()).state, election.since_last_answer < 60
        ('vacant', True)
        """
        return Stream(self._inner.observe(), Observation._parse)

    def events(self) -> Stream[Event]:
        """Return the events of campaigns from this call on, for ``for`` or ``async for``."""
        return Stream(self._inner.events(), Event._parse)

    def refresh(self) -> None:
        """Make the pending campaigns and observers of this election poll now. Does not wait.

        >>> import tenure, tenure.testing
        >>> tenure.Election(tenure.testing.MemoryStore(), prefix="orders").refresh()
        """
        self._inner.refresh()

    @property
    def last_seen(self) -> Optional[Leader]:
        """The living leader that this election read last. Sends no request.

        ``None`` before the first read, and once this process is elected.
        """
        seen = self._inner.last_seen()
        return None if seen is None else leader_of(json.loads(seen))

    @property
    def since_last_answer(self) -> Optional[float]:
        """Seconds since the store's last answer, for a health check. ``None`` before any answer."""
        return self._inner.since_last_answer()

    def depose(self, epoch: Optional[int] = None, *, dead: bool = False) -> Outcome:
        """Seal the newest epoch, so that its holder stops leading.

        If ``epoch`` is given and is not the newest epoch, seal nothing. With ``dead=True``, the
        caller asserts that the holder is dead, so its successor does not wait. Default: ``False``.

        >>> import tenure, tenure.testing
        >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
        >>> leadership = election.campaign()
        >>> election.depose(dead=True).kind, election.snapshot().end
        ('sealed', 'deposed_dead')
        """
        epoch = whole("epoch", epoch, 1)
        return Outcome._parse(wait(self._inner.depose(epoch, dead)))

    async def depose_async(self, epoch: Optional[int] = None, *, dead: bool = False) -> Outcome:
        """Depose as ``depose`` does, in an event loop."""
        epoch = whole("epoch", epoch, 1)
        return Outcome._parse(await wait_async(self._inner.depose(epoch, dead)))

    def restore(self, epoch: int, wait_for: Seconds) -> Outcome:
        """Raise the epoch floor after the loss of epoch objects: the next tokens exceed ``epoch``.

        ``epoch`` is at least the greatest token that any resource has seen. ``wait_for`` is the
        validity, in seconds, of a leader whose object was deleted, or 0 if no such leader exists.

        >>> import tenure, tenure.testing
        >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
        >>> election.restore(41, wait_for=0).kind, election.campaign().token
        ('sealed', 42)
        """
        epoch = whole("epoch", epoch, 1)
        return Outcome._parse(wait(self._inner.restore(epoch, seconds("wait_for", wait_for))))

    async def restore_async(self, epoch: int, wait_for: Seconds) -> Outcome:
        """Restore as ``restore`` does, in an event loop."""
        epoch = whole("epoch", epoch, 1)
        restored = self._inner.restore(epoch, seconds("wait_for", wait_for))
        return Outcome._parse(await wait_async(restored))

    def init_stores(self, above: Optional[int] = None, wait_for: Seconds = 0) -> None:
        """Create the markers of an election across stores. An operator calls this method once.

        If a majority of an older set was lost, first stop the processes of that set. Then give as
        ``above`` the greatest token that any resource has seen, and as ``wait_for`` the longest
        validity, in seconds, of old candidates that may still run. Default: a new set, without a
        wait.

        >>> import tempfile, tenure
        >>> election = tenure.Election([tempfile.mkdtemp() for _ in range(3)])
        >>> election.init_stores()
        >>> election.campaign().token
        1
        """
        above = whole("above", above, 1)
        wait(self._inner.init_stores(above, seconds("wait_for", wait_for)))

    def __repr__(self) -> str:
        validity = f"{self._every * 3:g}"
        return f"<tenure.Election store={self._place!r} name={self.name!r} validity={validity}>"

    def _wait_elected(
        self,
        start: Callable[[], _tenure.Task],
        blocked: str,
        timeout: Optional[Seconds] = None,
    ) -> Optional[Leadership]:
        """Wait for a leadership, and resign it after a KeyboardInterrupt, at whichever line."""
        timeout = None if timeout is None else seconds("timeout", timeout)
        task: Optional[_tenure.Task] = None
        inner: Optional[_tenure.Leadership] = None
        try:
            task = start()
            inner = wait(task, timeout, "not elected")
            return None if inner is None else self._leads(inner, blocked)
        except BaseException:
            if inner is not None:
                inner.resign(None)
            elif task is not None:
                task.cancel()
            raise

    def _leads(self, inner: _tenure.Leadership, blocked: Optional[str]) -> Leadership:
        return Leadership(inner, self._liveness, self._every, blocked)


def _unsealed(snapshot: Snapshot) -> Optional[Leader]:
    return None if snapshot.end is not None else snapshot.leader
