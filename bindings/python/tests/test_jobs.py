"""Jobs, reports, and the ASGI middleware."""

from __future__ import annotations

import asyncio
import json
import sys
import threading
import time
from collections.abc import Coroutine, Iterator, MutableMapping
from datetime import timedelta
from pathlib import Path
from typing import Any, Optional

import pytest
import tenure
from tenure.asgi import LeaderMiddleware
from tenure.testing import Clock, MemoryStore


def test_only_one_of_many_hosts_runs_a_job(tmp_path: Path) -> None:
    runs: list[int] = []

    @tenure.once_per("1d", tmp_path / "job", poll_interval=0.1)
    def job(weight: int, leadership: Optional[tenure.Leadership] = None) -> int:
        assert leadership is not None
        runs.append(leadership.check())
        return weight

    results: list[Any] = []
    hosts = [threading.Thread(target=lambda: results.append(job(7))) for _ in range(4)]
    for host in hosts:
        host.start()
    for host in hosts:
        host.join(60)
    assert len(runs) == 1 and sorted(results, key=str) == [7, None, None, None]
    period = tenure.last_period(tmp_path / "job")
    assert period is not None and period.exit_code == 0 and period.attempts == 1
    assert period.last_completed == period.start and period.length.days == 1


def test_a_failed_job_runs_again_only_with_retries() -> None:
    store = MemoryStore()
    calls = 0

    @tenure.once_per("1d", store, prefix="job", retries=1)
    def job() -> str:
        nonlocal calls
        calls += 1
        raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError):
            job()
    job()
    period = tenure.last_period(store, prefix="job")
    assert calls == 2 and period is not None and period.exit_code == 1
    assert period.last_completed is None
    for wrong in ("1", "1x", "", "h"):
        with pytest.raises(tenure.InvalidInputError):
            tenure.once_per(wrong, store, prefix="job")
    with pytest.raises(tenure.InvalidInputError):
        tenure.once_per(0.5, store, prefix="job")(job)()


@pytest.mark.parametrize("store", [MemoryStore(), "folder", None])
def test_regression_the_clock_of_a_test_decides_the_period(store: Any, tmp_path: Path) -> None:
    clock = Clock()
    settings: dict[str, Any] = {} if store == "folder" else {"prefix": "job"}
    store = tmp_path if store == "folder" else store or MemoryStore(clock)
    runs: list[int] = []

    @tenure.once_per("1d", store, clock=clock, **settings)
    def job(leadership: tenure.Leadership) -> int:
        runs.append(leadership.check())
        return len(runs)

    begun = time.time()
    for day in range(1, 4):
        assert (job(), job()) == (day, None)
        period = tenure.last_period(store, **settings)
        assert period is not None and period.ended_at is not None
        ahead = period.ended_at.timestamp() - begun
        assert 86400 * (day - 1) <= ahead <= 86400 * (day - 1) + 60
        clock.advance(86400)
    assert runs == [1, 2, 3]


async def test_regression_skipped_is_the_reason_of_the_last_call(
    caplog: pytest.LogCaptureFixture,
) -> None:
    store, clock = MemoryStore(), Clock()

    @tenure.once_per("1d", store, prefix="job", retries=1, clock=clock)
    def job() -> None:
        if job.skipped is None:
            raise ValueError("no")

    for _ in range(2):
        with pytest.raises(ValueError):
            job()
        assert job.skipped is None
    assert job() is None and job.skipped == "failed"
    assert "the period is skipped: failed" in caplog.text

    @tenure.once_per("1d", store, prefix="other", clock=clock)
    async def other() -> str:
        return "done"

    assert await other() == "done" and other.skipped is None
    assert await other() is None and other.skipped == "completed"
    late = tenure.once_per("1000w", store, prefix="late", tolerance=0, clock=clock)(lambda: 1)
    assert late() is None and late.skipped == "too_late"


def test_regression_a_period_out_of_bounds_is_refused() -> None:
    store = MemoryStore()
    for period in (1e14, timedelta.max, 0.5, "9999999999999w", "9" * 5000 + "d"):
        with pytest.raises(tenure.InvalidInputError, match="^period must be "):
            tenure.once_per(period, store, prefix="job")(lambda: 1)()
    with pytest.raises(tenure.InvalidInputError, match="^offset must be .* 3600 seconds, got 7200"):
        tenure.once_per("1h", store, prefix="job", offset="2h")(lambda: 1)()
    assert store.keys() == []
    century = timedelta(days=36525)
    assert tenure.once_per(century, store, prefix="job")(lambda: 1)() == 1
    period_of_job = tenure.last_period(store, prefix="job")
    assert period_of_job is not None and period_of_job.length == century


async def test_a_coroutine_function_can_be_a_job() -> None:
    store = MemoryStore()

    @tenure.once_per("1h30m", store, prefix="job")
    async def job() -> str:
        await asyncio.sleep(0)
        return "done"

    assert [await job(), await job()] == ["done", None]


async def test_regression_a_cancelled_job_does_not_block_its_loop() -> None:
    store = MemoryStore(delay=0.5)
    begun = asyncio.Event()

    @tenure.once_per("1d", store, prefix="job", check_store=False)
    async def job() -> None:
        begun.set()
        await asyncio.Event().wait()

    task = asyncio.create_task(job())
    await begun.wait()
    task.cancel()
    longest = 0.0
    while not task.done():
        before = time.monotonic()
        await asyncio.sleep(0.01)
        longest = max(longest, time.monotonic() - before)
    assert task.cancelled() and longest < 0.4
    period = await asyncio.to_thread(tenure.last_period, store, prefix="job")
    assert period is not None and period.exit_code == 1


