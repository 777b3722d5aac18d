"""The texts of errors, logs and representations."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path
from typing import Any, Callable

import pytest
import tenure
import tenure._logging
from tenure.testing import MemoryStore

STORE = MemoryStore()


def election(**settings: Any) -> tenure.Election:
    return tenure.Election(STORE, **{"prefix": "errors", **settings})


def fenced(holder: Any = 1, **more: Any) -> tenure.FencedObject:
    return tenure.FencedObject(STORE, holder, **{"name": "state", **more})


def log() -> tenure.FencedLog:
    return tenure.FencedLog(STORE, 1, name="log")


def group(**settings: Any) -> tenure.Group:
    return tenure.Group(STORE, **{"prefix": "group", **settings})


wrong: Any = "a"
number: Any = 3
TYPES: list[tuple[Callable[[], object], str]] = [
    (lambda: election(name=3), "name must be of type str, got 3"),
    (lambda: election(check_store=1), "check_store must be of type bool, got 1"),
    (lambda: election(clock_drift_max="a"), "clock_drift_max must be of type float, got 'a'"),
    (lambda: election(data=datetime.date(2026, 1, 1)), "data must be JSON: Object of type date"),
    (lambda: election(clock=3), "clock must be a tenure.testing.Clock, got 3"),
    (lambda: tenure.Election(number), "store must be a URL, a path, a list of them, or a Mem"),
    (lambda: tenure.Election([]), "store must be .*, got \\[\\]"),
    (lambda: election().depose(wrong), "epoch must be of type int, got 'a'"),
    (lambda: fenced(name=3), "name must be of type str, got 3"),
    (lambda: fenced().write(wrong), "body must be bytes, got str: use body.encode()"),
    (lambda: log().append(wrong), "body must be bytes, got str: use body.encode()"),
    (lambda: log().trim(wrong), "before must be of type int, got 'a'"),
    (lambda: tenure.Gate().admit(wrong), "token must be of type int, got 'a'"),
    (lambda: group(weight="a"), "weight must be of type int, got 'a'"),
    (lambda: group(partitions=[1]), "partitions must be of type str, got 1"),
    (lambda: group().run(number), "work must be a function, or use run_async, got 3"),
    (lambda: tenure.once_per("1d", STORE, retry=2), "once_per.. got an unexpected .* 'retry'"),
    (lambda: tenure.once_per("1d", STORE)(number), "a job must be a function, got 3"),
    (lambda: tenure.history(STORE, limit=wrong), "limit must be of type int, got 'a'"),
]
VALUES: list[tuple[Callable[[], object], str]] = [
    (lambda: tenure.Election("orders"), "orders: the URL has no scheme.*, or a path from / or ./"),
    (lambda: election(poll_interval=0), "poll_interval must be 0.01 s to 30 s .*, got 0 s"),
    (lambda: election(takeover_delay=1e6), "takeover_delay must be at most 86400 s, got 1000000 s"),
    (lambda: group(validity=7200), "validity must be at most 3600 s in a group, got 7200 s"),
    (lambda: election(name=""), 'the name "" must have 1 to 256 bytes'),
    (lambda: election(layout="x"), "layout must be epoch-files or single-object, got x"),
    (lambda: election().depose(-1), "epoch must be 1 to 9999999999, got -1"),
    (lambda: election().restore(1, 90000), "wait_for must be at most 86400 s, got 90000 s"),
    (lambda: election().init_stores(), "init_stores is for a store of 3 or 5 URLs, got one URL"),
    (lambda: fenced("a"), "holder must be a Leadership, a Partition or a token"),
    (lambda: fenced(0), "a token is 1 to 9999999999, got 0"),
    (lambda: fenced(None).write(b""), "a write needs `holder`: give a Leadership, a Partition or"),
    (lambda: fenced(name=None), 'the key is empty: give name, as in FencedObject.*name="state"'),
    (lambda: tenure.FencedLog(["/a", "/b", "/c"], 1), "store must be one URL, got 3"),
    (lambda: tenure.Gate().admit(2**70), "token must be 1 to 9999999999, got 1180591620717411303"),
    (lambda: tenure.Compactor(STORE, keep_epochs=0), "keep_epochs must be 1 to 100000, got 0"),
    (lambda: tenure.probe(STORE, race_rounds=-1), "race_rounds must be 0 to 9999999999, got -1"),
    (lambda: group(weight=-1), "weight must be 1 to 4294967295, got -1"),
    (lambda: group(partitions=-1), "partitions must be a number from 1, or a list of names, got"),
    (lambda: election().campaign().proclaim(2**64), "data must be JSON: an integer in JSON must"),
]


@pytest.mark.parametrize(("call", "text"), TYPES)
def test_a_type_error_names_the_parameter(call: Callable[[], object], text: str) -> None:
    with pytest.raises(TypeError, match=text):
        call()


@pytest.mark.parametrize(("call", "text"), VALUES)
def test_an_error_for_a_value_names_the_parameter(call: Callable[[], object], text: str) -> None:
    with pytest.raises(tenure.InvalidInputError, match=text) as refused:
        call()
    assert "The request" not in str(refused.value)  # none was sent


def test_an_error_states_the_effect_only_if_a_request_was_sent() -> None:
    assert "The request had no effect" in str(tenure.UnavailableError("x"))
    assert "may have taken effect" in str(tenure.LeadershipLost("x", True))
    assert "The request" not in str(tenure.LeadershipLost("x"))


def test_a_timeout_names_the_leader() -> None:
    with election(prefix="timeout", name="h3").campaign() as leadership:
        with pytest.raises(TimeoutError, match="not elected within 0.2 s: h3 leads with token 1"):
            election(prefix="timeout").campaign(timeout=datetime.timedelta(seconds=0.2))
        with pytest.raises(TimeoutError, match="the leadership has not ended within 0.1 s"):
            leadership.lost(timeout=0.1)


def test_a_representation_names_the_store(tmp_path: Path) -> None:
    text = "<tenure.Election store='memory/errors' name='a' validity=0.2>"
    assert repr(election(name="a", validity=0.2)) == text
    assert f"store='file://{tmp_path}'" in repr(tenure.Election(tmp_path))


def test_an_empty_field_is_not_logged(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO, "tenure"):
        tenure._logging.log(20, "elected", '{"election": "", "epoch": 1}')
    assert caplog.messages == ["elected epoch=1"]
