"""Jobs that run once per period, on one of many hosts."""

# No ``from __future__ import annotations``, because ``get_type_hints`` would look up the names in
# ``tenure``, the ``__module__`` of these classes.

import functools
import inspect
import json
import logging
import re
from collections.abc import Coroutine, Generator
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Callable, Literal, Optional, Protocol, TypeVar, Union, cast, overload

from . import _tenure
from ._calls import Seconds, seconds, wait, wait_async, whole
from ._election import Election, Store, open_stores
from ._errors import InvalidInputError, TenureError
from ._leadership import Leadership
from .testing import native

_logger = logging.getLogger("tenure")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}

R = TypeVar("R")
R_co = TypeVar("R_co", covariant=True)


class Job(Protocol[R_co]):
    """A job that runs once per period. Callers omit the parameter ``leadership``.

    ``skipped`` is the reason why the last call in this process did not run the function:
    ``completed``, ``failed`` (in all attempts), ``too_late`` (for ``tolerance``), or ``past`` (a
    later period has begun). If the clock is wrong, the reason is ``in_the_future`` or
    ``not_begun``. If the last call ran the function, ``skipped`` is ``None``.

    >>> import tenure, tenure.testing
    >>> report = tenure.once_per("1d", tenure.testing.MemoryStore(), prefix="job")(lambda: "sent")
    >>> report(), report.skipped
    ('sent', None)
    >>> report(), report.skipped
    (None, 'completed')
    """

    skipped: Optional[
        Literal["completed", "failed", "too_late", "past", "in_the_future", "not_begun"]
    ]

    def __call__(self, *arguments: Any, **named: Any) -> R_co: ...


class _Decorator(Protocol):
    @overload
    def __call__(
        self, function: Callable[..., Coroutine[Any, Any, R]]
    ) -> Job[Coroutine[Any, Any, Optional[R]]]: ...
    @overload
    def __call__(self, function: Callable[..., R]) -> Job[Optional[R]]: ...


def _period(name: str, period: Union[Seconds, str]) -> float:
    """Return a period in seconds. A text has units: ``1h`` or ``1h30m``."""
    if not isinstance(period, str):
        return seconds(name, period)
    parts = re.findall(r"(\d+)(ms|[smhdw])", period)
    if not parts or "".join(number + unit for number, unit in parts) != period:
        raise InvalidInputError(f"{name} must have units, as in 1h or 1h30m, got {period!r}")
    return seconds(name, sum(float(number) * _UNITS[unit] for number, unit in parts))


def once_per(
    period: Union[Seconds, str],
    store: Store,
    *,
    prefix: Optional[str] = None,
    offset: Union[Seconds, str] = 0,
    tolerance: Union[Seconds, str, None] = None,
    retries: int = 0,
    clock_ahead_max: Seconds = 60,
    **settings: Any,
) -> _Decorator:
    """Run a function once in each period, on one of the hosts that call it.

    A call runs the function under a leadership and records the attempt, as ``tenure run
    --once-per`` does on the same store. A call returns ``None`` without running the function if the
    period is completed, if the attempts are used up, or if the period began longer ago than
    ``tolerance``. Then the attribute ``skipped`` of the function is the reason. While another host
    runs the function, a call waits for its end. An exception of the function is raised. The
    function may be a coroutine function. If it has a parameter ``leadership``, it receives the
    leadership as a keyword argument, so this parameter comes last.

    Durations are seconds, ``timedelta``, or texts such as ``1d`` and ``1h30m``:

    - ``period``: the length of a period, at least 1 second. Periods are counted in UTC.
    - ``store``, ``prefix``: as in ``Election``. Each job needs a separate prefix.
    - ``offset``: the time by which each period starts later, such as ``3h`` for 3:00 UTC each day.
      Default: 0.
    - ``tolerance``: the longest time from the start of a period to the call. Default: no limit.
    - ``retries``: the number of attempts after the first one. A waiting or later call, on
      this host or another, makes the next attempt. Default: 0.
    - ``clock_ahead_max``: the job is refused if this host's clock is ahead of the store's clock by
      more than this. A text is not permitted. A test clock is not compared. Default: 60.
    - ``settings``: the other settings of ``Election``, such as ``liveness`` and ``clock``.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> @tenure.once_per("1d", store, prefix="nightly")
    ... def report():
    ...     return "sent"
    >>> report(), report()
    ('sent', None)
    """
    rules = {
        "period": _period("period", period),
        "offset": _period("offset", offset),
        "tolerance": None if tolerance is None else _period("tolerance", tolerance),
        "retries": whole("retries", retries, 0, 2**32 - 1),
        "clock_ahead_max": seconds("clock_ahead_max", clock_ahead_max),
    }

    for name in settings:
        if name not in inspect.signature(Election).parameters:
            raise TypeError(f"once_per() got an unexpected keyword argument {name!r}")

    def decorate(function: Callable[..., Any]) -> Callable[..., Any]:
        if not callable(function):
            raise TypeError(f"a job must be a function, got {function!r}")
        if inspect.isgeneratorfunction(function) or inspect.isasyncgenfunction(function):
            raise TypeError("a job is a function or a coroutine function, not a generator")
        takes_leadership = "leadership" in inspect.signature(function).parameters

        def prepare() -> tuple[Election, _tenure.Job]:
            election = Election(store, prefix=prefix, **settings)
            stores = open_stores(store, prefix)
            clock = settings.get("clock")
            inner = _tenure.Job(stores, json.dumps(rules), election.name, native(clock))
            return election, inner

        def skips(why: Optional[str]) -> bool:
            setattr(job_function, "skipped", why)
            if why is not None:
                level = logging.INFO if why in ("completed", "past") else logging.WARNING
                _logger.log(level, "the period is skipped: %s", why)
            return why is not None

        def more(leadership: Leadership) -> dict[str, Any]:
            return {"leadership": leadership} if takes_leadership else {}

        @functools.wraps(function)
        def call(*arguments: Any, **named: Any) -> Any:
            election, job = prepare()
            if skips(wait(job.skips())):
                return None
            with election.campaign() as leadership:
                attempt, why = wait(job.take(leadership._inner))
                if skips(why):
                    return None
                try:
                    result = function(*arguments, **named, **more(leadership))
                    if inspect.isawaitable(result):
                        raise TypeError("a job that returns an awaitable must be `async def`")
                except BaseException as error:
                    with _reports_unrecorded():
                        wait(attempt.end(_exit_code(error)))
                    raise
                leadership.check()
                wait(attempt.end(0))
                return result

        @functools.wraps(function)
        async def call_async(*arguments: Any, **named: Any) -> Any:
            election, job = prepare()
            if skips(await wait_async(job.skips())):
                return None
            async with election.campaign_async() as leadership:
                attempt, why = await wait_async(job.take(leadership._inner))
                if skips(why):
                    return None
                try:
                    result = await function(*arguments, **named, **more(leadership))
                except BaseException as error:
                    with _reports_unrecorded():
                        await wait_async(attempt.end(_exit_code(error)))
                    raise
                leadership.check()
                await wait_async(attempt.end(0))
                return result

        job_function = call_async if inspect.iscoroutinefunction(function) else call
        setattr(job_function, "skipped", None)
        return job_function

    return cast(_Decorator, decorate)


