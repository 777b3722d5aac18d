"""The process: forks, signals, the GIL, and the end of the interpreter."""

from __future__ import annotations

import ctypes
import logging
import multiprocessing
import os
import signal
import subprocess
import sys
import sysconfig
import time
from pathlib import Path
from typing import Callable

import pytest
import tenure
from tenure.testing import MemoryStore

Start = Callable[..., "subprocess.Popen[str]"]


def finish(process: subprocess.Popen[str], code: int = 0) -> str:
    out, err = process.communicate(timeout=60)
    assert process.returncode == code, out + err
    return out + err


def test_the_lease_is_renewed_while_the_gil_is_held() -> None:
    """With `TENURE_GIL_SECONDS=60`, the test holds the GIL for a minute."""
    held = float(os.environ.get("TENURE_GIL_SECONDS", "2.5"))
    leadership = tenure.Election(MemoryStore(), prefix="orders", validity=1).campaign()
    begun = time.monotonic()
    while time.monotonic() - begun < held:
        ctypes.PyDLL(None).usleep(int(min(held, 0.9) * 1e6))
    # This one call holds the GIL for longer than the lease.
    ctypes.PyDLL(None).sleep(2)
    assert leadership.check() == 1
    leadership.resign()


def test_a_hung_program_resigns_while_it_holds_the_gil(tmp_path: Path, python: Start) -> None:
    program = """
        import ctypes, tenure
        leadership = tenure.Election("./orders", validity=2, liveness=0.5).campaign()
        print("leads", flush=True)
        ctypes.PyDLL(None).sleep(600)
    """
    process = python(program)
    assert process.stdout is not None and process.stdout.readline() == "leads\n"
    other = tenure.Election(tmp_path / "orders", poll_interval=0.1)
    with other.campaign(timeout=20) as leadership:
        assert leadership.check() == 2
    process.kill()
    process.communicate()


def _lead(folder: Path) -> None:
    leadership = tenure.Election(folder).campaign()
    _kept.append(leadership)


_kept: list[tenure.Leadership] = []


def test_regression_a_child_of_a_fork_server_resigns_at_its_end(tmp_path: Path) -> None:
    child = multiprocessing.get_context("forkserver").Process(target=_lead, args=(tmp_path,))
    child.start()
    child.join(60)
    assert child.exitcode == 0
    assert tenure.Election(tmp_path).snapshot().end == "resigned"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_regression_a_forked_child_of_multiprocessing_resigns_at_its_end(
    tmp_path: Path, python: Start
) -> None:
    program = """
        import multiprocessing, tenure
        def lead():
            global leadership
            leadership = tenure.Election("./orders").campaign()
        child = multiprocessing.get_context("fork").Process(target=lead)
        child.start()
        child.join()
    """
    finish(python(program))
    assert tenure.Election(tmp_path / "orders").snapshot().end == "resigned"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_regression_sys_exit_in_a_block_keeps_its_code_in_a_forked_child(python: Start) -> None:
    program = """
        import os, sys, tenure
        with tenure.Election("./orders").campaign():
            child = os.fork()
            if child == 0:
                sys.exit(3)
            assert os.WEXITSTATUS(os.waitpid(child, 0)[1]) == 3
    """
    finish(python(program))


