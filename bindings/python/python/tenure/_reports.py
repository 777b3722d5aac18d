"""Reports on a store."""

# No ``from __future__ import annotations``, because ``get_type_hints`` would look up the names in
# ``tenure``, the ``__module__`` of these classes.
import json
from dataclasses import dataclass
from datetime import datetime
from typing import Any, Optional

from . import _tenure
from ._calls import wait, whole
from ._election import Store, open_stores
from ._types import End, _date


@dataclass(frozen=True)
class Span:
    """One epoch of an election. The times are estimates by the store's clock.

    - ``candidate``: the name of the leader.
    - ``start``, ``stop``: the times between which the leader led. ``stop`` is ``None`` while it
      leads.
    - ``end``: the end of the epoch, as in ``Snapshot``, or ``superseded``, if a program that does
      not use tenure created the next epoch.
    - ``lapsed``: true if the newest epoch is not sealed, but its lease has ended.
    - ``sealed_by``, ``forced_by``, ``reason``: as in ``Snapshot``.
    - ``unreadable``: the reason why the object cannot be read, or ``None``.

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
    stop: Optional[datetime]
    end: Optional[End]
    lapsed: bool
    sealed_by: Optional[str]
    forced_by: Optional[str]
    reason: Optional[str]
    unreadable: Optional[str]


def history(
    store: Store, *, prefix: Optional[str] = None, limit: Optional[int] = None
) -> list[Span]:
    """Return the past leaders, from the remaining epoch objects, in ascending order.

    ``store`` and ``prefix`` are as in ``Election``. ``limit``, 1 to 100000, is the maximum number
    of epochs to read, from the newest. Default: 1000. Cost: a LIST, and a GET for each epoch.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> for name in ("a", "b"):
    ...     tenure.Election(store, prefix="orders", name=name).campaign().resign()
    >>> [(span.candidate, span.end) for span in tenure.history(store, prefix="orders")]
    [('a', 'resigned'), ('b', 'resigned')]
    """
    spans: list[dict[str, Any]] = json.loads(
        wait(_tenure.history(open_stores(store, prefix), whole("limit", limit, 1, 100_000)))
    )
    dates = ("start", "stop")
    return [Span(**{**span, **{name: _date(span[name]) for name in dates}}) for span in spans]


def probe(
    store: Store, *, prefix: Optional[str] = None, race_rounds: int = 10
) -> dict[str, Optional[str]]:
    """Check the guarantees of a store with some hundred requests. Deletes its objects at the end.

    ``store`` and ``prefix`` are as in ``Election``. ``race_rounds`` is the number of races between
    two writers, from 0. Return the name of each check, such as ``create-race``, with its failure,
    or with ``None`` for a passed check.

    >>> import tenure, tenure.testing
    >>> results = tenure.probe(tenure.testing.MemoryStore(), prefix="orders")
    >>> [name for name, failure in results.items() if failure is not None]
    []
    """
    results: dict[str, Optional[str]] = json.loads(
        wait(_tenure.probe(open_stores(store, prefix), whole("race_rounds", race_rounds)))
    )
    return results
