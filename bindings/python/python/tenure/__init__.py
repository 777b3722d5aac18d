"""Leader election on object storage: one writer, a bucket, and nothing else.

>>> import tempfile, tenure
>>> election = tenure.Election(tempfile.mkdtemp(), name="worker-7", validity=30)
>>> with election.campaign() as leadership:
...     leadership.check()  # right before each write, and sent with it
1
"""

from __future__ import annotations

import atexit as _atexit

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
    TenureError,
    UnavailableError,
    UnsafeStoreError,
)
from ._leadership import Leadership
from ._stream import Stream
from ._types import Event, Leader, Observation, Outcome, Snapshot

__version__ = _tenure.__version__

__all__ = [
    "AccessDeniedError",
    "CorruptRecordError",
    "Election",
    "EpochsExhaustedError",
    "Event",
    "ForkedProcessError",
    "InvalidInputError",
    "Leader",
    "Leadership",
    "LeadershipLost",
    "NewestDeletedError",
    "NoSuchStoreError",
    "Observation",
    "Outcome",
    "RecordTooNewError",
    "Seconds",
    "Snapshot",
    "Store",
    "Stream",
    "TenureError",
    "UnavailableError",
    "UnsafeStoreError",
    "testing",
]

# The end of the interpreter resigns all leaderships, and waits at most for this time.
_atexit.register(_tenure.shutdown, 5.0)
