"""The exceptions of tenure, by the kind of the error."""

# No ``from __future__ import annotations``, because ``get_type_hints`` would look up the names in
# ``tenure``, the ``__module__`` of these classes.
import re
from typing import ClassVar, Literal

#: Reason of a loss.
Reason = Literal[
    "superseded",
    "sealed",
    "lease_ended",
    "suspended",
    "wall_clock_ahead",
    "vanished",
    "tampered",
    "resigned",
    "hung",
    "at_risk",
    "unknown",
]


class TenureError(Exception):
    """The base class of all errors of tenure.

    The text of an error describes the failure and ends with the remedy. If a request was sent, the
    text also states whether the request may have taken effect.

    >>> import tenure
    >>> try:
    ...     tenure.Election("s3:/my-bucket/orders")
    ... except tenure.TenureError as error:
    ...     print(type(error).__name__, error.may_have_happened)
    InvalidInputError False
    """

    remedy: ClassVar[str] = "Report a bug."
    #: True if each error of this class follows a request to the store.
    _sent: ClassVar[bool] = True

    def __init__(self, message: str, may_have_happened: bool = False) -> None:
        super().__init__(message)
        self.message = message
        #: True if the requested write may have taken effect, or may still take effect.
        self.may_have_happened = may_have_happened

    def __str__(self) -> str:
        effect = ""
        if self.may_have_happened:
            effect = " The request may have taken effect."
        elif self._sent:
            effect = " The request had no effect."
        return f"{self.message}.{effect} {self.remedy}"

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.may_have_happened)


class InvalidInputError(TenureError, ValueError):
    """A setting, an epoch or a URL is out of bounds, or settings contradict each other.

    >>> import tenure
    >>> tenure.Gate().admit(0)
    Traceback (most recent call last):
    ...
    tenure.InvalidInputError: token must be 1 to 9999999999, got 0...
    """

    remedy = "Correct the value that the message names."
    _sent = False


class AccessDeniedError(TenureError):
    """The store refused the credentials, or a permission is missing.

    >>> import tenure
    >>> raise tenure.AccessDeniedError("reading orders/lock-0000000001.json: 403 Forbidden")
    Traceback (most recent call last):
    ...
    tenure.AccessDeniedError: reading orders/lock-0000000001.json: 403...
    """

    remedy = "Correct the credentials, the permission or the clock that the message names."


class NoSuchStoreError(TenureError):
    """The bucket or the directory does not exist, or is in another region.

    >>> import tenure
    >>> tenure.Election("/dev/null/orders").campaign()
    Traceback (most recent call last):
    ...
    tenure.NoSuchStoreError: opening the store: no directory exists at /dev/null...
    """

    remedy = "Create the store, or correct its address."


class UnsafeStoreError(TenureError):
    """The store does not give the guarantees that the protocol needs.

    >>> import tenure
    >>> raise tenure.UnsafeStoreError("the store ignores If-None-Match")
    Traceback (most recent call last):
    ...
    tenure.UnsafeStoreError: the store ignores If-None-Match...
    """

    remedy = "Do not use this store for elections."


class CorruptRecordError(TenureError):
    """An object of the store cannot be read as a record.

    >>> import pathlib, tempfile, tenure
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "lock-0000000001.json").write_text("no record")
    9
    >>> tenure.Election(folder).snapshot()
    Traceback (most recent call last):
    ...
    tenure.CorruptRecordError: lock-0000000001.json in file:///...
    """

    remedy = "Inspect the key that the message names, then depose the epoch or restore the object."


class RecordTooNewError(TenureError):
    """The record has a later format than this version of tenure can read.

    >>> import pathlib, tempfile, tenure
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> (folder / "lock-0000000001.json").write_text('{"format": 9}')
    13
    >>> tenure.Election(folder).snapshot()
    Traceback (most recent call last):
    ...
    tenure.RecordTooNewError: lock-0000000001.json in file:///... has format 9...
    """

    remedy = "Upgrade tenure."


class EpochsExhaustedError(TenureError):
    """The greatest possible epoch, 9999999999, has ended.

    >>> import tenure, tenure.testing
    >>> tenure.Election(tenure.testing.MemoryStore()).restore(9999999999, 0)
    Traceback (most recent call last):
    ...
    tenure.EpochsExhaustedError: 9999999999 is the last epoch...
    """

    remedy = "Start a new prefix, and reset the tokens that guarded resources remember."


class NewestDeletedError(TenureError):
    """The newest epoch object was deleted.

    >>> import pathlib, tempfile, tenure
    >>> folder = pathlib.Path(tempfile.mkdtemp())
    >>> election = tenure.Election(folder)
    >>> election.campaign().resign()
    >>> (folder / "lock-0000000001.json").unlink()
    >>> election.try_campaign()
    Traceback (most recent call last):
    ...
    tenure.NewestDeletedError: lock-0000000001.json in file:///... is missing...
    """

    remedy = "Call restore() with at least the greatest token that any process received."


class UnavailableError(TenureError):
    """The store cannot be reached or fails.

    >>> import tenure
    >>> raise tenure.UnavailableError("writing orders/a: timeout", may_have_happened=True)
    Traceback (most recent call last):
    ...
    tenure.UnavailableError: writing orders/a: timeout. The request may have taken effect...
    """

    remedy = "Try again."


