"""The values that an election returns."""

# No ``from __future__ import annotations``, because ``get_type_hints`` would look up the names in
# ``tenure``, the ``__module__`` of these classes.
import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Literal, Optional

from ._errors import Reason

#: How an epoch ended.
End = Literal[
    "resigned",
    "lapsed",
    "deposed",
    "deposed_dead",
    "restored",
    "superseded",
    "given_up",
    "unknown",
]

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _date(micros: Optional[int]) -> Optional[datetime]:
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:  # a date that Python does not have
        return None


@dataclass(frozen=True)
class Leader:
    """The holder of an epoch, from its record. All dates are by the clock of the writer.

    - ``epoch``: the epoch of the leader, which is its fencing token.
    - ``candidate``: the name of the leader. ``None`` if its record is not from tenure.
    - ``validity``: the seconds that the lease lasts without a renewal. ``None`` if it has no end.
    - ``expires_at``: the end of the lease. Only the layout ``single-object`` has it.
    - ``heartbeat``: a counter that every write of the record raises.
    - ``elected_at``: the time at which the leader created the epoch.
    - ``renewed_at``: the time of the last renewal.
    - ``data``: the data that the leader publishes, such as its address.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> election = tenure.Election(store, prefix="orders", name="a", data={"port": 9000})
    >>> with election.campaign():
    ...     leader = election.leader()
    >>> leader.candidate, leader.epoch, leader.data["port"]
    ('a', 1, 9000)
    """

    epoch: int
    candidate: Optional[str]
    validity: Optional[float]
    expires_at: Optional[datetime]
    heartbeat: int
    elected_at: Optional[datetime]
    renewed_at: Optional[datetime]
    data: Any

    @staticmethod
    def _of(value: dict[str, Any]) -> "Leader":
        dates = {name: _date(value[name]) for name in ("expires_at", "elected_at", "renewed_at")}
        return Leader(**{**value, **dates})


def leader_of(value: Optional[dict[str, Any]]) -> Optional[Leader]:
    """Return a leader from its JSON."""
    return None if value is None else Leader._of(value)


@dataclass(frozen=True)
class Snapshot:
    """The content of the newest epoch object at the time of the call.

    - ``leader``: the holder of the epoch, even after its end. ``None`` if no epoch exists.
    - ``end``: the end of the epoch: ``None`` while the epoch is unsealed, else ``resigned``,
      ``lapsed`` (a peer saw no renewal), ``deposed``, ``deposed_dead`` (an operator asserted the
      death of the leader), ``restored`` (no process led), ``given_up`` (the candidate sealed its
      own epoch), ``unknown``.
    - ``sealed_by``: the name of the process that sealed the epoch.
    - ``forced_by``: the name of the operator that asserted the death of the leader.
    - ``reason``: the operator's reason for the end.
    - ``age``: the seconds since the last write of the record, by the store's clock.
    - ``lapsed``: true if the epoch is unsealed and ``age`` exceeds the validity. It is only a hint,
      and always false if ``end`` is set.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders", name="a")
    >>> election.campaign().resign()
    >>> snapshot = election.snapshot()
    >>> snapshot.leader.candidate, snapshot.end
    ('a', 'resigned')
    """

    leader: Optional[Leader]
    end: Optional[End]
    sealed_by: Optional[str]
    forced_by: Optional[str]
    reason: Optional[str]
    age: Optional[float]
    lapsed: bool

    @staticmethod
    def _parse(text: str) -> "Snapshot":
        value = json.loads(text)
        return Snapshot(**{**value, "leader": leader_of(value["leader"])})


@dataclass(frozen=True)
class Observation:
    """The state of an election as an observer sees it.

    - ``state``: ``held``; ``vacant``, if no leader has a lease; or ``unknown``, if the store does
      not answer.
    - ``leader``: the leader while the state is ``held``, else ``None``.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> next(iter(election.observe())).state
    'vacant'
    """

    state: Literal["held", "vacant", "unknown"]
    leader: Optional[Leader] = None

    @staticmethod
    def _parse(text: str) -> "Observation":
        value = json.loads(text)
        return Observation(value["state"], leader_of(value.get("leader")))


@dataclass(frozen=True)
class Event:
    """An event of a campaign or a leadership, for logs and metrics.

    - ``kind``: a campaign has ``following``, ``store_failed`` and ``elected``. A leadership has
      ``renewed``, ``at_risk`` (the lease ends soon) and ``lost``, and across stores also
      ``degraded`` (a store fails) and ``whole`` (all stores answer again).
    - ``message``: the description of a failure or a loss.
    - ``reason``: the reason of a loss, as in ``LeadershipLost``.
    - ``remaining``: the remaining seconds of the lease, for ``renewed`` and ``at_risk``.
    - ``epoch``: the granted epoch, for ``elected``.
    - ``leader``: the current leader, for ``following``.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> events = iter(election.events())
    >>> leadership = election.campaign()
    >>> next(events).kind
    'elected'
    """

    kind: Literal[
        "following",
        "store_failed",
        "elected",
        "renewed",
        "at_risk",
        "degraded",
        "whole",
        "lost",
        "other",
    ]
    message: Optional[str] = None
    reason: Optional[Reason] = None
    remaining: Optional[float] = None
    epoch: Optional[int] = None
    leader: Optional[Leader] = None

    @staticmethod
    def _parse(text: str) -> "Event":
        value = json.loads(text)
        value["leader"] = leader_of(value.get("leader"))
        return Event(value.pop("event"), **value)


@dataclass(frozen=True)
class Outcome:
    """The outcome of ``depose`` or ``restore``. The store changes only with ``sealed``.

    - ``kind``: ``sealed``; ``already``, if the epoch was sealed before; ``held``, if an unfinished
      restore holds the election; ``needs_force``, if only ``depose(dead=True)`` can end the epoch.
      ``depose`` also has ``not_current``, if the given epoch is not the newest; ``renewed``, if the
      leader renewed meanwhile; and ``no_leader``. ``restore`` also has ``exists``, if the epoch
      exists; ``waits_less``, if an earlier restore has a shorter wait; and ``needs_wait``, if
      ``wait_for`` must be above 0.
    - ``leader``: the leader of the epoch that the call found.
    - ``wait``: the seconds for which the successor waits.
    - ``epoch``: the restored epoch, or the held epoch of an unfinished restore.
    - ``end``: the end of the epoch, as in ``Snapshot``, if the kind is ``already``.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> election.depose().kind
    'no_leader'
    """

    kind: Literal[
        "sealed",
        "already",
        "not_current",
        "needs_force",
        "held",
        "renewed",
        "no_leader",
        "waits_less",
        "exists",
        "needs_wait",
        "other",
    ]
    leader: Optional[Leader] = None
    wait: Optional[float] = None
    epoch: Optional[int] = None
    end: Optional[End] = None

    @staticmethod
    def _parse(text: str) -> "Outcome":
        value = json.loads(text)
        value["leader"] = leader_of(value.get("leader"))
        return Outcome(value.pop("outcome"), **value)