def _exit_code(error: BaseException) -> int:
    """Return the exit code of a process that ends with this exception."""
    code = error.code if isinstance(error, SystemExit) else 1
    return 0 if code is None else code & 0xFF if isinstance(code, int) else 1


@contextmanager
def _reports_unrecorded() -> Generator[None, None, None]:
    """Log a failed write of the record. An attempt counts even if its end is not recorded."""
    try:
        yield
    except TenureError as error:
        _logger.warning("the end of the job is not recorded: %s", error)


@dataclass(frozen=True)
class Period:
    """The newest period that any host has begun for a job.

    - ``start``, ``length``: the period. ``start`` is in UTC.
    - ``attempts``: the number of attempts of all hosts.
    - ``candidate``: the name of the host of the last attempt.
    - ``started_at``, ``ended_at``: the last attempt, by the clock of its host. ``ended_at`` is
      ``None`` while the job runs, or if its host died or lost its leadership.
    - ``exit_code``: 0 if the function returned, 1 if it raised, or the code of ``SystemExit`` or
      of the command. ``None`` like ``ended_at``.
    - ``last_completed``: the start of the last completed period, or ``None``.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> tenure.once_per("1h", store, prefix="nightly")(lambda: "ran")()
    'ran'
    >>> period = tenure.last_period(store, prefix="nightly")
    >>> period.attempts, period.exit_code, period.length.total_seconds()
    (1, 0, 3600.0)
    """

    start: datetime
    length: timedelta
    attempts: int
    candidate: str
    started_at: datetime
    ended_at: Optional[datetime]
    exit_code: Optional[int]
    last_completed: Optional[datetime]


def last_period(store: Store, *, prefix: Optional[str] = None) -> Optional[Period]:
    """Return the newest period of a job, or ``None`` if no host has begun a period. Cost: GET.

    ``store`` and ``prefix`` are those of the job.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> tenure.once_per("1h", store, prefix="nightly", name="host-1")(lambda: 1)()
    1
    >>> period = tenure.last_period(store, prefix="nightly")
    >>> period.candidate, period.exit_code, period.last_completed == period.start
    ('host-1', 0, True)
    """
    text = wait(_tenure.last_period(open_stores(store, prefix)))
    if text is None:
        return None
    record = json.loads(text)
    return Period(
        start=_required(record["period_start"]),
        length=timedelta(milliseconds=record["period_ms"]),
        attempts=record["attempts"],
        candidate=record["candidate"],
        started_at=_required(record["started_at"]),
        ended_at=_date(record["ended_at"]),
        exit_code=record["exit_code"],
        last_completed=_date(record["last_completed"]),
    )


def _required(text: str) -> datetime:
    # Before Python 3.11, fromisoformat accepts only 3 or 6 digits of a second, and no Z.
    whole, _, fraction = text.rstrip("Z").partition(".")
    return datetime.fromisoformat(f"{whole}.{fraction[:6]:0<6}+00:00")


def _date(text: Optional[str]) -> Optional[datetime]:
    return None if text is None else _required(text)
