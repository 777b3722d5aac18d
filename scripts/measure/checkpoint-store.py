"""Counts the requests of idle event processors of azure-eventhub on the blob checkpoint store.

    checkpoint-store.py ENDPOINT LOG SECONDS PROCESSORSxPARTITIONSxINTERVAL...

ENDPOINT is the address of an Azurite server, and LOG is its access log. All settings run at the
same time, each in its own container, in real time. This script simulates the part of Event Hubs
that a processor uses. The packages themselves determine the cycles, the balancing and the
requests. Prints a line of JSON for each setting.
"""
import asyncio, collections, json, os, re, sys
from types import SimpleNamespace

from azure.core.credentials import AzureNamedKeyCredential
from azure.eventhub.aio._eventprocessor.event_processor import EventProcessor
from azure.eventhub.extensions.checkpointstoreblobaio import BlobCheckpointStore

# The account and the key that every Azurite server accepts.
ACCOUNT = "devstoreaccount1"
KEY = "Eby8vdM02xNOcqFlqUwJPLlmEtlCDXJ1OUzFT50uSRZ6IFsuFq2UVErCz4I6tq/K1SZFPTOtr/KBHBeksoGMGw=="
HUB = {
    "fully_qualified_namespace": "counted.servicebus.windows.net",
    "eventhub_name": "orders",
    "consumer_group": "$default",
}
LINE = re.compile(r'"([A-Z]+) /devstoreaccount1/([^/? ]+)([^ ]*) HTTP/[0-9.]+" (\d+)')


class Consumer:
    """A consumer of a partition that has no events."""

    async def receive(self, *_):
        await asyncio.Event().wait()

    async def close(self):
        pass


class Client:
    """The part of an Event Hubs client that a processor uses."""

    _address = SimpleNamespace(hostname=HUB["fully_qualified_namespace"])
    eventhub_name = HUB["eventhub_name"]

    def __init__(self, partitions):
        self.ids = [str(id) for id in range(partitions)]

    async def get_partition_ids(self):
        return self.ids

    def _create_consumer(self, *_, **__):
        return Consumer()


class Setting:
    def __init__(self, endpoint, text):
        self.processors, self.partitions, self.interval = map(int, text.split("x"))
        self.container = "counted-" + text
        self.endpoint = endpoint
        self.errors = 0

    def store(self):
        credential = AzureNamedKeyCredential(ACCOUNT, KEY)
        url = f"{self.endpoint}/{ACCOUNT}"
        return BlobCheckpointStore(url, self.container, credential=credential)

    async def failed(self, _, error):
        self.errors += 1
        print(f"{self.container}: {error!r}", file=sys.stderr)

    async def own(self):
        """Gives each processor its share. Without this, each would steal one partition per cycle."""
        client, store = Client(self.partitions), self.store()
        await store._container_client.create_container()
        self.all = []
        for index in range(self.processors):
            own = self.store()
            # The package sets the expiration to six intervals.
            one = EventProcessor(
                client, HUB["consumer_group"], None, checkpoint_store=own,
                load_balancing_interval=self.interval, error_handler=self.failed,
            )
            share = client.ids[index :: self.processors]
            claims = [{**HUB, "partition_id": id, "owner_id": one._id} for id in share]
            await own.claim_ownership(claims)
            self.all.append(one)
        self.watch = store
        self.before = await self.owners()

    def start(self):
        self.tasks = [asyncio.create_task(one.start()) for one in self.all]

    async def owners(self):
        owned = await self.watch.list_ownership(*HUB.values())
        return {it["partition_id"]: it["owner_id"] for it in owned}

    async def check(self):
        now = await self.owners()
        assert len(now) == self.partitions, f"{self.container}: {len(now)} partitions are owned"
        assert now == self.before, f"{self.container}: partitions moved"
        assert not self.errors, f"{self.container}: {self.errors} errors"
        assert all(len(one._tasks) >= self.partitions // self.processors for one in self.all)
        assert not any(task.done() for task in self.tasks), f"{self.container}: one ended"


def kind(method, path):
    if method == "GET" and "comp=list" in path:
        return "lists"
    if method == "PUT" and "comp=metadata" in path:
        return "claims"
    return "others"


def count(log, begin, end):
    """Counts the requests between two offsets of the log, by container and kind."""
    counts = collections.defaultdict(collections.Counter)
    with open(log, "rb") as file:
        file.seek(begin)
        text = file.read(end - begin).decode()
    for method, container, path, status in LINE.findall(text):
        counts[container][kind(method, path)] += 1
        counts[container]["refused"] += int(status) >= 400
    return counts


def size(log):
    with open(log, "rb") as file:
        return file.seek(0, 2)


async def main(endpoint, log, seconds, *settings):
    settings = [Setting(endpoint, text) for text in settings]
    for one in settings:
        await one.own()
    for one in settings:
        one.start()
    # The count begins after the first cycle, because the first cycle also reads checkpoints. It
    # begins midway between two cycles. A cycle lasts 1 to 1.2 intervals, 1.1 on average.
    await asyncio.sleep(1.65 * max(one.interval for one in settings))
    loop = asyncio.get_running_loop()
    begin, began = size(log), loop.time()
    await asyncio.sleep(float(seconds))
    end, took = size(log), loop.time() - began
    counts = count(log, begin, end)
    for one in settings:
        await one.check()
        line = {"processors": one.processors, "partitions": one.partitions}
        line |= {"interval": one.interval, "seconds": took}
        names = "claims", "lists", "others", "refused"
        line |= {name: counts[one.container][name] for name in names}
        print(json.dumps(line), flush=True)
    # The process exits immediately, because a regular end would send one request for each
    # partition.
    os._exit(0)


asyncio.run(main(*sys.argv[1:]))
