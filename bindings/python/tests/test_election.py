"""Elections in programs that use threads."""

from __future__ import annotations

import threading
import time
from datetime import timedelta
from decimal import Decimal
from functools import partial
from pathlib import Path
from typing import Any, Callable

import pytest
import tenure
from conftest import Make
from tenure.testing import Clock, MemoryStore, idle


def test_the_tokens_of_successive_leaders_rise(make: Make) -> None:
    for token in (1, 2, 3):
        with make(name=f"worker-{token}").campaign() as leadership:
            assert leadership.check() == leadership.token == leadership.epoch == token
            assert leadership.leading and leadership.name == f"worker-{token}"
            assert 25 < leadership.remaining <= 30


def test_a_second_candidate_sees_the_leader(make: Make) -> None:
    other = make(name="b")
    with make(name="a", data={"port": 9000}).campaign():
        assert other.try_campaign() is None
        leader = other.leader()
        assert leader is not None and leader == other.last_seen
        assert (leader.candidate, leader.epoch, leader.data) == ("a", 1, {"port": 9000})
        assert leader.validity == 30 and leader.elected_at is not None
    assert other.leader() is None
    assert other.snapshot().end == "resigned" and other.newest_epoch() == 1
    leadership = other.try_campaign()
    assert leadership is not None and leadership.epoch == 2
    leadership.resign()


def test_a_follower_takes_over_after_a_resignation(make: Make) -> None:
    first = make(name="a").campaign()
    follower = make(name="b", poll_interval=timedelta(milliseconds=50))
    elected: list[int] = []

    def follow() -> None:
        with follower.campaign() as leadership:
            elected.append(leadership.check())

    thread = threading.Thread(target=follow)
    thread.start()
    first.resign_to("b")
    thread.join(20)
    assert elected == [2]


def test_a_block_resigns_after_an_exception(make: Make) -> None:
    other = make()
    for error in (ValueError, KeyboardInterrupt, SystemExit):
        with pytest.raises(error):
            with make().campaign():
                assert other.leader() is not None
                raise error
        assert other.snapshot().end == "resigned"


def deposed(election: tenure.Election) -> tenure.Outcome:
    """Depose the leader. Repeats the call if a renewal makes it fail."""
    while (outcome := election.depose()).kind == "renewed":
        pass
    return outcome


def test_a_deposed_leader_raises_at_the_end_of_its_block(make: Make) -> None:
    settings = {"validity": 2, "renew_interval": 0.05}
    with pytest.raises(tenure.LeadershipLost, match="campaign again") as lost:
        with make(**settings).campaign() as leadership:
            outcome = deposed(make(name="operator"))
            assert outcome.kind == "sealed" and outcome.leader is not None
            assert leadership.lost(timeout=20) == "sealed"
            assert not leadership.leading and leadership.token is None
            assert leadership.remaining == 0
    assert lost.value.reason == "sealed" and not lost.value.may_have_happened
    assert make().depose().kind == "already"


def test_an_exception_of_the_body_has_precedence_over_a_loss(make: Make) -> None:
    with pytest.raises(ZeroDivisionError):
        with make(validity=2, renew_interval=0.05).campaign() as leadership:
            assert deposed(make()).kind == "sealed"
            leadership.lost(timeout=20)
            print(1 / 0)


def test_a_leader_publishes_data_and_events(make: Make) -> None:
    observations = iter(make(poll_interval=0.02).observe())
    assert next(observations).state == "vacant"
    election = make(name="a", poll_interval=0.02)
    campaign_events = election.events()
    leadership = election.campaign()
    assert next(campaign_events).kind == "elected"
    events = leadership.events()
    leadership.proclaim({"port": 1})
    leadership.proclaim([1, "two", None])
    assert next(events).kind == "renewed"
    held = next(observations)
    assert held.state == "held" and held.leader is not None
    while held.leader is not None and held.leader.data != [1, "two", None]:
        held = next(observations)
    leadership.resign()
    assert [event.reason for event in events][-1] == "resigned"
    while held.state != "vacant":
        held = next(observations)


def test_a_restore_raises_the_tokens(make: Make) -> None:
    assert make().restore(41, 0).kind == "sealed"
    with make().campaign() as leadership:
        assert leadership.check() == 42


def test_an_unreferenced_leadership_resigns(make: Make) -> None:
    make().campaign()
    assert idle()
    assert make().snapshot().end == "resigned"


def test_a_campaign_that_times_out_leaves_no_epoch_behind(make: Make) -> None:
    with make().campaign():
        with pytest.raises(TimeoutError):
            # The attempt checks the store, so no write is under way at the timeout.
            follower = make(name="b")
            assert follower.try_campaign() is None
            follower.campaign(timeout=0.3)
    assert idle()
    assert make().newest_epoch() == 1


