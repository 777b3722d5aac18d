//! If the token of a writer has a lease, each call of the writer ends before the lease does, even
//! if the store does not respond.

use futures::future::BoxFuture;
use tenure::Loss;
use tenure_fencing::{LogWriter, ObjectWriter, Token};
use tenure_groups::{Group, Membership, MembershipEvent, Partition};
use tenure_testkit::fault_store::{Fault, FaultStore};
use tenure_testkit::time::{timed, wait};
use tenure_testkit::world::{VALIDITY, World};

use super::*;

/// A log and an object on a store with faults. The election uses another store, so the faults do
/// not affect the election.
struct Guards {
    faults: FaultStore,
    log: FencedLog,
    object: FencedObject,
}

impl Guards {
    fn new(clock: &TestClock) -> Guards {
        let faults = FaultStore::new(Arc::new(MemoryStore::new()));
        let store: Arc<dyn Store> = Arc::new(faults.clone());
        let process = || tenure_testkit::time::process(clock, 99);
        let log = FencedLog::new(Arc::clone(&store), "log").unwrap().process(process());
        let object = FencedObject::new(store, "o").process(process());
        Guards { faults, log, object }
    }

    async fn writers(&self, token: impl Into<Token> + Clone) -> (LogWriter, ObjectWriter) {
        let log = self.log.open(token.clone()).await.unwrap();
        (log, self.object.open(token).await.unwrap())
    }

    /// Returns four calls, each with its name: an append, a write, the opening of the log, and the
    /// opening of the object.
    fn calls<'a>(
        &'a self,
        token: Token,
        log: &'a mut LogWriter,
        object: &'a mut ObjectWriter,
    ) -> Vec<(&'static str, BoxFuture<'a, Result<(), FencingError>>)> {
        let (opening, claiming) = (token.clone(), token);
        vec![
            ("append", Box::pin(async { log.append("x").await.map(drop) })),
            ("write", Box::pin(async { object.write("x").await })),
            ("open a log", Box::pin(async { self.log.open(opening).await.map(drop) })),
            ("open an object", Box::pin(async { self.object.open(claiming).await.map(drop) })),
        ]
    }
}

/// Checks that each call returns while about a quarter of the lease is left.
async fn end_before_the_lease(guards: &Guards, token: Token, loss: fn(&Option<Loss>) -> bool) {
    let (mut log, mut object) = guards.writers(token.clone()).await;
    guards.faults.always(Fault::Hang);
    let calls = guards.calls(token, &mut log, &mut object);
    let ends = calls.into_iter().map(async |(call, outcome)| (call, timed(outcome).await));
    for (call, (took, outcome)) in futures::future::join_all(ends).await {
        let error = outcome.unwrap_err();
        assert!(
            matches!(&error, FencingError::LeaseEnding { loss: l, .. } if loss(l)),
            "{call}: {error}"
        );
        assert!(took <= VALIDITY * 3 / 4 + secs(1), "{call} took {took:?}");
        let lists_first = call == "open a log";
        assert_eq!(
            error.may_have_happened(),
            !lists_first,
            "{call}: only a sent PUT may still take effect"
        );
    }
    assert!(log.last().is_none(), "the effect of the append must be unknown");
}

#[tokio::test(start_paused = true)]
async fn regression_calls_end_before_the_lease_if_the_store_hangs() {
    let world = World::new();
    let leadership = world.leader("a").await;
    let guards = Guards::new(&world.clock);
    world.store.always(Fault::Hang);
    end_before_the_lease(&guards, Token::from(&leadership), Option::is_none).await;
    assert!(leadership.check().is_ok(), "the lease is still valid");
    // No request is sent after the lease has ended.
    wait(VALIDITY).await;
    guards.faults.heal();
    guards.faults.take_calls();
    let error = guards.log.open(&leadership).await.unwrap_err();
    assert!(matches!(&error, FencingError::LeaseEnding { loss: Some(_), .. }), "{error}");
    assert_eq!(guards.faults.take_calls(), []);
}

#[tokio::test(start_paused = true)]
async fn calls_under_a_renewed_lease_use_all_their_attempts() {
    let world = World::new();
    let leadership = world.leader("a").await;
    let guards = Guards::new(&world.clock);
    let (mut log, _) = guards.writers(&leadership).await;
    guards.faults.always(Fault::Hang);
    let (took, outcome) = timed(log.append("x")).await;
    assert!(matches!(outcome, Err(FencingError::Failed(_))) && took > VALIDITY * 2, "{took:?}");
    guards.faults.heal();
    assert!(log.append("y").await.is_ok(), "the writer works again");
}

#[tokio::test(start_paused = true)]
async fn a_writer_works_again_after_its_lease_is_extended() {
    let world = World::new();
    let leadership = world.leader("a").await;
    let guards = Guards::new(&world.clock);
    let (mut log, mut object) = guards.writers(&leadership).await;
    world.store.always(Fault::FailBefore);
    wait(VALIDITY * 4 / 5).await;
    let error = log.append("one").await.unwrap_err();
    assert!(!error.may_have_happened(), "nothing was sent: {error}");
    assert!(!object.write("one").await.unwrap_err().may_have_happened());
    world.store.heal();
    wait(VALIDITY / 5).await;
    assert!(leadership.remaining() > VALIDITY / 2);
    log.append("two").await.unwrap();
    object.write("two").await.unwrap();
    assert_eq!(all(&guards.log, 1).await, [(log.last().unwrap(), 1, "two".to_owned())]);
}

async fn owned(group: &Group) -> (Membership, Partition) {
    let mut membership = group.join().await.unwrap();
    while let Some(event) = membership.next().await {
        if let MembershipEvent::Granted(partition) = event {
            return (membership, partition);
        }
    }
    panic!("the membership has ended");
}

#[tokio::test(start_paused = true)]
async fn regression_calls_with_the_token_of_a_partition_end_before_the_session() {
    let clock = TestClock::new();
    let faults = FaultStore::new(Arc::new(MemoryStore::with_clock(Arc::new(clock.clone()))));
    let process = tenure_testkit::time::process(&clock, 1);
    let group = Group::builder(Arc::new(faults.clone()), "app").partitions(0..1).check_store(false);
    let group = group.validity(VALIDITY).process(process).build().unwrap();
    let (_membership, partition) = owned(&group).await;
    let guards = Guards::new(&clock);
    faults.always(Fault::Hang);
    end_before_the_lease(&guards, Token::from(&partition), Option::is_none).await;
    assert!(partition.check().is_ok(), "the session is still valid");
}

#[tokio::test(start_paused = true)]
async fn the_release_of_a_partition_ends_the_calls_of_its_writers() {
    let clock = TestClock::new();
    let store = Arc::new(MemoryStore::with_clock(Arc::new(clock.clone())));
    let process = tenure_testkit::time::process(&clock, 1);
    let group = Group::builder(store, "app").partitions(0..1).check_store(false).process(process);
    let (_membership, partition) = owned(&group.build().unwrap()).await;
    let guards = Guards::new(&clock);
    let (mut log, _) = guards.writers(&partition).await;
    partition.release();
    let error = log.append("x").await.unwrap_err();
    let resigned = matches!(&error, FencingError::LeaseEnding { loss: Some(Loss::Resigned), .. });
    assert!(resigned && !error.may_have_happened(), "{error}");
}
