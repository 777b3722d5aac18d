"""Guards that refuse the tokens of former leaders."""

# No ``from __future__ import annotations``, because ``get_type_hints`` would look up the names in
# ``tenure``, the ``__module__`` of these classes.
import json
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any, Optional, Union

from . import _tenure
from ._calls import Seconds, seconds, typed, wait, wait_async, whole
from ._election import Store, open_stores
from ._errors import InvalidInputError
from ._group import Partition
from ._leadership import Leadership
from ._stream import Stream

#: The right to write: a leadership, a partition, or the number of a token.
Holder = Union[Leadership, Partition, int]


def _inner(holder: Optional[Holder]) -> Any:
    return holder._inner if isinstance(holder, (Leadership, Partition)) else holder


def _place(store: Store, name: Optional[str], kind: str = "") -> _tenure.Stores:
    """Open a store, and add a name to its prefix. With ``kind``, the prefix must not be empty."""
    stores = open_stores(store, None)
    if name is None:
        if kind and not stores.prefix:
            raise InvalidInputError(f'the key is empty: give name, as in {kind}(…, name="state")')
        return stores
    typed("name", name, str)
    return stores.at(f"{stores.prefix}/{name}" if stores.prefix else name)


def _bytes(body: Any) -> bytes:
    if not isinstance(body, bytes):
        hint = "body.encode()" if isinstance(body, str) else "a bytes object"
        raise TypeError(f"body must be bytes, got {type(body).__name__}: use {hint}")
    return body


@dataclass(frozen=True)
class Contents:
    """The content of a fenced object.

    - ``epoch``: the token of its writer.
    - ``body``: the bytes, or ``None`` if the writer has claimed the object and written nothing.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> tenure.FencedObject(store, 7, name="state").write(b"one")
    >>> tenure.FencedObject(store, name="state").read()
    Contents(epoch=7, body=b'one')
    """

    epoch: int
    body: Optional[bytes]


class FencedObject:
    """One object that refuses the writes of former leaders.

    - ``store``: a URL, the path of a directory, or a ``MemoryStore``, as in ``Election``. The
      prefix of the URL is the key of the object.
    - ``holder``: the right to write: a ``Leadership``, a ``Partition``, or a token. With a
      leadership or a partition, writes also fail near the end of the lease. Readers need no holder.
    - ``name``: a path that is added to the prefix. A directory and a store in memory need it.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> with tenure.Election(store, prefix="orders").campaign() as leadership:
    ...     manifest = tenure.FencedObject(store, leadership, name="manifest")
    ...     manifest.open()  # claims the object; nothing was written yet
    ...     manifest.write(b"a step further")
    >>> tenure.FencedObject(store, name="manifest").read().body
    b'a step further'
    """

    def __init__(
        self, store: Store, holder: Optional[Holder] = None, *, name: Optional[str] = None
    ) -> None:
        self._holder = holder
        self._inner = _tenure.FencedObject(_place(store, name, "FencedObject"), _inner(holder))

    def read(self) -> Optional[Contents]:
        """Read the object, or return ``None`` if it does not exist. Cost: GET."""
        return _contents(wait(self._inner.read()))

    async def read_async(self) -> Optional[Contents]:
        """Read as ``read`` does, in an event loop."""
        return _contents(await wait_async(self._inner.read()))

    def open(self) -> Optional[bytes]:
        """Claim the object, so that it refuses lower tokens. Return its body, or ``None``."""
        body: Optional[bytes] = wait(self._inner.open())
        return body

    async def open_async(self) -> Optional[bytes]:
        """Claim as ``open`` does, in an event loop."""
        body: Optional[bytes] = await wait_async(self._inner.open())
        return body

    def write(self, body: bytes) -> None:
        """Replace the content by ``body``. The first write also claims the object.

        Cost: PUT, and GET at each 16th write. Raises ``StaleTokenError`` if a later leader has
        claimed the object, and ``LeadershipLost`` near the end of the lease.
        """
        wait(self._inner.write(_bytes(body)))

    async def write_async(self, body: bytes) -> None:
        """Write as ``write`` does, in an event loop."""
        await wait_async(self._inner.write(_bytes(body)))


