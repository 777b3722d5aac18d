//! Tests of attempts in paused time, on stores whose dates are right, wrong or missing.

use std::sync::Arc;

use async_trait::async_trait;
use tenure::Clock as _;
use tenure::store::{ETag, GetOutcome, MemoryStore, Store, StoreError};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{TestClock, process, secs, wait};

use super::*;

const VALIDITY: Duration = secs(30);
const POLL: Duration = secs(5);

/// The kind of dates that a test store reports for its objects.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Dates {
    Right,
    /// Each object appears to be an hour old.
    Old,
    None,
}

#[derive(Debug, Clone)]
struct Dated(MemoryStore, Dates);

#[async_trait]
impl Layer for Dated {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        max_len: usize,
    ) -> Result<GetOutcome, StoreError> {
        let mut outcome = self.0.get(key, unless, max_len).await?;
        if let GetOutcome::Found(object) = &mut outcome {
            match self.1 {
                Dates::Right => {}
                Dates::Old => {
                    object.last_modified = object.last_modified.map(|at| at - secs(3_600))
                }
                Dates::None => object.served_at = None,
            }
        }
        Ok(outcome)
    }
}

struct Scene {
    clock: TestClock,
    store: Dated,
}

impl Scene {
    fn new(dates: Dates) -> Scene {
        let clock = TestClock::new();
        let store = Dated(MemoryStore::with_clock(Arc::new(clock.clone())), dates);
        Scene { clock, store }
    }

    /// Returns the election for a new process with this name.
    fn election(&self, name: &str, seed: u64) -> Election {
        Election::builder(Arc::new(Layered(self.store.clone())), "p")
            .name(name)
            .validity(VALIDITY)
            .poll_interval(POLL)
            .process(process(&self.clock, seed))
            .build()
            .expect("settings that fit")
    }

    /// Makes one attempt with a new process. Returns the leadership, or `None` if another candidate
    /// leads. Also returns the duration of the attempt.
    async fn attempt(&self, seed: u64) -> (Option<Leadership>, Duration) {
        let started = self.clock.now().boot;
        let outcome = attempt(&self.election("b", seed), POLL).await;
        let elected = match outcome.unwrap_or_else(|failure| panic!("{}", failure.why)) {
            Attempt::Elected(leadership) => Some(leadership),
            Attempt::Held(leader) => {
                assert_eq!(leader.name(), "a");
                None
            }
        };
        (elected, self.clock.now().boot.saturating_sub(started))
    }
}

/// If the store's dates are right, an attempt ends immediately. Otherwise it ends after the
/// leader's next renewal.
#[tokio::test(start_paused = true)]
async fn a_live_leader_keeps_its_lease() {
    let renewal = VALIDITY / 3 + POLL + secs(1);
    for (dates, most) in [(Dates::Right, secs(1)), (Dates::Old, renewal), (Dates::None, renewal)] {
        let scene = Scene::new(dates);
        let leadership = scene.election("a", 1).campaign().await.expect("no faults");
        wait(secs(100)).await;
        for seed in 2..5 {
            let (elected, took) = scene.attempt(seed).await;
            assert!(elected.is_none() && took <= most, "{dates:?}: {took:?}");
        }
        assert!(leadership.check().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_new_process_takes_over_from_a_dead_leader() {
    for dates in [Dates::Right, Dates::Old, Dates::None] {
        let scene = Scene::new(dates);
        drop(scene.election("a", 1).campaign().await.expect("no faults"));
        if dates == Dates::Right {
            let (elected, took) = scene.attempt(2).await;
            assert!(elected.is_none() && took < secs(1), "the leader may be alive: {took:?}");
        }
        wait(VALIDITY + secs(1)).await;
        let (elected, took) = scene.attempt(3).await;
        assert_eq!(elected.map(|leadership| leadership.epoch().get()), Some(2), "{dates:?}");
        // The bound adds a tenth of the validity for clock drift and for the random delay before a
        // seal.
        let most = VALIDITY + VALIDITY / 10 + 2 * POLL;
        assert!(took >= VALIDITY && took <= most, "{dates:?}: {took:?}");
    }
}

/// The leader names the successor `c` in its seal, and `c` does not run. Another process can be
/// elected only after a wait for `c`, so its attempt must last longer than this wait.
#[tokio::test(start_paused = true)]
async fn an_attempt_waits_for_the_successor_that_the_seal_names() {
    let scene = Scene::new(Dates::Right);
    let leadership = scene.election("a", 1).campaign().await.expect("no faults");
    leadership.resign_to("c").await.expect("no faults");
    let (elected, took) = scene.attempt(2).await;
    assert!(elected.is_some() && took >= POLL && took <= 3 * POLL, "{took:?}");
}
