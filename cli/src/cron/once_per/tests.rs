use std::sync::Arc;

use tenure::store::{MemoryStore, Store};
use tenure::{Clock, Election, Moment};
use tenure_fencing::FencedObject;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};

use super::*;

/// The clock of a store. It is behind the clock of this host by this duration.
#[derive(Debug)]
struct Behind(Duration);

impl Clock for Behind {
    fn now(&self) -> Moment {
        Process::system().now().minus(self.0)
    }
}

fn rules(retries: u32) -> PeriodRules {
    let period = Duration::from_secs(100 * 365 * 86_400);
    let clock_ahead_max = Duration::from_secs(60);
    PeriodRules { period, offset: Duration::ZERO, tolerance: None, retries, clock_ahead_max }
}

fn host(store: &(impl Store + Clone), retries: u32, name: &str) -> OncePer {
    host_since(wall(), rules(retries), store, name)
}

/// Returns a host whose clock showed `started` when `tenure` was started on it.
fn host_since(
    started: Duration,
    rules: PeriodRules,
    store: &(impl Store + Clone),
    name: &str,
) -> OncePer {
    let place = RecordPlace::new(Arc::new(store.clone()), "p/");
    OncePer::new((rules, rules.period_at(started)), place, name)
}

fn epoch(number: u64) -> Epoch {
    Epoch::new(number).expect("a small number")
}

async fn read(store: &(impl Store + Clone)) -> Option<PeriodRecord> {
    let object = FencedObject::new(Arc::new(store.clone()), "p/once-per.json");
    let body = object.read().await.expect("a store in memory").and_then(|found| found.body);
    body.map(|body| PeriodRecord::parse(&body).expect("a record"))
}

async fn turn(host: &OncePer, number: u64) -> Turn {
    match host.take(epoch(number)).await.expect("a store in memory") {
        ControlFlow::Continue(turn) => turn,
        ControlFlow::Break(code) => panic!("nothing to do: {code}"),
    }
}

#[tokio::test]
async fn a_host_with_a_clock_too_far_ahead_is_refused() {
    for (behind, refused) in [(0, false), (50, false), (200, true)] {
        let store = MemoryStore::with_clock(Arc::new(Behind(Duration::from_secs(behind))));
        let taken = host(&store, 0, "a").take(epoch(1)).await;
        assert_eq!(taken.as_ref().err().map(|failure| failure.code), refused.then_some(73));
        // A refused host records no attempt.
        assert_eq!(read(&store).await.is_none(), refused);
        if let Err(failure) = taken {
            assert!(failure.why.contains(" is 3m ") && failure.why.contains("1m of"));
        }
    }
}

/// Before the fix, a host that booted with its clock one day ahead chose the period of the next
/// day. If the clock was corrected while the host waited, the host ran the next day's job one day
/// early. No host then ran this job on its day.
#[tokio::test]
async fn regression_a_period_that_has_not_begun_is_not_run() {
    const DAY: Duration = Duration::from_secs(86_400);
    let daily = PeriodRules { period: DAY, ..rules(0) };
    for ahead in [2 * DAY, 4 * DAY] {
        let store = MemoryStore::new();
        let later = host_since(wall() + ahead, daily, &store, "a");
        for failure in [later.is_over().await.err(), later.take(epoch(1)).await.map(drop).err()] {
            let failure = failure.expect("it has not begun");
            assert_eq!(failure.code, 73);
            assert!(failure.why.contains("has not begun"), "{}", failure.why);
        }
        assert!(read(&store).await.is_none(), "a refusal does not count as an attempt");
        drop(turn(&host_since(wall(), daily, &store, "b"), 2).await);
    }
}

