"""Elections in an event loop."""

from __future__ import annotations

import asyncio
import os
import random

import pytest
import tenure
from conftest import Make
from tenure.testing import MemoryStore, idle


async def test_a_task_leads_and_resigns(make: Make) -> None:
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


async def test_a_loop_observes(make: Make) -> None:
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


async def test_a_timeout_cancels_a_campaign() -> None:
    store = MemoryStore()
    with tenure.Election(store, prefix="orders").campaign():
        with pytest.raises(asyncio.TimeoutError):
            follower = tenure.Election(store, prefix="orders")
            await asyncio.wait_for(_elected(follower), 0.1)
    assert await asyncio.to_thread(idle)
    assert tenure.Election(store, prefix="orders").newest_epoch() == 1


async def _elected(election: tenure.Election) -> int:
    async with election.campaign_async() as leadership:
        return leadership.check()