@dataclass(frozen=True)
class Entry:
    """An entry of a fenced log.

    - ``number``: the position of the entry in the log. Numbers rise, with gaps.
    - ``epoch``: the token of its writer.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> number = tenure.FencedLog(store, 7, name="log").append(b"one")
    >>> tenure.FencedLog(store, name="log").latest() == tenure.Entry(number, 7, b"one")
    True
    """

    number: int
    epoch: int
    body: bytes


class FencedLog:
    """A log that refuses the entries of former leaders.

    ``store`` and ``holder`` are as in ``FencedObject``. ``name`` is added to the prefix of the URL.
    A log may have an empty prefix.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> with tenure.Election(store, prefix="orders").campaign() as leadership:
    ...     log = tenure.FencedLog(store, leadership, name="orders-log")
    ...     log.append(b"one") < log.append(b"two")
    True
    >>> log = tenure.FencedLog(store, name="orders-log")
    >>> [entry.body for entry in log.read_from(1)]
    [b'one', b'two']
    >>> log.latest().number > log.oldest()
    True
    """

    def __init__(
        self, store: Store, holder: Optional[Holder] = None, *, name: Optional[str] = None
    ) -> None:
        self._holder = holder
        self._inner = _tenure.FencedLog(_place(store, name), _inner(holder))

    def append(self, body: bytes) -> int:
        """Append ``body``, and return the number of the entry. The first append claims the log.

        Each claim also takes an entry number, so numbers have gaps. If an append failed but may
        have taken effect, the next append first completes it.
        """
        number: int = wait(self._inner.append(_bytes(body)))
        return number

    async def append_async(self, body: bytes) -> int:
        """Append as ``append`` does, in an event loop."""
        number: int = await wait_async(self._inner.append(_bytes(body)))
        return number

    def open(self) -> Optional[Entry]:
        """Claim the log, and return its newest entry, or ``None`` if it is empty.

        >>> import tenure, tenure.testing
        >>> log = tenure.FencedLog(tenure.testing.MemoryStore(), 7, name="log")
        >>> print(log.open())
        None
        """
        return _entry(wait(self._inner.open()))

    async def open_async(self) -> Optional[Entry]:
        """Claim as ``open`` does, in an event loop."""
        return _entry(await wait_async(self._inner.open()))

    def settle(self) -> Optional[int]:
        """Complete an append that may have taken effect, and return the number of its entry.

        Return ``None`` if no such append is pending.

        >>> import tenure, tenure.testing
        >>> print(tenure.FencedLog(tenure.testing.MemoryStore(), 7, name="log").settle())
        None
        """
        number: Optional[int] = wait(self._inner.settle())
        return number

    def latest(self) -> Optional[Entry]:
        """Return the newest entry, or ``None``. Needs no token."""
        return _entry(wait(self._inner.latest()))

    async def latest_async(self) -> Optional[Entry]:
        """Return the newest entry as ``latest`` does, in an event loop."""
        return _entry(await wait_async(self._inner.latest()))

    def read_from(self, number: int) -> Stream[Entry]:
        """Return the entries from this number on, for ``for`` or ``async for``. Needs no token."""
        number = whole("number", number)
        return Stream(self._inner.read_from(number), lambda read: Entry(*read))

    def oldest(self) -> int:
        """Return the number of the oldest entry that no trim has deleted."""
        number: int = wait(self._inner.oldest())
        return number

    def trim(self, before: int) -> int:
        """Delete the entries before this number, but never the newest entry.

        Return the number of the oldest entry that may remain. A trim needs no token: any process
        can delete entries, so call it only under a leadership that still passes ``check()``.
        """
        oldest: int = wait(self._inner.trim(whole("before", before)))
        return oldest