/// A host with a wrong clock must fail before it campaigns. If the clocks of two hosts are ahead,
/// only the store's date shows that they are wrong.
#[tokio::test]
async fn regression_the_clock_is_checked_before_the_campaign() {
    const DAY: Duration = Duration::from_secs(86_400);
    let daily = PeriodRules { period: DAY, ..rules(0) };
    let store = MemoryStore::with_clock(Arc::new(Behind(2 * DAY)));
    // Without a record, no answer of the store has a date, so this host cannot see that its clock
    // is wrong.
    assert!(!host_since(wall(), daily, &store, "a").is_over().await.expect("nothing is known"));
    let lenient = PeriodRules { clock_ahead_max: 3 * DAY, ..daily };
    let mut old = turn(&host_since(wall() - 3 * DAY, lenient, &store, "a"), 1).await;
    let (leadership, mut signals) = leader().await;
    old.end(0, &leadership, &mut signals).await.expect("no faults");
    let ahead = host_since(wall(), daily, &store, "b").is_over().await;
    assert_eq!(ahead.err().map(|failure| failure.code), Some(73));
    // The clock of this host is right again, but the host chose its period while the clock was
    // ahead.
    let right = MemoryStore::with_clock(Arc::new(Behind(Duration::ZERO)));
    let named = host_since(wall() + 2 * DAY, daily, &right, "c").take(epoch(1)).await;
    assert_eq!(named.err().map(|failure| failure.code), Some(73));
}

/// The attempt is recorded before CMD starts, so the next leader counts it even if no end is
/// recorded.
#[tokio::test]
async fn an_attempt_without_a_recorded_end_counts() {
    let store = MemoryStore::new();
    drop(turn(&host(&store, 1, "a"), 1).await);
    assert_eq!(
        read(&store).await.map(|record| (record.attempts, record.exit_code)),
        Some((1, None))
    );
    drop(turn(&host(&store, 1, "b"), 2).await);
    assert!(matches!(host(&store, 1, "c").take(epoch(3)).await, Ok(ControlFlow::Break(0))));
    assert_eq!(read(&store).await.map(|record| record.attempts), Some(2));
}

#[tokio::test]
async fn only_the_newest_attempt_records_an_end() {
    let store = MemoryStore::new();
    let election = Election::builder(Arc::new(store.clone()), "p").build().expect("defaults");
    let leadership = election.campaign().await.expect("a store in memory");
    let mut signals = Signals::listen(&[]).expect("none of them");
    let mut first = turn(&host(&store, 1, "a"), leadership.epoch().get()).await;
    let mut second = turn(&host(&store, 1, "b"), leadership.epoch().get() + 1).await;
    let late = first.end(0, &leadership, &mut signals).await.expect_err("the attempt is stale");
    assert_eq!(late.code, 75);
    assert!(late.why.contains("not recorded") && late.why.contains("may run again"));
    assert!(!read(&store).await.expect("a record").is_completed());
    second.end(0, &leadership, &mut signals).await.expect("the second attempt is the newest");
    assert!(read(&store).await.expect("a record").is_completed());
}

/// A host without a valid lease does not change the record, even if no other host has claimed the
/// record.
#[tokio::test]
async fn a_host_that_lost_its_lease_completes_no_period() {
    let store = MemoryStore::new();
    let election = Election::builder(Arc::new(store.clone()), "p").build().expect("defaults");
    let leadership = election.campaign().await.expect("a store in memory");
    let mut signals = Signals::listen(&[]).expect("none of them");
    let mut turn = turn(&host(&store, 0, "a"), 1).await;
    election.depose_dead(None).await.expect("a store in memory");
    let lost = leadership.proclaim("anything").await.expect_err("the epoch is sealed");
    assert_eq!(lost.kind(), ErrorKind::LeadershipLost);
    let failure = turn.end(0, &leadership, &mut signals).await.expect_err("the lease is lost");
    assert_eq!(failure.code, 75);
    assert!(failure.why.contains("does not run again"), "{}", failure.why);
    assert!(!read(&store).await.expect("a record").is_completed());
}

/// Counts the requests of a job in one period. The numbers are also in docs/how-to/cron.md.
#[tokio::test]
async fn a_period_costs_the_documented_requests() {
    use Call::{Create, Get, Replace};
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    let (leadership, mut signals) = leader().await;
    let first = host(&store, 0, "a");
    assert!(!first.is_over().await.expect("no faults"));
    assert_eq!(store.take_calls(), [Get, Get], "the record, clock");
    let mut turn = turn(&first, 1).await;
    assert_eq!(store.take_calls(), [Get, Create, Get, Replace], "claim, clock, attempt");
    turn.end(0, &leadership, &mut signals).await.expect("no faults");
    assert_eq!(store.take_calls(), [Replace]);
    assert!(host(&store, 0, "b").is_over().await.expect("no faults"));
    assert_eq!(store.take_calls(), [Get]);
    assert!(matches!(host(&store, 0, "b").take(epoch(2)).await, Ok(ControlFlow::Break(0))));
    assert_eq!(store.take_calls(), [Get, Replace], "a claim");
}

