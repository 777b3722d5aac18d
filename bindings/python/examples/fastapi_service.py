"""A FastAPI service with a task that only the leader runs. `curl host:8000/leader` names it.

Install tenure, fastapi and uvicorn. Start the service on each host, with its own address:

    STORE=s3://my-bucket/orders URL=http://host-7:8000 uvicorn --host 0.0.0.0 fastapi_service:app
"""

import asyncio
import os
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Any, Optional

import tenure
from fastapi import FastAPI

STORE, URL = os.environ.get("STORE", "./orders"), os.environ.get("URL", "http://127.0.0.1:8000")
election = tenure.Election(STORE, data={"url": URL})
held: Optional[tenure.Leadership] = None


async def clean_up(leadership: tenure.Leadership) -> None:
    """The work of the leader, in short steps."""
    while leadership.leading:
        print("cleaning up with token", leadership.check())
        await asyncio.sleep(1)


async def lead() -> None:
    """Campaign again after each loss."""
    global held
    while True:
        try:
            async with election.campaign_async() as held:
                await clean_up(held)
        except tenure.TenureError as error:
            print("campaigning again:", error)
            await asyncio.sleep(1)


@asynccontextmanager
async def lifespan(_: FastAPI) -> AsyncIterator[None]:
    """Lead in the background while the service runs, and resign when it ends."""
    task = asyncio.create_task(lead())
    yield
    task.cancel()
    await asyncio.wait([task])


app = FastAPI(lifespan=lifespan)


@app.get("/leader")
async def leader() -> dict[str, Any]:
    """Return the leader that this process knows, without a request to the store."""
    if held is not None and held.leading:
        return {"leader": {"url": URL}}
    seen = election.last_seen
    return {"leader": seen and seen.data}
