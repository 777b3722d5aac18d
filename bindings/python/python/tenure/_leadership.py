"""The leadership of this process."""

from __future__ import annotations

import inspect
import logging
import threading
import time
import weakref
from collections.abc import Coroutine, Generator
from types import TracebackType
from typing import TYPE_CHECKING, Any, Callable, Optional

from . import _tenure
from ._calls import Seconds, json_text, typed, wait, wait_async
from ._errors import ForkedProcessError, LeadershipLost, Reason, TenureError
from ._stream import Stream
from ._types import Event

_logger = logging.getLogger("tenure")


class Leadership(_tenure.Block):
    """An epoch that was granted to this process. Threads of the library renew its lease.

    Call ``check()`` right before each write, and send the token with the write. The lease may end
    between the check and the write, so the guarded resource must refuse lower tokens.

    At the end of a ``with`` block the leadership resigns, also after an exception. If the
    leadership was lost during the block, the block raises ``LeadershipLost``. A leadership that is
    no longer referenced resigns in the background.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders", name="a")
    >>> with election.campaign() as leadership:
    ...     leadership.check(), leadership.epoch, leadership.name, leadership.remaining <= 30
    (1, 1, 'a', True)
    >>> leadership.leading, leadership.token
    (False, None)
    """

    def __init__(
        self,
        inner: _tenure.Leadership,
        liveness: Optional[Callable[[], bool]],
        every: float,
        blocked: Optional[str],
    ) -> None:
        self._inner = inner
        #: The name of the blocking call that elected this leadership, or ``None``.
        self._blocked = blocked
        self.__dict__["check"] = inner.check  # calls the native method directly
        if liveness is not None:
            arguments = (weakref.ref(self), liveness, every)
            threading.Thread(
                target=_ask, args=arguments, name="tenure-liveness", daemon=True
            ).start()

    def check(self) -> int:
        """Return the token while the lease runs. Otherwise raise ``LeadershipLost``."""
        return self._inner.check()

    @property
    def epoch(self) -> int:
        """The number of the leadership. It is a valid token only while ``check()`` succeeds."""
        return self._inner.epoch

    @property
    def name(self) -> str:
        """The display name of the candidate that was elected."""
        return self._inner.name

    @property
    def token(self) -> Optional[int]:
        """The fencing token, which equals ``epoch``, or ``None`` after the end of the lease."""
        return self._inner.epoch if self._inner.leading else None

    @property
    def leading(self) -> bool:
        """True until the end of the lease."""
        return self._inner.leading

    @property
    def remaining(self) -> float:
        """The remaining seconds of the lease. Zero after a loss."""
        return self._inner.remaining

    def lost(self, timeout: Optional[Seconds] = None) -> Reason:
        """Wait until the leadership has ended, and return the reason, as in ``LeadershipLost``.

        After ``timeout`` seconds, raises ``TimeoutError``. To ask without a wait, use ``leading``.

        >>> import tenure, tenure.testing
        >>> store = tenure.testing.MemoryStore()
        >>> leadership = tenure.Election(store, prefix="orders").campaign()
        >>> leadership.resign()
        >>> leadership.lost(timeout=10)
        'resigned'
        """
        return _reason(wait(self._inner.lost(), timeout, "the leadership has not ended"))

    async def lost_async(self) -> Reason:
        """Wait as ``lost`` does, in an event loop. For a limit, use ``asyncio.wait_for``."""
        return _reason(await wait_async(self._inner.lost()))

    def events(self) -> Stream[Event]:
        """Return the events from this call to the loss, for ``for`` or ``async for``."""
        return Stream(self._inner.events(), Event._parse)

    def proclaim(self, data: Any) -> None:
        """Write JSON data into the record for observers, and renew the lease. Cost: one PUT.

        >>> import tenure, tenure.testing
        >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
        >>> with election.campaign() as leadership:
        ...     events = leadership.events()
        ...     leadership.proclaim({"port": 9000})
        ...     election.leader().data, next(events).kind
        ({'port': 9000}, 'renewed')
        """
        wait(self._inner.proclaim(json_text(data)))

    async def proclaim_async(self, data: Any) -> None:
        """Proclaim as ``proclaim`` does, in an event loop."""
        await wait_async(self._inner.proclaim(json_text(data)))

    def resign(self) -> None:
        """Seal the epoch, so that another candidate is elected without a wait. Cost: one PUT.

        End the work before this call, because ``check()`` fails after it. The end of a ``with``
        block resigns automatically. If the store does not answer, the call waits until the end of
        the lease.
        """
        wait(self._inner.resign(None))

    async def resign_async(self) -> None:
        """Resign as ``resign`` does, in an event loop."""
        await wait_async(self._inner.resign(None))

    def resign_to(self, successor: str) -> None:
        """Resign, and give precedence to the candidate with the name ``successor``.

        For a name that no candidate can have, raises ``InvalidInputError``, and the process still
        leads.

        >>> import tenure, tenure.testing
        >>> store = tenure.testing.MemoryStore()
        >>> a, b = (tenure.Election(store, prefix="orders", name=name) for name in "ab")
        >>> a.campaign().resign_to("b")
        >>> b.try_campaign().name
        'b'
        """
        wait(self._inner.resign(typed("successor", successor, str)))

    async def resign_to_async(self, successor: str) -> None:
        """Resign as ``resign_to`` does, in an event loop."""
        await wait_async(self._inner.resign(typed("successor", successor, str)))

    def _wait_resigned(self, task: _tenure.Task, error: Optional[BaseException]) -> None:
        try:
            wait(task)
        except TenureError as failed:
            self._not_resigned(failed, error)

    async def __aenter__(self) -> Leadership:
        if self._blocked is not None:
            raise TypeError(
                f"{self._blocked}() blocks the event loop: use `async with` with "
                f"{self._blocked}_async(), or `with`"
            )
        return self

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        if not self._inner.has_resigned:
            try:
                await self.resign_async()
            except TenureError as failed:
                self._not_resigned(failed, error)

    def _not_resigned(self, failed: TenureError, error: Optional[BaseException]) -> None:
        """Report a failed resignation. An exception of the body has precedence."""
        if not isinstance(failed, (LeadershipLost, ForkedProcessError)):
            _logger.warning("could not resign; the lease lapses: %s", failed)
        elif error is None:
            raise failed

    def __repr__(self) -> str:
        state = f"{self.remaining:.1f} s left" if self.leading else "ended"
        return f"<tenure.Leadership epoch={self.epoch} name={self.name!r} {state}>"