class Gate:
    """Guards a service in memory: it refuses tokens below the greatest token it has seen.

    >>> import tenure
    >>> gate = tenure.Gate()
    >>> gate.admit(2)  # right before the work of a request with this token
    >>> with gate.enter(3):  # waits until work with lower tokens has ended
    ...     gate.newest
    3
    >>> try:
    ...     gate.admit(2)
    ... except tenure.StaleTokenError as error:
    ...     print(error.message)
    the token 2 is refused: epoch 3 has been seen
    """

    def __init__(self) -> None:
        self._inner = _tenure.Gate()

    def admit(self, token: int) -> None:
        """Remember the token. Raise ``StaleTokenError`` if a greater token has been seen."""
        self._inner.admit(whole("token", token, 1))

    @contextmanager
    def enter(self, token: int) -> Generator[None, None, None]:
        """Run the block once all work below ``token`` has ended. Refuses as ``admit`` does."""
        permit: _tenure.Permit = wait(self._inner.enter(whole("token", token, 1)))
        try:
            yield
        finally:
            permit.leave()

    @property
    def newest(self) -> Optional[int]:
        """The greatest token, or ``None`` before the first token. Sends no request."""
        return self._inner.newest


class DurableGate:
    """A gate that keeps its greatest token in an object, so it survives a restart.

    ``store`` and ``name`` locate the object, as in ``FencedObject``.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> tenure.DurableGate(store, name="gate").admit(7)
    >>> tenure.DurableGate(store, name="gate").newest()
    7
    """

    def __init__(self, store: Store, *, name: Optional[str] = None) -> None:
        self._inner = _tenure.DurableGate(_place(store, name, "DurableGate"))

    def admit(self, token: int) -> None:
        """Remember the token. Raise ``StaleTokenError`` if a greater token has been seen."""
        wait(self._inner.admit(whole("token", token, 1)))

    async def admit_async(self, token: int) -> None:
        """Admit as ``admit`` does, in an event loop."""
        await wait_async(self._inner.admit(whole("token", token, 1)))

    def newest(self) -> Optional[int]:
        """Read the greatest token, or ``None`` before the first token. Cost: GET."""
        token: Optional[int] = wait(self._inner.newest())
        return token


class Compactor:
    """Deletes superseded epoch objects. The newest epoch object is never deleted.

    - ``store``, ``prefix``: the election, as in ``Election``.
    - ``keep_epochs``: the number of the newest epochs to keep, 1 to 100000. Default: 10.
    - ``min_age``: the age below which epochs are kept, in seconds or ``timedelta``. Less than an
      hour is only for tests. Default: 3600.
    - ``dry_run``: deletes nothing, and reports what a run would delete. Default: ``False``.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> for _ in range(5):
    ...     tenure.Election(store, prefix="orders").campaign().resign()
    >>> report = tenure.Compactor(store, prefix="orders", keep_epochs=2, min_age=0).run()
    >>> report["deleted"], report["kept"]
    (3, 2)
    """

    def __init__(
        self,
        store: Store,
        *,
        prefix: Optional[str] = None,
        keep_epochs: Optional[int] = None,
        min_age: Optional[Seconds] = None,
        dry_run: bool = False,
    ) -> None:
        age = None if min_age is None else seconds("min_age", min_age)
        kept = whole("keep_epochs", keep_epochs, 1, 100_000)
        self._arguments = (open_stores(store, prefix), kept, age, dry_run)

    def run(self) -> dict[str, Any]:
        """Delete once, and return the report.

        Its counts are ``listed``, ``deleted``, ``kept``, ``too_young`` (kept because of
        ``min_age``) and ``failed`` epochs, the ``bytes`` of the deleted bodies, and the
        ``requests``. The other keys are ``newest``, an epoch or ``None``; ``held``, true during a
        restore; ``min_age_ms``; ``dry_run``; ``interrupted``; and ``first_failure``, a text or
        ``None``.
        """
        report: dict[str, Any] = json.loads(wait(_tenure.compact(*self._arguments)))
        return report

    async def run_async(self) -> dict[str, Any]:
        """Delete as ``run`` does, in an event loop."""
        report: dict[str, Any] = json.loads(await wait_async(_tenure.compact(*self._arguments)))
        return report


def _contents(read: Any) -> Optional[Contents]:
    return None if read is None else Contents(*read)


def _entry(read: Any) -> Optional[Entry]:
    return None if read is None else Entry(*read)