def test_a_program_without_a_sign_of_life_resigns(make: Make) -> None:
    leadership = make(liveness=0.4).campaign()
    for _ in range(4):
        assert leadership.leading
        threading.Event().wait(0.15)
    assert leadership.lost(timeout=20) == "hung"
    with pytest.raises(tenure.LeadershipLost, match="no sign of life") as lost:
        leadership.check()
    assert lost.value.reason == "hung"
    assert idle()
    assert make().snapshot().end == "resigned"


def test_a_leadership_resigns_once_the_liveness_callable_returns_false(make: Make) -> None:
    answers = [True, True, False]
    with pytest.raises(tenure.LeadershipLost, match="liveness returned False"):
        with make(validity=0.9, liveness=lambda: answers.pop(0)).campaign() as leadership:
            assert leadership.lost(timeout=20) == "hung"
    assert answers == []


def _hang() -> bool:
    threading.Event().wait(600)
    return True


def _exit() -> bool:
    raise SystemExit


@pytest.mark.parametrize("liveness", [_hang, _exit])
def test_regression_reads_of_leading_do_not_replace_the_callable(
    liveness: Callable[[], bool],
) -> None:
    election = tenure.Election(MemoryStore(), prefix="orders", validity=1, liveness=liveness)
    leadership = election.campaign()
    end = time.monotonic() + 20
    while leadership.leading:
        assert time.monotonic() < end
        time.sleep(0.01)
    assert leadership.lost() == "hung"


def test_regression_a_slow_answer_within_a_validity_is_a_sign_of_life() -> None:
    def answer() -> bool:
        time.sleep(4.5)
        return True

    election = tenure.Election(MemoryStore(), prefix="orders", validity=6, liveness=answer)
    with election.campaign() as leadership:
        with pytest.raises(TimeoutError):
            leadership.lost(timeout=8)


@pytest.mark.filterwarnings("ignore:coroutine")
def test_regression_a_coroutine_as_the_answer_is_no_sign_of_life() -> None:
    async def answer() -> bool:
        return True

    def elect(liveness: Any) -> tenure.Leadership:
        settings: dict[str, Any] = {"validity": 1, "liveness": liveness}
        return tenure.Election(MemoryStore(), prefix="orders", **settings).campaign()

    with pytest.raises(TypeError, match="async def"):
        elect(answer)
    assert elect(lambda: answer()).lost(timeout=20) == "hung"
    with pytest.raises(tenure.InvalidInputError):
        elect(0)


def test_regression_a_block_resigns_after_a_refused_resign_to(make: Make) -> None:
    successor: Any = 7
    with pytest.raises(TypeError):
        with make().campaign() as leadership:
            leadership.resign_to(successor)
    assert make().snapshot().end == "resigned"


@pytest.mark.parametrize("successor", ["", "a\nb", "n" * 257, None, b"b"])
def test_regression_a_refused_successor_ends_no_leadership(make: Make, successor: Any) -> None:
    with make().campaign() as leadership:
        with pytest.raises((tenure.InvalidInputError, TypeError)):
            leadership.resign_to(successor)
        assert leadership.check() == 1 and make().snapshot().end is None
        leadership.resign_to("b")
    assert make().snapshot().end == "resigned"


#: Values that are not durations, and the exception that each raises.
NO_DURATIONS = [
    *((value, tenure.InvalidInputError) for value in (-1, float("nan"), float("inf"), 1e300)),
    *((value, tenure.InvalidInputError) for value in (10**400, -timedelta(1), Decimal("NaN"))),
    *((value, TypeError) for value in ("30s", True, b"30", [30])),
]


@pytest.mark.parametrize(("value", "error"), NO_DURATIONS)
def test_regression_an_error_names_the_wrong_duration(value: Any, error: type[Exception]) -> None:
    store = MemoryStore()
    election = tenure.Election(store, prefix="orders")
    leadership = election.campaign()
    group = tenure.Group(store, prefix="shards")
    calls: dict[str, list[Callable[[], object]]] = {
        "timeout": [
            lambda: election.campaign(timeout=value),
            lambda: leadership.lost(timeout=value),
            lambda: idle(value),
        ],
        "wait_for": [
            lambda: election.restore(9, value),
            lambda: election.init_stores(wait_for=value),
        ],
        "duration": [lambda: Clock().advance(value)],
        "delay": [lambda: MemoryStore(delay=value)],
        "min_age": [lambda: tenure.Compactor(store, min_age=value)],
        "reserve": [lambda: group.leave(value)],
    }

    def add(make: Callable[..., object], *names: str) -> None:
        for name in names:
            calls.setdefault(name, []).append(partial(make, **{name: value}))

    def of_election(**settings: Any) -> object:
        return tenure.Election(store, prefix="orders", **settings)

    def of_group(**settings: Any) -> object:
        return tenure.Group(store, prefix="shards", **settings)

    def of_job(**settings: Any) -> object:
        return tenure.once_per(**{"period": "1d", **settings}, store=store)

    common = ("validity", "renew_interval", "poll_interval", "request_timeout", "retry_denied")
    add(of_election, *common, "poll_backoff", "takeover_delay", "priority_delay", "liveness")
    add(of_election, "store_clock_margin")
    add(of_group, *common, "rebalance_delay", "revocation_deadline")
    for name, several in calls.items():
        for call in several:
            with pytest.raises(error, match=rf"^{name} must be "):
                call()
    with pytest.raises(error, match="^clock_ahead_max must be "):
        of_job(clock_ahead_max=value)
    for name in ("period", "offset", "tolerance") if value != "30s" else ():
        with pytest.raises(error, match=rf"^{name} must be "):
            of_job(**{name: value})
    assert leadership.check() == 1