class PendingCampaign(Coroutine[Any, Any, Leadership]):
    """A coroutine of one campaign, which starts at ``await`` or ``async with``."""

    def __init__(self, start: Callable[[], Coroutine[Any, Any, Leadership]]) -> None:
        self._start = start
        self._started: Optional[Coroutine[Any, Any, Leadership]] = None
        self._leadership: Optional[Leadership] = None

    def _campaign(self) -> Coroutine[Any, Any, Leadership]:
        if self._started is None:
            self._started = self._start()
        return self._started

    def send(self, value: Any) -> Any:
        return self._campaign().send(value)

    def throw(self, *error: Any) -> Any:
        return self._campaign().throw(*error)

    def close(self) -> None:
        self._campaign().close()

    def __await__(self) -> Generator[Any, Any, Leadership]:
        return self._campaign().__await__()

    if not TYPE_CHECKING:  # so that a type checker also refuses `with`

        def __enter__(self) -> None:
            raise TypeError("campaign_async() is for event loops: use `async with`, or campaign()")

        def __exit__(self, *_: object) -> None: ...

    async def __aenter__(self) -> Leadership:
        self._leadership = await self
        return self._leadership

    async def __aexit__(
        self,
        kind: Optional[type[BaseException]],
        error: Optional[BaseException],
        trace: Optional[TracebackType],
    ) -> None:
        assert self._leadership is not None, "__aenter__ sets the leadership"
        await self._leadership.__aexit__(kind, error, trace)


def _reason(lost: tuple[Reason, str]) -> Reason:
    return lost[0]


def _ask(
    leadership: weakref.ref[Leadership], is_alive: Callable[[], bool], every: float
) -> None:
    """Ask the program whether it is alive, until the end of the leadership."""
    waiting = threading.Event()
    while True:
        held = leadership()
        if held is None or held._inner.remaining == 0:
            return
        inner = held._inner
        del held
        inner.alive()  # the time limit starts at the call
        try:
            answer = is_alive()
            is_clear = bool(answer) and not inspect.isawaitable(answer)
            why = None if is_clear else f"liveness returned {answer!r}, so it resigned"
        except BaseException as error:  # also SystemExit, which would end this thread
            why = f"liveness raised {error!r}, so it resigned"
        if why is not None:
            inner.hung(why)
            return
        inner.alive()
        ends_at = time.monotonic() + every
        while inner.remaining > 0 and (left := ends_at - time.monotonic()) > 0:
            waiting.wait(min(left, 1))
        del inner
