"""A store in memory, and a clock that a test moves."""

from __future__ import annotations

from typing import Optional

from . import _tenure
from ._calls import Seconds, seconds, wait

__all__ = ["Clock", "MemoryStore", "idle"]


class Clock:
    """The clocks of this machine, plus the time that a test adds.

    An advance past the end of a lease ends it immediately. Waits notice an advance within a second.

    >>> import tenure, tenure.testing
    >>> clock = tenure.testing.Clock()
    >>> store = tenure.testing.MemoryStore(clock)
    >>> leadership = tenure.Election(store, prefix="orders", clock=clock).campaign()
    >>> clock.advance(60)
    >>> leadership.leading
    False
    """

    def __init__(self) -> None:
        self._inner = _tenure.Clock()

    def advance(self, duration: Seconds) -> None:
        """Move the clock forward by seconds, or by a ``timedelta``.

        An advance while a process leads is like a suspended machine. After an advance past the end
        of its lease, the reason of ``LeadershipLost`` is ``suspended``.
        """
        self._inner.advance(seconds("duration", duration))


class MemoryStore:
    """An empty store in memory, for the tests of an application.

    After ``delay``, a write takes effect, and a read returns the state at its start.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> tenure.Election(store, prefix="orders").campaign().resign()
    >>> [key for key in store.keys() if "lock" in key]
    ['orders/lock-0000000001.json']
    """

    def __init__(self, clock: Optional[Clock] = None, *, delay: Seconds = 0) -> None:
        inner_clock = None if clock is None else clock._inner
        self._inner = _tenure.Stores.memory(inner_clock, seconds("delay", delay))

    def keys(self) -> list[str]:
        """Return the keys of all objects in order."""
        keys: list[str] = wait(self._inner.keys())
        return keys

    def read(self, key: str) -> Optional[bytes]:
        """Return the content of an object, or ``None`` if the key is free."""
        body: Optional[bytes] = wait(self._inner.read(key))
        return body


def idle(timeout: Seconds = 10) -> bool:
    """Wait until no leadership and no cancelled campaign of this process is left.

    Return ``False`` if one is left after the timeout.

    >>> import tenure, tenure.testing
    >>> tenure.Election(tenure.testing.MemoryStore(), prefix="orders").campaign().resign()
    >>> tenure.testing.idle()
    True
    """
    return _tenure.idle(seconds("timeout", timeout))
