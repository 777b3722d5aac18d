"""A Python process of the mixed tests, which appends to fenced logs until it is killed.

    worker.py elect FOLDER      a candidate in Python
    worker.py command FOLDER    CMD of `tenure run` or `tenure group run`
    worker.py join FOLDER       a member of the group in Python
"""

from __future__ import annotations

import os
import sys
import time
import uuid
from pathlib import Path
from typing import Callable

import tenure

ME = uuid.uuid4().hex
FOLDER = Path(sys.argv[2])


def append(log_name: str, holder: tenure.Holder, stops: Callable[[], bool]) -> None:
    """Append entries to a fenced log, and write each acknowledged entry to a file."""
    token = holder if isinstance(holder, int) else holder.check()
    log = tenure.FencedLog(FOLDER / log_name, holder)
    with open(FOLDER / f"acks-{log_name}-{ME}-{token}", "a", buffering=1) as acks:
        for number in range(1_000_000):
            if stops():
                return
            body = f"{token} {ME} {number}"
            log.append(body.encode())
            acks.write(f"{body}\n")
            time.sleep(0.01)


def work(partition: tenure.Partition) -> None:
    """Append to the log of this partition while this member owns it."""
    append(f"log-{partition.name}", partition, lambda: partition.revoked)


def main() -> None:
    """Run until the process is killed."""
    if sys.argv[1] == "command":
        name = os.environ.get("TENURE_PARTITION")
        append("log" if name is None else f"log-{name}", int(os.environ["TENURE_EPOCH"]), bool)
    while sys.argv[1] == "elect":
        election = tenure.Election(FOLDER / "orders", name=ME, validity=2, poll_interval=0.2)
        try:
            with election.campaign() as leadership:
                append("log", leadership, lambda: not leadership.leading)
        except (tenure.LeadershipLost, tenure.StaleTokenError):
            pass
    group = tenure.Group(
        FOLDER / "shards", partitions=4, name=ME, validity=2, poll_interval=0.2
    )
    group.run(work)


if __name__ == "__main__":
    main()
