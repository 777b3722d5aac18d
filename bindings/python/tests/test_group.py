"""Groups, with threads and with tasks."""

from __future__ import annotations

import asyncio
import threading
import time
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any, Callable

import pytest
import tenure
from tenure.testing import Clock, MemoryStore, idle


def member(store: tenure.Store, name: str, **more: object) -> tenure.Group:
    settings: dict[str, Any] = {"poll_interval": 0.05, "validity": 2, "renew_interval": 0.3}
    settings = {"partitions": 4, **settings, **more}
    if isinstance(store, MemoryStore):
        settings["prefix"] = "shards"
    return tenure.Group(store, name=name, **settings)


def wait_until(done: Callable[[], bool]) -> None:
    end = time.monotonic() + 30
    while not done():
        assert time.monotonic() < end
        time.sleep(0.01)


def owned_by_next_member(store: tenure.Store) -> set[str]:
    """Return the partitions that a new member gets after all other members have left."""
    group = member(store, "c")
    owned: set[str] = set()

    def work(partition: tenure.Partition) -> None:
        owned.add(partition.name)
        if len(owned) == 4:
            group.leave()
        partition.wait_revoked(timeout=60)

    group.run(work)
    owners = [partition["owner"] for partition in group.snapshot()["partitions"]]
    assert owners == ["c"] * 4
    return owned


@pytest.mark.parametrize("kind", ["memory", "directory"])
def test_two_members_share_the_partitions(kind: str, tmp_path: Path) -> None:
    store: tenure.Store = MemoryStore() if kind == "memory" else tmp_path / "shards"
    owners: dict[str, set[str]] = {}
    all_owned = threading.Event()

    def start(name: str) -> tuple[tenure.Group, threading.Thread]:
        group = member(store, name)

        def work(partition: tenure.Partition) -> None:
            assert partition.check() == partition.token and partition.remaining > 0
            owners.setdefault(name, set()).add(partition.name)
            log = tenure.FencedLog(store, partition, name=f"log-{partition.name}")
            log.append(name.encode())
            if len(owners) == 2 and set.union(*owners.values()) == {"0", "1", "2", "3"}:
                all_owned.set()
            partition.wait_revoked(timeout=60)
            assert partition.revoked

        thread = threading.Thread(target=group.run, args=(work,))
        thread.start()
        return group, thread

    members = [start("a"), start("b")]
    assert all_owned.wait(60)
    for group, thread in members:
        assert group.is_member
        group.leave()
        thread.join(60)
        assert not thread.is_alive()
    assert owned_by_next_member(store) == {"0", "1", "2", "3"}
    bodies = [entry.body for entry in tenure.FencedLog(store, name="log-0").read_from(1)]
    assert bodies and set(bodies) <= {b"a", b"b"}


def test_an_advance_of_the_clock_moves_the_partitions() -> None:
    """The work of member `a` hangs, as in a suspended process. Member `b` takes over."""
    store, clock, validities = MemoryStore(), Clock(), {"a": 60, "b": 600}
    owners: dict[str, list[str]] = {"a": [], "b": []}
    released = threading.Event()

    def start(name: str) -> tuple[tenure.Group, threading.Thread]:
        settings = {"validity": validities[name], "renew_interval": 20, "clock": clock}
        group = member(store, name, rebalance_delay=0.1, **settings)

        def work(partition: tenure.Partition) -> None:
            owners[name].append(partition.name)
            if name == "a":
                released.wait(60)
                with pytest.raises(tenure.LeadershipLost) as lost:
                    partition.check()
                assert lost.value.reason == "suspended"
            else:
                assert partition.check() == partition.token
                partition.wait_revoked(timeout=60)

        thread = threading.Thread(target=group.run, args=(work,), daemon=True)
        thread.start()
        return group, thread

    members = [start("a")]
    wait_until(lambda: len(owners["a"]) == 4)
    members.append(start("b"))
    wait_until(lambda: len(members[1][0].snapshot()["members"]) == 2)
    clock.advance(70)
    wait_until(lambda: len(owners["b"]) == 4)
    for group, _ in members:
        group.leave()
    released.set()
    for _, thread in members:
        thread.join(60)
        assert not thread.is_alive()


