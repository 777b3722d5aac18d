"""The values that an election returns."""

from __future__ import annotations

import json
from dataclasses import dataclass
from datetime import datetime, timedelta, timezone
from typing import Any, Optional

_EPOCH = datetime(1970, 1, 1, tzinfo=timezone.utc)


def _date(micros: Optional[int]) -> Optional[datetime]:
    try:
        return None if micros is None else _EPOCH + timedelta(microseconds=micros)
    except OverflowError:  # a date that Python does not have
        return None


@dataclass(frozen=True)
class Leader:
    """The holder of an epoch, from its record. All dates come from the clock of its writer.

    >>> import tenure, tenure.testing
    >>> store = tenure.testing.MemoryStore()
    >>> election = tenure.Election(store, prefix="orders", name="a", data={"port": 9000})
    >>> with election.campaign():
    ...     leader = election.leader()
    >>> leader.candidate, leader.epoch, leader.data["port"]
    ('a', 1, 9000)
    """

    #: Epoch of the leader: its fencing token.
    epoch: int
    #: Display name of the leader. ``None`` in a record of a peer that does not use tenure.
    candidate: Optional[str]
    #: Seconds that the lease lasts without a renewal. ``None`` if the lease never lapses.
    validity: Optional[float]
    #: End of the lease, only in the layout ``single-object``.
    expires_at: Optional[datetime]
    #: Counter that every write of the record raises.
    heartbeat: int
    #: Time at which the leader created the epoch.
    elected_at: Optional[datetime]
    #: Time of the last renewal.
    renewed_at: Optional[datetime]
    #: Data that the leader publishes, such as its address.
    data: Any

    @staticmethod
    def _of(value: dict[str, Any]) -> Leader:
        dates = {name: _date(value[name]) for name in ("expires_at", "elected_at", "renewed_at")}
        return Leader(**{**value, **dates})


def leader_of(value: Optional[dict[str, Any]]) -> Optional[Leader]:
    """Return a leader from its JSON."""
    return None if value is None else Leader._of(value)


@dataclass(frozen=True)
class Snapshot:
    """The content of the newest epoch object at the time of the call.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders", name="a")
    >>> election.campaign().resign()
    >>> snapshot = election.snapshot()
    >>> snapshot.leader.candidate, snapshot.end
    ('a', 'resigned')
    """

    #: Holder of the epoch, even after its end. ``None`` if no epoch exists.
    leader: Optional[Leader]
    #: End of the epoch, such as ``resigned``, ``lapsed`` or ``deposed``. ``None`` until the seal.
    end: Optional[str]
    #: Name of the process that sealed the epoch.
    sealed_by: Optional[str]
    #: Name of the operator that asserted the death of the holder.
    forced_by: Optional[str]
    #: The operator's reason for the end.
    reason: Optional[str]
    #: Seconds since the last write of the record, by the store's clock.
    age: Optional[float]
    #: True if the epoch is unsealed and ``age`` exceeds the validity. This is only a hint.
    lapsed: bool

    @staticmethod
    def _parse(text: str) -> Snapshot:
        value = json.loads(text)
        return Snapshot(**{**value, "leader": leader_of(value["leader"])})


@dataclass(frozen=True)
class Observation:
    """The state of an election as an observer sees it: ``held``, ``vacant`` or ``unknown``.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> next(iter(election.observe())).state
    'vacant'
    """

    state: str
    leader: Optional[Leader] = None

    @staticmethod
    def _parse(text: str) -> Observation:
        value = json.loads(text)
        return Observation(value["state"], leader_of(value.get("leader")))


@dataclass(frozen=True)
class Event:
    """An event of a campaign or a leadership, for logs and metrics.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> events = iter(election.events())
    >>> leadership = election.campaign()
    >>> next(events).kind
    'elected'
    """

    #: ``following``, ``store_failed``, ``elected``; or ``renewed``, ``at_risk``, ``degraded``,
    #: ``whole``, ``lost``.
    kind: str
    #: Description of a failure or a loss.
    message: Optional[str] = None
    #: Reason of a loss, as in ``LeadershipLost``.
    reason: Optional[str] = None
    #: Remaining seconds of the lease.
    remaining: Optional[float] = None
    #: Epoch of the election.
    epoch: Optional[int] = None
    #: Followed leader.
    leader: Optional[Leader] = None

    @staticmethod
    def _parse(text: str) -> Event:
        value = json.loads(text)
        value["leader"] = leader_of(value.get("leader"))
        return Event(value.pop("event"), **value)


@dataclass(frozen=True)
class Outcome:
    """The outcome of an operator's call.

    >>> import tenure, tenure.testing
    >>> election = tenure.Election(tenure.testing.MemoryStore(), prefix="orders")
    >>> election.depose().kind
    'no_leader'
    """

    #: ``depose``: ``sealed``, ``already``, ``not_current``, ``needs_force``, ``held``, ``renewed``
    #: or ``no_leader``. ``restore``: ``sealed``, ``already``, ``waits_less``, ``exists``,
    #: ``held``, ``needs_force`` or ``needs_wait``.
    kind: str
    #: Leader of the epoch that the call found.
    leader: Optional[Leader] = None
    #: Seconds for which the successor waits.
    wait: Optional[float] = None
    #: Restored epoch, or the epoch of the record that cannot be read.
    epoch: Optional[int] = None
    #: End of the epoch, if it was sealed before the call.
    end: Optional[str] = None

    @staticmethod
    def _parse(text: str) -> Outcome:
        value = json.loads(text)
        value["leader"] = leader_of(value.get("leader"))
        return Outcome(value.pop("outcome"), **value)
