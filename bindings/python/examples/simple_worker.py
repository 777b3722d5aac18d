"""A worker: one process leads, and the others wait. Start it twice, and stop the leader by Ctrl-C.

Install tenure. With the argument `async`, it leads in an event loop.

    STORE=s3://my-bucket/orders python simple_worker.py [async]
"""

import asyncio
import os
import signal
import sys
import time
from contextlib import suppress

import tenure

election = tenure.Election(os.environ.get("STORE", "./orders"), validity=10)


def lead() -> None:
    """Lead, and campaign again after a loss."""
    while True:
        print(election.name, "campaigns")
        with suppress(tenure.LeadershipLost), election.campaign() as leadership:
            while leadership.leading:
                print("write with token", leadership.check())
                time.sleep(1)


async def lead_async() -> None:
    """Lead as `lead` does, in an event loop."""
    while True:
        print(election.name, "campaigns")
        with suppress(tenure.LeadershipLost):
            async with election.campaign_async() as leadership:
                while leadership.leading:
                    print("write with token", leadership.check())
                    await asyncio.sleep(1)


async def main() -> None:
    """Lead until SIGTERM. The cancelled task resigns."""
    task = asyncio.create_task(lead_async())
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, task.cancel)
    with suppress(asyncio.CancelledError):
        await task


if __name__ == "__main__":
    with suppress(KeyboardInterrupt):
        if sys.argv[1:] == ["async"]:
            asyncio.run(main())
        else:
            signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))
            lead()
    print("resigned")
