#!/usr/bin/env python3
"""Measures the time from SIGKILL of `tenure run` to the start of the next leader's command, with
default settings on a directory. Run it after `cargo build --release`:

    scripts/measure/kill.py [--binary PATH] [--kills N] [--at-once N] [--command-takes SECONDS]

Each kill has its own election, in which one candidate leads and another waits. The leader is killed
at a random moment of the 10 s between two renewals. --command-takes is the time that the leader's
command needs to end after SIGTERM.
"""
import argparse
import concurrent.futures
import os
import pathlib
import random
import signal
import statistics
import subprocess
import tempfile
import time

ROOT = pathlib.Path(__file__).resolve().parents[2]
# Time limit in seconds. A takeover with the default settings takes less time.
PATIENCE = 90


def wait_for(what, holds):
    """Polls until the result of `holds` is true, and returns the result."""
    give_up_at = time.monotonic() + PATIENCE
    while not (value := holds()):
        if time.monotonic() > give_up_at:
            raise TimeoutError(f"not within {PATIENCE} s: {what}")
        time.sleep(0.05)
    return value


def one_kill(binary, takes):
    """Returns the seconds from one kill to the first line of the next leader's command."""
    with tempfile.TemporaryDirectory() as folder:
        folder = pathlib.Path(folder)
        started, log = folder / "started", folder / "log"

        def run(name, script):
            command = [binary, "run", "--store", f"file://{folder}/store", "--name", name]
            with log.open("a") as stderr:
                return subprocess.Popen(
                    [*command, "--", "sh", "-c", script],
                    stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=stderr,
                )

        # The script of the leader only sleeps, because a script that polls would slow the measured
        # processes down.
        slow = f"trap 'sleep {takes}; exit' TERM; sleep 1000 & wait"
        leader = run("a", slow if takes else "exec sleep 1000")
        wait_for("a leads", lambda: "elected: epoch 1" in log.read_text())
        follower = run("b", f"date +%s.%N >{started}")
        wait_for("b follows", lambda: "waiting: a leads" in log.read_text())
        time.sleep(random.uniform(0, 10))
        killed = time.time()
        leader.send_signal(signal.SIGKILL)
        leader.wait()
        wait_for("b's command has started", lambda: started.exists() and started.read_text())
        follower.wait()
        return float(started.read_text()) - killed


def main():
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--binary", default=str(ROOT / "target/release/tenure"))
    arguments.add_argument("--kills", type=int, default=100)
    arguments.add_argument("--at-once", type=int, default=10)
    arguments.add_argument("--command-takes", type=float, default=0)
    given = arguments.parse_args()
    kill = lambda _: one_kill(given.binary, given.command_takes)
    with concurrent.futures.ThreadPoolExecutor(given.at_once) as pool:
        took = sorted(pool.map(kill, range(given.kills)))
    p99 = took[min(len(took) - 1, -(-len(took) * 99 // 100) - 1)]
    load = " ".join(f"{one:.1f}" for one in os.getloadavg())
    print(f"{len(took)} kills, the command takes {given.command_takes:g} s to end, load {load}")
    print(f"p50 {statistics.median(took):.2f} s, p99 {p99:.2f} s, most {took[-1]:.2f} s")


if __name__ == "__main__":
    main()
