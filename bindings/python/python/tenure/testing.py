"""A store in memory, and a clock that a test moves."""

from __future__ import annotations

from typing import Optional

from . import _tenure
from ._calls import Seconds, seconds, typed, wait

__all__ = ["Clock", "MemoryStore", "idle"]


class Clock:
    """The clocks of this machine, plus the time that a test adds.

    An advance past the end of a lease ends it immediately. The library assumes that the process was
    paused, so the reason of the loss is ``suspended``. Calls that wait notice an advance within a
    second. Give one clock to the store, the elections, the groups and the jobs of a test.

    A candidate takes over only after it has read the last renewal and a validity has passed. So
    call ``try_campaign()`` of the candidate directly before an advance, or advance again later.

    >>> import tenure, tenure.testing
    >>> clock = tenure.testing.Clock()
    >>> store = tenure.testing.MemoryStore(clock)
    >>> leadership = tenure.Election(store, prefix="orders", clock=clock).campaign()
    >>> clock.advance(60)
    >>> leadership.lost()
    'suspended'
    """

    def __init__(self) -> None:
        self._inner = _tenure.Clock()

    def advance(self, duration: Seconds) -> None:
        """Move the clock forward by ``duration``, in seconds or a ``timedelta``."""
        self._inner.advance(seconds("duration", duration))


def native(clock: Optional[Clock]) -> Optional[_tenure.Clock]:
    """Return the native part of a clock."""
    if clock is not None and not isinstance(clock, Clock):
        raise TypeError(f"clock must be a tenure.testing.Clock, got {clock!r}")
    return None if clock is None else clock._inner


class MemoryStore:
    """An empty store in memory, for the tests of an application.

    The objects get their dates from ``clock``. Default: the clock of the machine. Each request
    lasts ``delay`` seconds: a write takes effect at the end, and a read returns the state at its
    start. Default: 0. One store can hold several elections, each with its own ``prefix``.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> tenure.Election(store, prefix="orders").campaign().resign()
    >>> [key for key in store.keys() if "lock" in key]
    ['orders/lock-0000000001.json']
    """

    def __init__(self, clock: Optional[Clock] = None, *, delay: Seconds = 0) -> None:
        self._inner = _tenure.Stores.memory(native(clock), seconds("delay", delay))

    def keys(self) -> list[str]:
        """Return the keys of all objects in order."""
        keys: list[str] = wait(self._inner.keys())
        return keys

    def read(self, key: str) -> Optional[bytes]:
        """Return the content of the object ``key``, or ``None`` if the key is free.

        >>> import tenure, tenure.testing
        >>> store = tenure.testing.MemoryStore()
        >>> tenure.FencedObject(store, 1, name="state").write(b"one")
        >>> store.read("state").splitlines()[-1]
        b'one'
        """
        body: Optional[bytes] = wait(self._inner.read(typed("key", key, str)))
        return body


def idle(timeout: Seconds = 10) -> bool:
    """Wait until no leadership and no cancelled campaign of this process is left.

    Return ``False`` if one is left after ``timeout`` seconds.

    >>> import tenure, tenure.testing
    >>> tenure.Election(tenure.testing.MemoryStore(), prefix="orders").campaign().resign()
    >>> tenure.testing.idle()
    True
    """
    return _tenure.idle(seconds("timeout", timeout))
