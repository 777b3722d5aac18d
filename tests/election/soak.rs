//! Simulates hours in which candidates die, resign, sleep and lose requests. A seed determines
//! these events. The test asserts that two leaders never overlap, that epochs only increase, and
//! that another leader always follows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use futures::future::join_all;
use tenure::{Election, Leadership};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{TestClock, millis, secs, wait};
use tenure_testkit::world::{VALIDITY, World, elect};
use tenure_testkit::write_faults::WRITE_FAULTS;

const NODES: usize = 4;

/// A referee that knows all leaders of a run. No candidate has this knowledge.
#[derive(Default)]
struct Referee {
    leading: BTreeMap<usize, Arc<Leadership>>,
    granted: Vec<u64>,
}

impl Referee {
    /// Asserts that at most one candidate has a token of a leader at this moment.
    fn look(&self, seed: u64) {
        let leaders: Vec<_> = self.leading.values().filter_map(|lead| lead.token()).collect();
        assert!(leaders.len() < 2, "seed {seed}: {leaders:?} lead together");
    }

    fn elected(&mut self, seed: u64, node: usize, lead: &Arc<Leadership>) {
        let epoch = lead.epoch().get();
        let before = self.granted.last().copied().unwrap_or(0);
        assert!(epoch > before, "seed {seed}: epoch {epoch} after {before}");
        self.granted.push(epoch);
        self.leading.insert(node, Arc::clone(lead));
        self.look(seed);
    }
}

struct Node {
    number: usize,
    election: Election,
    way: FaultStore,
    clock: TestClock,
    rng: fastrand::Rng,
}

impl Node {
    async fn live(mut self, seed: u64, terms: usize, referee: Arc<Mutex<Referee>>) {
        for _ in 0..terms {
            self.trouble();
            let campaign = self.election.campaign();
            let patience = secs(self.rng.u64(1..120));
            let Some(lead) = tenure_testkit::time::within(patience, campaign).await else {
                continue;
            };
            let lead = Arc::new(lead.unwrap_or_else(|error| panic!("seed {seed}: {error}")));
            referee.lock().unwrap().elected(seed, self.number, &lead);
            let term = millis(self.rng.u64(0..60_000));
            tokio::select! {
                _ = lead.lost() => {}
                () = wait(term) => {}
            }
            self.trouble();
            wait(millis(self.rng.u64(0..15_000))).await;
            referee.lock().unwrap().leading.remove(&self.number);
            let lead = Arc::into_inner(lead).expect("the referee has dropped its clone");
            if self.rng.bool() {
                // The resignation fails if the leadership was already lost. This failure is not an
                // error.
                let _ = lead.resign().await;
            }
        }
        self.way.heal();
    }

    /// Sets faults for the next requests of this node.
    fn trouble(&mut self) {
        self.way.heal();
        let delays = [
            Fault::Slow(millis(self.rng.u64(0..4_000))),
            Fault::Late(millis(self.rng.u64(0..40_000))),
        ];
        let faults: Vec<_> = WRITE_FAULTS.into_iter().chain(delays).collect();
        for _ in 0..self.rng.usize(0..4) {
            let call = [Call::List, Call::Get, Call::Create, Call::Replace][self.rng.usize(0..4)];
            let fault = faults[self.rng.usize(0..faults.len())];
            // A late effect is possible only for writes.
            let fault = match call {
                Call::List | Call::Get if matches!(fault, Fault::Late(_)) => Fault::FailBefore,
                _ => fault,
            };
            let order = self.way.on(call).skip(self.rng.usize(0..6));
            order.times(self.rng.usize(1..8)).fault(fault);
        }
        if self.rng.usize(0..4) == 0 {
            self.clock.set_wall_by(self.rng.i64(-20_000..20_000));
        }
    }
}

async fn run(seed: u64) -> usize {
    let world = World::new();
    let mut rng = fastrand::Rng::with_seed(seed);
    let referee = Arc::new(Mutex::new(Referee::default()));
    let lives = (0..NODES).map(|number| {
        let clock = if rng.bool() { TestClock::fast(rng.u32(0..10_000)) } else { TestClock::new() };
        let way = world.another_way();
        let election = world
            .node_behind(&way, &clock, &format!("n{number}"))
            .verify_renewals(rng.usize(0..4) == 0)
            .resign_on_drop(rng.usize(0..4) == 0)
            .name_is_unique(rng.usize(0..4) == 0)
            .build()
            .unwrap();
        let node = Node { number, election, way, clock, rng: rng.fork() };
        tokio::spawn(node.live(seed, 12, Arc::clone(&referee)))
    });
    let lives: Vec<_> = lives.collect();
    let watch = tokio::spawn({
        let referee = Arc::clone(&referee);
        async move {
            loop {
                referee.lock().unwrap().look(seed);
                wait(millis(43)).await;
            }
        }
    });
    for life in join_all(lives).await {
        life.unwrap();
    }
    watch.abort();
    let Err(error) = watch.await;
    assert!(error.is_cancelled(), "seed {seed}: {error}");
    // After any faults, the next candidate is elected.
    wait(VALIDITY * 5).await;
    let last = elect(&world.node("last").build().unwrap()).await;
    let granted = referee.lock().unwrap().granted.len();
    assert!(Some(&last.epoch().get()) > referee.lock().unwrap().granted.last(), "seed {seed}");
    granted
}

#[tokio::test(start_paused = true)]
async fn leaders_never_overlap_and_another_always_follows() {
    let seeds = std::env::var("TENURE_SOAK_SEEDS").ok().and_then(|n| n.parse().ok());
    let mut granted = 0;
    for seed in 0..seeds.unwrap_or(10) {
        granted += run(seed).await;
    }
    assert!(granted > 100, "only {granted} were elected");
}
