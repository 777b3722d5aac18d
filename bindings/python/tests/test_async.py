"""Elections in an event loop."""

from __future__ import annotations

import asyncio
import logging
import os
import random
import threading
from collections.abc import Awaitable, Coroutine
from typing import Any, Optional

import pytest
import tenure
from conftest import Make
from tenure.testing import MemoryStore, idle


async def test_an_asyncio_task_leads_and_resigns(make: Make) -> None:
    async with make(name="a").campaign_async() as leadership:
        assert leadership.check() == 1
        await leadership.proclaim_async({"port": 1})
        assert await make(name="b").try_campaign_async() is None
        leader = await make().leader_async()
        assert leader is not None and leader.data == {"port": 1}
    leadership = await make().campaign_async()
    assert leadership.epoch == 2
    await leadership.resign_to_async("a")
    assert (await make().snapshot_async()).end == "resigned"
    assert (await make().depose_async()).kind == "already"
    assert (await make().restore_async(9, 0)).kind == "sealed"


async def test_an_event_loop_observes_an_election(make: Make) -> None:
    leadership = await make(name="a").campaign_async()
    states = []
    async for seen in make(poll_interval=0.02).observe():
        states.append(seen.state)
        if seen.state == "vacant":
            break
        await leadership.resign_async()
    assert states == ["held", "vacant"]
    assert await leadership.lost_async() == "resigned"
    assert [event.reason async for event in leadership.events()] == ["resigned"]


async def test_a_cancelled_body_resigns(make: Make) -> None:
    begun = asyncio.Event()

    async def lead() -> None:
        async with make().campaign_async():
            begun.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(lead())
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert make().snapshot().end == "resigned"


async def test_random_cancellations_leave_no_leadership() -> None:
    """Each campaign is cancelled after a random time, or as soon as it is elected."""
    store = MemoryStore()
    chance = random.Random(os.environ.get("SEED", "1"))
    rounds = int(os.environ.get("CANCELLATIONS", "1000"))
    elected = 0
    for number in range(rounds):
        election = tenure.Election(store, prefix=f"{number % 7}", check_store=False)

        async def lead() -> None:
            nonlocal elected
            async with election.campaign_async() as leadership:
                elected += 1
                await asyncio.sleep(chance.choice([0, 0.0002]))
                await leadership.proclaim_async(1)

        tasks = [asyncio.create_task(lead()) for _ in range(2)]
        for task in tasks:
            if chance.random() < 0.5:
                for _ in range(chance.randrange(6)):
                    await asyncio.sleep(0)
            else:
                await asyncio.sleep(chance.random() * 0.002)
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)
    assert await asyncio.to_thread(idle, 30)
    ends = [tenure.Election(store, prefix=f"{number}").snapshot() for number in range(7)]
    assert [end.leader for end in ends if end.leader is not None and end.end is None] == []
    epochs = [end.leader.epoch for end in ends if end.leader is not None]
    print(f"{2 * rounds} campaigns, {elected} elected, {sum(epochs)} epochs")
    assert 0 < elected < 2 * rounds


@pytest.mark.parametrize("tries", [False, True])
async def test_regression_a_cancelled_campaign_seals_the_epoch_of_a_slow_write(tries: bool) -> None:
    """A read of the store starts before the write takes effect, and ends after that."""
    store = MemoryStore(delay=0.05)

    def make(number: int) -> tenure.Election:
        return tenure.Election(store, prefix=f"{number}", check_store=False)

    async def lead(number: int) -> None:
        election = make(number)
        campaign = election.try_campaign_async() if tries else election.campaign_async()
        await asyncio.wait_for(_resigned(campaign), 0.05 + number / (800 if tries else 200))

    await asyncio.gather(*(lead(number) for number in range(40)), return_exceptions=True)
    assert await asyncio.to_thread(idle, 30)
    snapshots = await asyncio.gather(*(make(number).snapshot_async() for number in range(40)))
    assert [it.leader for it in snapshots if it.leader is not None and it.end is None] == []
    assert any(it.leader for it in snapshots)


async def _resigned(campaign: Awaitable[Optional[tenure.Leadership]]) -> None:
    leadership = await campaign
    assert leadership is not None
    await leadership.resign_async()