def test_regression_the_leadership_resigns_at_exit_despite_a_slow_log_handler(
    tmp_path: Path, python: Start
) -> None:
    program = """
        import logging, time, tenure
        class Slow(logging.Handler):
            def createLock(self):
                self.lock = None
            def emit(self, record):
                time.sleep(8)
        logging.getLogger("tenure").addHandler(Slow())
        logging.getLogger("tenure").setLevel(logging.DEBUG)
        leadership = tenure.Election("./orders").campaign()
        time.sleep(0.5)
    """
    finish(python(program))
    assert tenure.Election(tmp_path / "orders").snapshot().end == "resigned"


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_a_forked_child_gets_an_error_from_each_call(python: Start) -> None:
    program = """
        import os, sys, tenure, warnings
        warnings.simplefilter("ignore")
        election = tenure.Election("./orders")
        leadership = election.campaign()
        gate = tenure.Gate()
        calls = [
            lambda: leadership.__exit__(None, None, None), leadership.check, leadership.resign,
            lambda: leadership.leading, election.leader, lambda: leadership.remaining,
            election.campaign, lambda: tenure.Election("./b"), lambda: election.last_seen,
            lambda: leadership.token, election.observe, lambda: gate.admit(1),
        ]
        if os.fork() == 0:
            for call in calls:
                try:
                    call()
                except tenure.ForkedProcessError as error:
                    assert "spawn" in str(error)
                else:
                    os._exit(1)
            del leadership, calls
            sys.exit(0)  # with the handlers of the interpreter's end
        assert os.wait()[1] == 0
        assert leadership.check() == 1
    """
    finish(python(program))


def test_a_child_forked_before_the_first_call_can_lead(python: Start) -> None:
    program = """
        import os, tenure
        if os.fork() == 0:
            with tenure.Election("./orders").campaign() as leadership:
                os._exit(0 if leadership.check() == 1 else 1)
        assert os.wait()[1] == 0
    """
    finish(python(program))


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
def test_regression_a_forked_child_ends_while_threads_of_the_parent_work(python: Start) -> None:
    program = """
        import os, sys, threading, tenure, warnings
        from tenure.testing import MemoryStore
        warnings.simplefilter("ignore")
        store = MemoryStore()
        def work(prefix):
            while True:
                with tenure.Election(store, prefix=prefix, check_store=False).campaign():
                    pass
        for prefix in "abcd":
            threading.Thread(target=work, args=(prefix,), daemon=True).start()
        elections = [tenure.Election(store, prefix=f"{n}", check_store=False) for n in range(5)]
        held = [elections, [election.campaign() for election in elections]]
        held.append([election.observe() for election in elections])
        held.append([election._inner.campaign() for election in elections])
        for observed in held[2]:
            next(observed)
        for _ in range(100):
            child = os.fork()
            if child == 0:
                try:
                    next(held[2][0])
                except tenure.ForkedProcessError:
                    held.clear()
                    os._exit(0)
            assert os.waitpid(child, 0)[1] == 0
        os._exit(0)
    """
    finish(python(program))


@pytest.mark.parametrize("call", ["campaign", "try_campaign", "snapshot"])
def test_regression_a_call_in_a_late_exit_handler_raises(python: Start, call: str) -> None:
    program = f"""
        import atexit
        def call():
            try:
                election.{call}()
            except RuntimeError as error:
                print(error)
        atexit.register(call)
        import tenure
        election = tenure.Election("./orders")
        election.snapshot()
    """
    assert "register this exit handler after" in finish(python(program))


@pytest.mark.parametrize("ends", ["pass", "1 / 0", "sys.exit(1)"])
def test_the_end_of_the_interpreter_resigns(tmp_path: Path, python: Start, ends: str) -> None:
    program = f"""
        import sys, threading, tenure
        leadership = tenure.Election("./orders").campaign()
        follower = tenure.Election("./orders")
        threading.Thread(target=follower.campaign, daemon=True).start()
        {ends}
    """
    finish(python(program), 0 if ends == "pass" else 1)
    assert tenure.Election(tmp_path / "orders").snapshot().end == "resigned"


def test_the_interpreter_ends_while_the_store_does_not_answer(python: Start) -> None:
    """The store accepts connections, but never answers."""
    program = """
        import socket, os, tenure
        server = socket.create_server(("127.0.0.1", 0))
        os.environ.update(
            AWS_ENDPOINT_URL=f"http://127.0.0.1:{server.getsockname()[1]}", AWS_REGION="us-east-1",
            AWS_ACCESS_KEY_ID="a", AWS_SECRET_ACCESS_KEY="b", AWS_EC2_METADATA_DISABLED="true",
        )
        try:
            tenure.Election("s3://bucket/orders").campaign(timeout=0.5)
        except TimeoutError:
            print("timed out")
    """
    begun = time.monotonic()
    assert "timed out" in finish(python(program))
    assert time.monotonic() - begun < 20


