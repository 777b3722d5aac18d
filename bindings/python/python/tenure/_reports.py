"""Reports on a store."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional

from . import _tenure
from ._calls import wait
from ._election import Store, open_stores
from ._types import _date


@dataclass(frozen=True)
class Span:
    """One epoch of an election. The times are estimates by the store's clock.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> with tenure.Election(store, prefix="orders").campaign():
    ...     [span] = tenure.history(store, prefix="orders")
    >>> span.epoch, span.end, span.stop
    (1, None, None)
    """

    epoch: int
    candidate: Optional[str]
    start: Optional[datetime]
    #: ``None`` while the leader leads.
    stop: Optional[datetime]
    #: End of the epoch, as in ``Snapshot``.
    end: Optional[str]
    lapsed: bool
    sealed_by: Optional[str]
    forced_by: Optional[str]
    reason: Optional[str]
    #: Reason why the object cannot be read.
    unreadable: Optional[str]


def history(
    store: Store, *, prefix: Optional[str] = None, limit: Optional[int] = None
) -> list[Span]:
    """Return the past leaders, from the remaining epoch objects, in ascending order.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> for name in ("a", "b"):
    ...     tenure.Election(store, prefix="orders", name=name).campaign().resign()
    >>> [(span.candidate, span.end) for span in tenure.history(store, prefix="orders")]
    [('a', 'resigned'), ('b', 'resigned')]
    """
    spans: list[dict[str, Any]] = json.loads(
        wait(_tenure.history(open_stores(store, prefix), limit))
    )
    dates = ("start", "stop")
    return [Span(**{**span, **{name: _date(span[name]) for name in dates}}) for span in spans]


def probe(
    store: Store, *, prefix: Optional[str] = None, race_rounds: int = 10
) -> dict[str, Optional[str]]:
    """Check the guarantees of a store with some hundred requests, and delete the objects again.

    Return the failure of each check, or ``None`` for a passed check.

    >>> import tenure, tenure.testing
    >>> results = tenure.probe(tenure.testing.MemoryStore(), prefix="orders")
    >>> [name for name, failure in results.items() if failure is not None]
    []
    """
    results: dict[str, Optional[str]] = json.loads(
        wait(_tenure.probe(open_stores(store, prefix), race_rounds))
    )
    return results