async def test_regression_a_cancelled_read_loses_no_entry() -> None:
    store = MemoryStore(delay=0.001)
    log = tenure.FencedLog(store, 1, name="log")
    for number in range(60):
        await log.append_async(str(number).encode())
    entries = log.read_from(1)
    chance, numbers, timeouts = random.Random(1), [], 0
    while True:
        try:
            read = await asyncio.wait_for(entries.__anext__(), chance.uniform(0, 0.004))
        except asyncio.TimeoutError:
            timeouts += 1
        except StopAsyncIteration:
            break
        else:
            numbers.append(read.number)
    assert numbers == [read.number for read in log.read_from(1)] and timeouts > 0


async def test_regression_a_blocked_log_handler_delays_no_task() -> None:
    begun, released = threading.Event(), threading.Event()

    class Blocked(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            begun.set()
            released.wait(60)

    handler, logger = Blocked(), logging.getLogger("tenure")
    logger.addHandler(handler)
    logger.setLevel(logging.DEBUG)
    try:
        election = tenure.Election(MemoryStore(), prefix="orders")
        async with election.campaign_async():
            assert await asyncio.to_thread(begun.wait, 20)
            await asyncio.wait_for(election.snapshot_async(), 20)
    finally:
        released.set()
        logger.setLevel(logging.NOTSET)
        logger.removeHandler(handler)


async def test_a_timeout_cancels_a_campaign() -> None:
    store = MemoryStore()
    with tenure.Election(store, prefix="orders").campaign():
        with pytest.raises(asyncio.TimeoutError):
            follower = tenure.Election(store, prefix="orders")
            await asyncio.wait_for(_elected(follower), 0.1)
    assert await asyncio.to_thread(idle)
    assert tenure.Election(store, prefix="orders").newest_epoch() == 1


@pytest.mark.parametrize("way", ["create_task", "gather", "wait_for", "TaskGroup", "timeout"])
async def test_regression_a_campaign_is_a_coroutine(way: str) -> None:
    store = MemoryStore()

    def campaign() -> Coroutine[Any, Any, tenure.Leadership]:
        return tenure.Election(store, prefix="orders", poll_interval=0.05).campaign_async()

    async def lead() -> Any:
        if way == "create_task":
            return await asyncio.create_task(campaign())
        if way == "gather":
            return (await asyncio.gather(campaign(), asyncio.sleep(0)))[0]
        if way == "wait_for":
            return await asyncio.wait_for(campaign(), 20)
        if way == "TaskGroup":
            async with newer["TaskGroup"]() as group:
                task: asyncio.Task[tenure.Leadership] = group.create_task(campaign())
            return await task
        async with newer["timeout"](20):
            return await campaign()

    newer = vars(asyncio)
    if way in ("TaskGroup", "timeout") and way not in newer:
        pytest.skip(f"asyncio.{way} begins with Python 3.11")
    async with await lead() as leadership:
        waiting = asyncio.create_task(campaign())
        with pytest.raises(asyncio.TimeoutError):
            await asyncio.wait_for(campaign(), 0.1)
        if way == "timeout":
            with pytest.raises(asyncio.TimeoutError):
                async with newer["timeout"](0.1):
                    await campaign()
        waiting.cancel()
        await asyncio.wait([waiting])
        assert waiting.cancelled() and leadership.check() == 1
    assert await asyncio.to_thread(idle)
    pending = campaign()
    await pending
    with pytest.raises(RuntimeError, match="already awaited"):
        await pending
    unused = campaign()
    unused.close()  # as asyncio closes a coroutine that never starts


async def test_regression_with_and_async_with_refuse_each_others_campaigns() -> None:
    election: Any = tenure.Election(MemoryStore(), prefix="orders")
    with pytest.raises(TypeError, match="use `async with`"):
        with election.campaign_async():
            pass
    for name in ("campaign", "try_campaign"):
        with pytest.raises(TypeError, match=rf"{name}_async\(\)"):
            async with getattr(election, name)():
                pass
        assert await asyncio.to_thread(idle)
    assert election.snapshot().end == "resigned"


async def _elected(election: tenure.Election) -> int:
    async with election.campaign_async() as leadership:
        return leadership.check()
