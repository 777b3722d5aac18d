"""A stream worker that shares partitions with others. Each partition has a fenced manifest.

Install tenure. Start some workers. They share 8 partitions, until SIGTERM:

    STORE=s3://my-bucket/stream python stream_worker.py
"""

import asyncio
import json
import os
import signal

import tenure

STORE = os.environ.get("STORE", "./stream")
group = tenure.Group(STORE, partitions=8)


async def next_batch(offset: int) -> list[int]:
    """Return the next messages of the stream, from this offset on."""
    await asyncio.sleep(0.5)
    return [offset, offset + 1]


async def work(partition: tenure.Partition) -> None:
    """Continue at the offset in the manifest, which a former owner cannot write any more."""
    name = f"manifest-{partition.name}"
    manifest = tenure.FencedObject(STORE, partition, name=name)
    body = await manifest.open_async()
    offset = json.loads(body)["offset"] if body else 0
    print("owns partition", partition.name, "from offset", offset, "with token", partition.token)
    while not partition.revoked:
        batch = await next_batch(offset)
        offset += len(batch)
        await manifest.write_async(json.dumps({"offset": offset}).encode())
    print("releases partition", partition.name, "at offset", offset)


async def main() -> None:
    """Share the partitions with the other workers, until SIGTERM."""
    print(group.name, "joins, which takes about two polls of 5 s")
    asyncio.get_running_loop().add_signal_handler(signal.SIGTERM, group.leave)
    await group.run_async(work)


if __name__ == "__main__":
    asyncio.run(main())
