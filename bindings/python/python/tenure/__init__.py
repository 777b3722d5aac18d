"""Leader election on object storage: one writer, a bucket, and nothing else.

>>> import tempfile, tenure
>>> election = tenure.Election(tempfile.mkdtemp(), name="worker-7", validity=30)
>>> with election.campaign() as leadership:
...     leadership.check()  # right before each write, and sent with it
1
"""

from __future__ import annotations

import atexit as _atexit
import inspect as _inspect
import multiprocessing as _multiprocessing
import multiprocessing.util as _processes

from . import _tenure, testing
from ._calls import Seconds
from ._election import Election, Store
from ._errors import (
    AccessDeniedError,
    CorruptRecordError,
    EpochsExhaustedError,
    ForkedProcessError,
    InvalidInputError,
    LeadershipLost,
    NewestDeletedError,
    NoSuchStoreError,
    RecordTooNewError,
    ReplacedError,
    StaleTokenError,
    TenureError,
    TrimmedError,
    UnavailableError,
    UnsafeStoreError,
)
from ._group import Group, Partition
from ._guards import (
    Compactor,
    Contents,
    DurableGate,
    Entry,
    FencedLog,
    FencedObject,
    Gate,
    Holder,
)
from ._jobs import Job, Period, last_period, once_per
from ._leadership import Leadership
from ._reports import Span, history, probe
from ._stream import Stream
from ._types import Event, Leader, Observation, Outcome, Snapshot

__version__ = _tenure.__version__

__all__ = [
    "AccessDeniedError",
    "Compactor",
    "Contents",
    "CorruptRecordError",
    "DurableGate",
    "Election",
    "Entry",
    "EpochsExhaustedError",
    "Event",
    "FencedLog",
    "FencedObject",
    "ForkedProcessError",
    "Gate",
    "Group",
    "Holder",
    "InvalidInputError",
    "Job",
    "Leader",
    "Leadership",
    "LeadershipLost",
    "NewestDeletedError",
    "NoSuchStoreError",
    "Observation",
    "Outcome",
    "Partition",
    "Period",
    "RecordTooNewError",
    "ReplacedError",
    "Seconds",
    "Snapshot",
    "Span",
    "StaleTokenError",
    "Store",
    "Stream",
    "TenureError",
    "TrimmedError",
    "UnavailableError",
    "UnsafeStoreError",
    "history",
    "last_period",
    "once_per",
    "probe",
    "testing",
]

# Tracebacks and help() then show the public module of each item, not its private one.
for _name in __all__:
    _item = globals()[_name]
    if _inspect.isclass(_item) or _inspect.isfunction(_item):
        _item.__module__ = __name__

# When the interpreter ends, resign all leaderships, and wait for at most 5 seconds.
_atexit.register(_tenure.shutdown, 5.0)


def _at_end_of_child(_: object = None) -> None:
    """Resign at the end of a child of `multiprocessing`, which may end without `atexit`."""
    if _multiprocessing.parent_process() is not None:
        _processes.Finalize(None, _tenure.shutdown, args=(5.0,), exitpriority=0)


_at_end_of_child()
_processes.register_after_fork(_at_end_of_child, _at_end_of_child)