def test_regression_a_member_without_partitions_waits_with_a_warning(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store = MemoryStore()
    owned: dict[str, set[str]] = {"a": set(), "b": set()}

    def start(name: str, **settings: object) -> tuple[tenure.Group, threading.Thread]:
        group = member(store, name, rebalance_delay=0.1, **settings)

        def work(partition: tenure.Partition) -> None:
            owned[name].add(partition.name)
            partition.wait_revoked(timeout=60)

        thread = threading.Thread(target=group.run, args=(work,), daemon=True)
        thread.start()
        return group, thread

    members = [start("a", partitions=None)]
    wait_until(lambda: "sets `partitions`" in caplog.text)
    time.sleep(0.5)
    assert members[0][0].snapshot()["epoch"] is None
    members.append(start("b"))
    wait_until(lambda: bool(owned["a"] and owned["b"]))
    for group, thread in members:
        group.leave()
    for _, thread in members:
        thread.join(60)
    assert caplog.text.count("sets `partitions`") == 1


def test_an_exception_of_the_work_moves_the_partition() -> None:
    group = member(MemoryStore(), "a")
    calls: list[str] = []

    def work(partition: tenure.Partition) -> None:
        calls.append(partition.name)
        if len(calls) == 1:
            raise ValueError("no")
        if len(calls) == 5:
            group.leave()
        partition.wait_revoked(timeout=60)

    group.run(work)
    assert len(calls) == 5 and len(set(calls)) == 4


async def test_a_cancelled_run_async_releases_its_partitions() -> None:
    store = MemoryStore()
    owned: set[str] = set()
    all_owned = asyncio.Event()

    async def work(partition: tenure.Partition) -> None:
        owned.add(partition.name)
        if len(owned) == 4:
            all_owned.set()
        await partition.wait_revoked_async()

    running = asyncio.create_task(member(store, "a").run_async(work))
    await asyncio.wait_for(all_owned.wait(), 60)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running
    assert await asyncio.to_thread(owned_by_next_member, store) == {"0", "1", "2", "3"}
    assert await asyncio.to_thread(idle, 20)


async def test_regression_a_cancelled_run_async_leaves_while_partitions_are_granted() -> None:
    group = member(MemoryStore(), "a", partitions=64)

    async def work(partition: tenure.Partition) -> None:
        running.cancel()
        await partition.wait_revoked_async()

    running = asyncio.create_task(group.run_async(work))
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(running, 20)
    assert not group.is_member


class Denied(BaseHTTPRequestHandler):
    """A service that denies each request."""

    def do_GET(self) -> None:
        self.send_error(403)

    do_PUT = do_GET

    def log_message(self, format: str, *args: object) -> None: ...


async def test_regression_run_async_raises_the_error_of_the_group(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    server = ThreadingHTTPServer(("127.0.0.1", 0), Denied)
    threading.Thread(target=server.serve_forever, daemon=True).start()
    monkeypatch.setenv("AWS_ENDPOINT_URL", f"http://127.0.0.1:{server.server_port}")
    for name in ("AWS_REGION", "AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY"):
        monkeypatch.setenv(name, "us-east-1")

    async def work(partition: tenure.Partition) -> None: ...

    group = member("s3://bucket/shards", "a", retry_denied=0.2, check_store=False)
    with pytest.raises(tenure.AccessDeniedError):
        await asyncio.wait_for(group.run_async(work), 20)
    server.shutdown()


async def test_regression_a_cancelled_run_async_panics_in_no_task() -> None:
    async def work(partition: tenure.Partition) -> None:
        await partition.wait_revoked_async()

    for number in range(60):
        running = asyncio.create_task(member(MemoryStore(), "a").run_async(work))
        await asyncio.sleep(number % 12 / 1000)
        running.cancel()
        with pytest.raises(asyncio.CancelledError):
            await running