class StaleTokenError(TenureError):
    """The guarded resource has seen a greater token. The refusal is final.

    >>> import tenure
    >>> gate = tenure.Gate()
    >>> gate.admit(2)
    >>> gate.admit(1)
    Traceback (most recent call last):
    ...
    tenure.StaleTokenError: the token 1 is refused: epoch 2 has been seen...
    """

    remedy = "Stop the work: a later leader writes."
    _sent = False


class ReplacedError(TenureError):
    """A later writer with the same token has opened the resource.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> first, second = (tenure.FencedObject(store, 1, name="state") for _ in range(2))
    >>> first.write(b"a")
    >>> second.write(b"b")
    >>> first.write(b"c")
    Traceback (most recent call last):
    ...
    tenure.ReplacedError: a later writer of epoch 1 has opened the resource...
    """

    remedy = "Use one writer for each token, or open the resource again."


class TrimmedError(TenureError):
    """The requested entries of the log were trimmed.

    >>> import tenure, tenure.testing
    >>> log = tenure.FencedLog(tenure.testing.MemoryStore(), 1, name="log")
    >>> numbers = [log.append(b"entry") for _ in range(3)]
    >>> log.trim(numbers[-1]) > 0
    True
    >>> next(log.read_from(1))
    Traceback (most recent call last):
    ...
    tenure.TrimmedError: the entries before 4 were trimmed...
    """

    remedy = "Read from the oldest entry."
    _sent = False


class ForkedProcessError(TenureError, RuntimeError):
    """The process was forked after the first call of tenure. A fork does not copy tenure's threads.

    >>> import tenure
    >>> raise tenure.ForkedProcessError("this process was forked")
    Traceback (most recent call last):
    ...
    tenure.ForkedProcessError: this process was forked...
    """

    remedy = (
        'Use the start method "spawn" or "forkserver" of multiprocessing, or make the first call '
        "of tenure after the fork."
    )
    _sent = False


class LeadershipLost(TenureError):
    """The leadership has ended. Stop the work, because a loss is final.

    ``reason`` is one word:

    - ``superseded``: a foreign program created a greater epoch.
    - ``sealed``: a peer considered this process dead, or an operator deposed it.
    - ``lease_ended``: the store answered no renewal in time.
    - ``suspended``: the process or its machine was paused.
    - ``wall_clock_ahead``: the wall clock moved ahead of the other clocks.
    - ``vanished``, ``tampered``: the epoch object was deleted, or has a foreign body.
    - ``resigned``: this process resigned.
    - ``hung``: the program gave no sign of life for the time ``liveness``.
    - ``at_risk``: a guard refused a write, because the lease is near its end.
    - ``unknown``: a request failed because the leadership had ended, for a reason that is not
      known.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> leadership = tenure.Election(store, prefix="orders").campaign()
    >>> leadership.resign()
    >>> try:
    ...     leadership.check()
    ... except tenure.LeadershipLost as lost:
    ...     lost.reason
    'resigned'
    """

    remedy = "Stop the work, and campaign again."
    _sent = False

    def __init__(
        self, message: str, may_have_happened: bool = False, reason: Reason = "unknown"
    ) -> None:
        super().__init__(message, may_have_happened)
        self.reason = reason

    def __reduce__(self) -> tuple[object, ...]:
        return type(self), (self.message, self.may_have_happened, self.reason)


_KINDS: dict[str, type[TenureError]] = {
    "InvalidInput": InvalidInputError,
    "AccessDenied": AccessDeniedError,
    "NoSuchStore": NoSuchStoreError,
    "UnsafeStore": UnsafeStoreError,
    "CorruptRecord": CorruptRecordError,
    "RecordTooNew": RecordTooNewError,
    "EpochsExhausted": EpochsExhaustedError,
    "NewestDeleted": NewestDeletedError,
    "Unavailable": UnavailableError,
    "LeadershipLost": LeadershipLost,
    "Stale": StaleTokenError,
    "Replaced": ReplacedError,
    "Trimmed": TrimmedError,
}


_SETTING = re.compile(r"(validity|wait|\w+_(interval|timeout|delay|deadline|margin|backoff))\b")
_DURATION = re.compile(r"\b(\d+(?:\.\d+)?)(ns|µs|ms|s)\b")
_UNITS = {"ns": 1e-9, "µs": 1e-6, "ms": 1e-3, "s": 1.0}


def _in_seconds(duration: re.Match[str]) -> str:
    seconds = f"{float(duration[1]) * _UNITS[duration[2]]:.9f}"
    return seconds.rstrip("0").rstrip(".") + " s"


def of_kind(kind: str, message: str, may_have_happened: bool) -> TenureError:
    """Return the exception for an error of the native part, with durations in seconds."""
    if kind == "InvalidInput" and _SETTING.match(message):
        message = _DURATION.sub(_in_seconds, re.sub(r"^wait\b", "wait_for", message))
    return _KINDS.get(kind, TenureError)(message, may_have_happened)


def lost(reason: Reason, message: str, may_have_happened: bool) -> LeadershipLost:
    """Return the exception for a lost leadership."""
    text = message if reason == "at_risk" else f"the leadership has ended: {message}"
    return LeadershipLost(text, may_have_happened, reason)


def forked() -> ForkedProcessError:
    """Return the exception for a call in a forked process."""
    return ForkedProcessError("this process was forked from a process that uses tenure")
