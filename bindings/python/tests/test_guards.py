"""Guards of resources."""

from __future__ import annotations

from pathlib import Path

import pytest
import tenure
from tenure.testing import Clock, MemoryStore


def test_an_object_refuses_a_former_leader() -> None:
    store = MemoryStore()
    former = tenure.FencedObject(store, 1, name="state")
    assert former.read() is None and former.open() is None
    former.write(b"one")
    successor = tenure.FencedObject(store, 2, name="state")
    assert successor.open() == b"one"
    with pytest.raises(tenure.StaleTokenError, match="epoch 2 has been seen"):
        former.write(b"late")
    successor.write(b"two")
    assert former.read() == tenure.Contents(2, b"two")
    with pytest.raises(tenure.InvalidInputError, match="token"):
        tenure.FencedObject(store, name="state").write(b"")


def test_a_log_refuses_a_former_leader(tmp_path: Path) -> None:
    former = tenure.FencedLog(tmp_path / "log", 1)
    assert former.open() is None
    numbers = [former.append(b"a"), former.append(b"b")]
    successor = tenure.FencedLog(tmp_path / "log", 2)
    newest = successor.open()
    assert newest == tenure.Entry(numbers[-1], 1, b"b")
    with pytest.raises(tenure.StaleTokenError):
        former.append(b"late")
    last = successor.append(b"c")
    assert [entry.body for entry in successor.read_from(1)] == [b"a", b"b", b"c"]
    successor.trim(last)
    assert successor.oldest() == last and successor.settle() is None
    with pytest.raises(tenure.TrimmedError):
        list(successor.read_from(1))
    assert former.latest() == tenure.Entry(last, 2, b"c")


def test_a_log_refuses_writes_after_the_end_of_the_lease() -> None:
    store, clock = MemoryStore(), Clock()
    leadership = tenure.Election(store, prefix="orders", clock=clock).campaign()
    log = tenure.FencedLog(store, leadership, name="log")
    log.append(b"in time")
    clock.advance(60)
    with pytest.raises(tenure.LeadershipLost) as lost:
        log.append(b"late")
    assert lost.value.reason != "unknown"
    assert [entry.body for entry in log.read_from(1)] == [b"in time"]


def test_a_guard_keeps_a_reference_to_its_leadership() -> None:
    store = MemoryStore()
    log = tenure.FencedLog(store, tenure.Election(store, prefix="o").campaign(), name="log")
    assert log.append(b"one") and log.append(b"two")


async def test_guards_work_in_an_event_loop() -> None:
    store = MemoryStore()
    async with tenure.Election(store, prefix="orders").campaign_async() as leadership:
        log = tenure.FencedLog(store, leadership, name="log")
        number = await log.append_async(b"one")
        newest = await log.latest_async()
        assert newest == tenure.Entry(number, 1, b"one") == await log.open_async()
        assert [entry async for entry in log.read_from(1)] == [newest]
        state = tenure.FencedObject(store, leadership, name="state")
        await state.write_async(b"two")
        assert await state.open_async() == b"two"
        assert await state.read_async() == tenure.Contents(1, b"two")
        gate = tenure.DurableGate(store, name="gate")
        await gate.admit_async(leadership.check())
    with pytest.raises(tenure.LeadershipLost):
        await state.write_async(b"late")
    report = await tenure.Compactor(store, prefix="orders", dry_run=True).run_async()
    assert report["dry_run"] and report["newest"] == 1