def test_a_duration_can_be_any_type_of_number() -> None:
    settings: dict[str, Any] = {"validity": Decimal("5"), "retry_denied": timedelta.max}
    with tenure.Election(MemoryStore(), prefix="orders", **settings).campaign(
        timeout=timedelta.max
    ) as leadership:
        assert leadership.remaining <= 5


def test_regression_json_refuses_nan_and_integers_above_64_bits(make: Make) -> None:
    for data in (2**64, [-(2**63) - 1], float("nan"), {"a": 10**5000}):
        with pytest.raises(tenure.InvalidInputError):
            make(data=data)
    with make(data=[2**64 - 1, -(2**63)]).campaign() as leadership:
        with pytest.raises(tenure.InvalidInputError):
            leadership.proclaim(2**64)
        assert make().leader().data == [2**64 - 1, -(2**63)]  # type: ignore[union-attr]
    with pytest.raises(tenure.InvalidInputError):
        make(validity=10**400)


def test_an_advance_of_the_clock_ends_a_lease() -> None:
    store, clock = MemoryStore(), Clock()

    def make(name: str) -> tenure.Election:
        return tenure.Election(store, prefix="orders", name=name, clock=clock)

    leadership = make("a").campaign()
    other = make("b")
    assert other.try_campaign() is None
    clock.advance(timedelta(seconds=31))
    assert not leadership.leading
    with pytest.raises(tenure.LeadershipLost) as lost:
        leadership.check()
    assert lost.value.reason == "suspended"
    successor = other.try_campaign()
    assert successor is not None and successor.epoch == 2


def test_three_stores_are_one_election(tmp_path: Path) -> None:
    urls = [f"file://{tmp_path}/{name}" for name in "abc"]
    election = tenure.Election(" ".join(urls))
    election.init_stores()
    with election.campaign() as leadership:
        assert leadership.check() == 1
    other = tenure.Election([tmp_path / name for name in "abc"])
    assert other.newest_epoch() == 1 and other.leader() is None


def test_regression_a_refused_url_shows_no_secret() -> None:
    for url in ("s3://me:hunter2@bucket/a", "s3://b/a?endpoint=https://me:hunter2@host"):
        with pytest.raises(tenure.InvalidInputError) as refused:
            tenure.Election(url)
        assert "hunter2" not in str(refused.value)


def test_the_text_of_an_error_has_the_effect_and_the_remedy(make: Make) -> None:
    with pytest.raises(tenure.InvalidInputError) as refused:
        tenure.Election(MemoryStore(), prefix="orders", validity=10, request_timeout=6)
    for part in ("10 s", "Correct the value"):
        assert part in str(refused.value)
    assert "The request" not in str(refused.value)  # none was sent
    assert isinstance(refused.value, ValueError)
    for url in ("orders", "s3://", "dynamodb://table", "file://relative", "x://y"):
        with pytest.raises(tenure.InvalidInputError):
            tenure.Election(url)
    for wrong in (-1, float("nan"), float("inf")):
        with pytest.raises(tenure.InvalidInputError):
            tenure.Election(MemoryStore(), prefix="orders", validity=wrong)
    with pytest.raises(tenure.InvalidInputError):
        make().campaign(timeout=float("nan"))
    no_partitions: list[Any] = [0, -1, [], "abc"]
    for wrong_partitions in no_partitions:
        with pytest.raises(tenure.InvalidInputError):
            tenure.Group(MemoryStore(), prefix="shards", partitions=wrong_partitions)
    clock = Clock()
    clock.advance(3e9)
    with pytest.raises(tenure.InvalidInputError, match="3155760000 seconds in all"):
        clock.advance(3e9)
    with pytest.raises(TypeError):
        tenure.Election("s3://my-bucket/orders", prefix="orders")