def test_control_c_ends_a_campaign(tmp_path: Path, python: Start) -> None:
    program = """
        import tenure
        print("campaigns", flush=True)
        tenure.Election("./orders").campaign()
    """
    with tenure.Election(tmp_path / "orders").campaign():
        process = python(program)
        assert process.stdout is not None and process.stdout.readline() == "campaigns\n"
        time.sleep(0.5)
        process.send_signal(signal.SIGINT)
        assert "KeyboardInterrupt" in finish(process, -signal.SIGINT)
    assert tenure.Election(tmp_path / "orders").newest_epoch() == 1


def test_control_c_in_the_body_resigns(tmp_path: Path, python: Start) -> None:
    program = """
        import time, tenure
        with tenure.Election("./orders").campaign():
            print("leads", flush=True)
            time.sleep(600)
    """
    process = python(program)
    assert process.stdout is not None and process.stdout.readline() == "leads\n"
    process.send_signal(signal.SIGINT)
    assert "KeyboardInterrupt" in finish(process, -signal.SIGINT)
    assert tenure.Election(tmp_path / "orders").snapshot().end == "resigned"


def test_regression_an_interrupt_at_any_time_resigns(python: Start) -> None:
    """The program keeps all exceptions, and thus the variables of their frames, alive."""
    program = """
        import random, signal, tenure
        from tenure.testing import MemoryStore, idle
        def interrupt(*_):
            raise KeyboardInterrupt
        signal.signal(signal.SIGALRM, interrupt)
        store, chance, kept = MemoryStore(), random.Random(1), []
        for number in range(1500):
            try:
                election = tenure.Election(store, prefix=f"{number}", check_store=False)
                signal.setitimer(signal.ITIMER_REAL, chance.uniform(1e-5, 0.003))
                with election.campaign() as leadership:
                    pass
                signal.setitimer(signal.ITIMER_REAL, 0)
            except KeyboardInterrupt as error:
                kept.append(error)
        assert len(kept) > 20
        assert idle(20)
    """
    finish(python(program))


def test_logging_receives_the_events(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tenure"):
        tenure.Election(MemoryStore(), prefix="logged", name="a").campaign().resign()
        end = time.monotonic() + 20
        while not any("elected" in record.message for record in caplog.records):
            assert time.monotonic() < end
            time.sleep(0.01)
    record = next(record for record in caplog.records if "elected" in record.message)
    assert record.name == "tenure" and record.levelno == logging.INFO
    fields = getattr(record, "fields")
    assert (fields["election"], fields["epoch"], fields["candidate"]) == ("logged/", 1, "a")


@pytest.mark.skipif(
    not sysconfig.get_config_var("Py_GIL_DISABLED"), reason="this Python always has a GIL"
)
def test_a_free_threaded_python_turns_on_the_gil() -> None:
    assert vars(sys)["_is_gil_enabled"]()


@pytest.mark.parametrize("first", ["import tenure", ""])
def test_a_sub_interpreter_is_refused(python: Start, first: str) -> None:
    program = f"""
        {first}
        try:
            import _interpreters as interpreters
        except ImportError:
            import _xxsubinterpreters as interpreters
        id = interpreters.create()
        failed = None
        try:
            failed = interpreters.run_string(id, "import tenure")
        except interpreters.RunFailedError as error:
            failed = error
        assert failed is not None and "ImportError" in str(failed), failed
        import tenure
        tenure.Election("./orders").campaign().resign()
    """
    finish(python(program))


def test_the_end_of_the_interpreter_waits_for_a_log_record(python: Start) -> None:
    program = """
        import logging, sys, time, tenure
        class Slow(logging.Handler):
            def emit(self, record):
                time.sleep(0.2)
        logging.getLogger("tenure").addHandler(Slow())
        logging.getLogger("tenure").setLevel(logging.DEBUG)
        tenure.Election("./orders").campaign()
    """
    finish(python(program))