/// The outcome of the write of the attempt is unknown, so the host must not start CMD.
#[tokio::test]
async fn cmd_does_not_start_after_a_write_of_unknown_outcome() {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    store.on(Call::Replace).always().fault(Fault::FailAfter);
    store.on(Call::Get).skip(2).always().fault(Fault::FailBefore);
    let failure = host(&store, 0, "a").take(epoch(1)).await.err().expect("the store fails");
    assert_eq!(failure.code, 69);
    assert!(failure.why.ends_with("CMD was not run, but the attempt may count"), "{}", failure.why);
    store.heal();
    assert!(matches!(host(&store, 0, "b").take(epoch(2)).await, Ok(ControlFlow::Break(0))));
}

#[tokio::test]
async fn a_completion_is_retried_while_the_lease_is_valid() {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    let (leadership, mut signals) = leader().await;
    let mut turn = turn(&host(&store, 0, "a"), 1).await;
    // These faults outlast the retries within one call of the library, so `end` must repeat the
    // call.
    store.on(Call::Replace).times(8).fault(Fault::FailBefore);
    turn.end(0, &leadership, &mut signals).await.expect("it passes");
    assert!(read(&store).await.expect("a record").is_completed());
}

/// If CMD fails, the host exits with the code of CMD, unless another host completes the period.
#[tokio::test]
async fn a_failure_is_forgotten_only_if_another_host_completes_the_period() {
    for (code, expected) in [(3, 9), (0, 0)] {
        let store = MemoryStore::new();
        let (leadership, mut signals) = leader().await;
        let mut failed = host(&store, 1, "a");
        let mut first = turn(&failed, 1).await;
        first.end(9, &leadership, &mut signals).await.expect("a store in memory");
        assert!(first.may_retry());
        failed.failed_with(9);
        assert_eq!(failed.code_or(76), 9);
        let mut second = turn(&host(&store, 1, "b"), 2).await;
        second.end(code, &leadership, &mut signals).await.expect("a store in memory");
        assert!(!second.may_retry());
        let taken = failed.take(epoch(3)).await;
        assert!(matches!(taken, Ok(ControlFlow::Break(code)) if code == expected));
    }
}

/// Before the fix, a host that started while CMD ran on another host reported that the other host
/// had died.
#[tokio::test]
async fn regression_an_attempt_that_may_still_run_does_not_end_the_period() {
    let store = MemoryStore::new();
    drop(turn(&host(&store, 0, "a"), 1).await);
    let other = host(&store, 0, "b");
    assert!(!other.is_over().await.expect("a store in memory"));
    // After its own election the host knows that the attempt of the other host has failed.
    let taken = other.take(epoch(2)).await.expect("a store in memory");
    assert!(matches!(taken, ControlFlow::Break(0)));
}

/// If the store cannot be reached, the host gives up the first read of the record, because the
/// campaign waits for the store. Other errors end the command.
#[tokio::test]
async fn an_unreachable_store_does_not_end_the_first_read() {
    let store = FaultStore::new(Arc::new(MemoryStore::new()));
    store.on(Call::Get).fault(Fault::FailBefore);
    assert!(!host(&store, 0, "a").is_over().await.expect("nothing is known"));
    store.on(Call::Get).fault(Fault::Denied);
    assert_eq!(host(&store, 0, "a").is_over().await.err().map(|failure| failure.code), Some(77));
}

/// Returns a leadership on a separate store, so that the faults of the store with the period record
/// do not affect the leadership.
async fn leader() -> (Leadership, Signals) {
    let election = Election::builder(Arc::new(MemoryStore::new()), "p").build().expect("defaults");
    let leadership = election.campaign().await.expect("a store in memory");
    (leadership, Signals::listen(&[]).expect("none of them"))
}
