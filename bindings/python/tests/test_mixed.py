"""Elections and groups of Rust and Python processes, which the tests kill.

`TENURE` is the path of the command. `TENURE_CHAOS_SECONDS` is the duration of each test.
"""

from __future__ import annotations

import os
import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
import tenure

WORKER = Path(__file__).with_name("worker.py")
TENURE = os.environ.get("TENURE", "")
SECONDS = float(os.environ.get("TENURE_CHAOS_SECONDS", "12"))

pytestmark = pytest.mark.skipif(not TENURE, reason="TENURE is not set to the path of the command")


def run(members: list[list[str]], folder: Path) -> int:
    """Run the members, and kill one of them from time to time. Return the number of kills."""
    chance = random.Random(os.environ.get("CHAOS_SEED", "1"))

    def start(command: list[str]) -> subprocess.Popen[bytes]:
        null = subprocess.DEVNULL
        return subprocess.Popen(
            command, cwd=folder, stdout=null, stderr=null, start_new_session=True
        )

    running = [start(command) for command in members]
    end, kills = time.monotonic() + SECONDS, 0
    try:
        while time.monotonic() < end:
            time.sleep(chance.uniform(0.3, 1.5))
            killed = chance.randrange(len(running))
            os.kill(running[killed].pid, signal.SIGKILL)
            running[killed].wait()
            kills += 1
            running[killed] = start(members[killed])
    finally:
        for process in running:
            os.killpg(process.pid, signal.SIGKILL)
            process.wait()
    return kills


def check(folder: Path, name: str) -> int:
    """Check the tokens and the acknowledged entries of a log. Return the number of its writers."""
    bodies = [entry.body.decode() for entry in tenure.FencedLog(folder / name).read_from(1)]
    writers: dict[int, set[str]] = {}
    for body in bodies:
        token, writer, _ = body.split()
        assert not writers or int(token) >= max(writers), "a former leader wrote"
        writers.setdefault(int(token), set()).add(writer)
    assert [token for token, of in writers.items() if len(of) > 1] == [], "a token has two writers"
    acknowledged = set[str]()
    for acks in folder.glob(f"acks-{name}-*"):
        # A killed process may leave an incomplete last line.
        acknowledged.update(line for line in acks.read_text().split("\n")[:-1])
    assert acknowledged <= set(bodies), "an acknowledged entry was lost"
    assert len(bodies) > 20
    return len(writers)


def test_rust_and_python_are_candidates_of_one_election(tmp_path: Path) -> None:
    worker = [sys.executable, str(WORKER)]
    rust = [TENURE, "run", "--forever", "--store", "./orders", "--validity", "2s"]
    rust += ["--poll-interval", "200ms", "--", *worker, "command", str(tmp_path)]
    python = [*worker, "elect", str(tmp_path)]
    kills = run([rust, python, rust, python], tmp_path)
    print(f"{kills} kills, {check(tmp_path, 'log')} leaders that wrote")
    spans = tenure.history(tmp_path / "orders")
    assert len(spans) >= 2


def test_rust_and_python_are_members_of_one_group(tmp_path: Path) -> None:
    worker = [sys.executable, str(WORKER)]
    rust = [TENURE, "group", "run", "--store", "./shards", "--partitions", "4"]
    rust += ["--validity", "2s", "--poll-interval", "200ms", "--"]
    rust += [*worker, "command", str(tmp_path)]
    python = [*worker, "join", str(tmp_path)]
    kills = run([rust, python, rust, python], tmp_path)
    owners = [check(tmp_path, f"log-{partition}") for partition in range(4)]
    print(f"{kills} kills, {owners} owners that wrote")