def test_regression_the_record_has_the_exit_code_of_the_job() -> None:
    store = MemoryStore()

    unawaited: list[Coroutine[Any, Any, None]] = []

    async def later() -> None: ...

    def job() -> object:
        unawaited.append(later())
        return unawaited[0]

    with pytest.raises(TypeError, match="async def"):
        tenure.once_per("1d", store, prefix="lambda")(job)()
    unawaited[0].close()
    period = tenure.last_period(store, prefix="lambda")
    assert period is not None and period.exit_code == 1
    with pytest.raises(TypeError, match="generator"):

        @tenure.once_per("1d", store, prefix="generator")
        def generator() -> Iterator[int]:
            yield 1

    for code, expected in ((0, 0), (None, 0), (3, 3), ("failed", 1)):
        with pytest.raises(SystemExit):
            _ = tenure.once_per("1d", store, prefix=f"{code}")(lambda: sys.exit(code))()
        period = tenure.last_period(store, prefix=f"{code}")
        assert period is not None and period.exit_code == expected


def test_the_history_shows_a_deposition() -> None:
    store = MemoryStore()
    leadership = tenure.Election(store, prefix="orders", name="a").campaign()
    tenure.Election(store, prefix="orders", name="operator", reason="test").depose(dead=True)
    spans = tenure.history(store, prefix="orders", limit=5)
    assert [(span.candidate, span.end, span.reason) for span in spans] == [
        ("a", "deposed_dead", "test")
    ]
    assert spans[0].start is not None and leadership.epoch == spans[0].epoch


def test_a_probe_passes_and_deletes_its_objects(tmp_path: Path) -> None:
    results = tenure.probe(tmp_path / "probed", race_rounds=2)
    assert len(results) >= 15 and set(results.values()) == {None}
    assert [path for path in (tmp_path / "probed").rglob("*probe-*") if path.is_file()] == []


def test_regression_the_middleware_can_be_created_outside_an_event_loop() -> None:
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        assert scope["type"] == "http"
        await send({"token": scope["tenure.leadership"].check()})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    async def serve(middleware: LeaderMiddleware) -> None:
        with pytest.raises(AssertionError):
            await middleware({"type": "lifespan"}, receive, send)
        await middleware({"type": "http"}, receive, send)
        assert sent[0]["status"] == 503
        await asyncio.wait_for(middleware.leads.wait(), 20)
        await middleware({"type": "http"}, receive, send)
        assert sent[2]["token"] >= 1

    # No loop runs here. Before Python 3.10, a lock binds to the loop of the thread that creates it.
    asyncio.run(serve(LeaderMiddleware(app, tenure.Election(MemoryStore(), prefix="api"))))


def test_regression_the_middleware_campaigns_in_the_next_event_loop() -> None:
    async def app(scope: Any, receive: Any, send: Any) -> None:
        raise AssertionError("expected: no request reaches the application")

    async def receive() -> MutableMapping[str, Any]:
        return {}

    async def send(message: MutableMapping[str, Any]) -> None:
        pass

    async def serve(middleware: LeaderMiddleware) -> None:
        await middleware({"type": "http"}, receive, send)
        await asyncio.wait_for(middleware.leads.wait(), 20)

    middleware = LeaderMiddleware(app, tenure.Election(MemoryStore(), prefix="api"))
    for _ in range(3):
        asyncio.run(serve(middleware))


async def test_the_middleware_names_the_leader_while_the_process_follows() -> None:
    store = MemoryStore()
    sent: list[MutableMapping[str, Any]] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        await send({"token": scope["tenure.leadership"].check()})

    async def send(message: MutableMapping[str, Any]) -> None:
        sent.append(message)

    async def receive() -> MutableMapping[str, Any]:
        return {}

    leadership = await tenure.Election(
        store, prefix="api", name="a", data={"port": 1}
    ).campaign_async()
    follower = tenure.Election(store, prefix="api", name="b", poll_interval=0.05)
    async with LeaderMiddleware(app, follower) as middleware:
        while follower.last_seen is None:
            await asyncio.sleep(0.01)
        await middleware({"type": "http"}, receive, send)
        assert sent[0]["status"] == 503
        answer = json.loads(sent[1]["body"])
        assert answer["leader"] == {"name": "a", "epoch": 1, "data": {"port": 1}}
        await middleware({"type": "websocket"}, receive, send)
        assert sent[2]["code"] == 1013
        await leadership.resign_async()
        await asyncio.wait_for(middleware.leads.wait(), 30)
        await middleware({"type": "http"}, receive, send)
        assert sent[3] == {"token": 2}
    assert (await follower.snapshot_async()).end == "resigned"


def test_regression_a_job_that_hangs_raises_the_reason_hung() -> None:
    job = tenure.once_per("1d", MemoryStore(), prefix="job", liveness=0.5)(lambda: time.sleep(2))
    with pytest.raises(tenure.LeadershipLost) as lost:
        job()
    assert lost.value.reason == "hung"
