//! Tests of the health pages of `tenure run`, on a manual clock.

use serde_json::Value;
use tenure::store::MemoryStore;
use tenure::{Leadership, Moment, Process};

use super::*;
use crate::http::health::pulse::EVERY_TURN;
use crate::http::health::recent;
use crate::process::timer::pause;

const VALIDITY: Duration = Duration::from_secs(30);

#[derive(Debug, Clone)]
struct Hand(Arc<Mutex<Moment>>);

impl Clock for Hand {
    fn now(&self) -> Moment {
        *lock(&self.0)
    }
}

impl Hand {
    fn boot(&self, by: Duration) {
        lock(&self.0).boot += by;
    }

    fn wall(&self, by: Duration) {
        lock(&self.0).wall += by;
    }
}

struct Bench {
    hand: Hand,
    election: Election,
    health: Arc<ElectionHealth>,
    routes: Routes,
}

impl Bench {
    fn new() -> Bench {
        let up = Duration::from_secs(1_000);
        let hand = Hand(Arc::new(Mutex::new(Moment::new(up, up, up))));
        let process = Process::system().with_clock(Arc::new(hand.clone()));
        let store = Arc::new(MemoryStore::new());
        let election = Election::builder(store, "app").name("a").process(process).build();
        let margins = Margins::new(VALIDITY, None).expect("the default");
        let health = ElectionHealth::by(
            Arc::new(hand.clone()),
            "a",
            recent(VALIDITY / 3, VALIDITY / 5),
            margins,
        );
        let health = Arc::new(health);
        let routes = health.routes();
        Bench { hand, election: election.expect("the default"), health, routes }
    }

    async fn elected(&self) -> Leadership {
        self.health.opened(&self.election);
        self.election.campaign().await.expect("no other candidate exists")
    }

    fn ask(&self, path: &str) -> (u16, String) {
        let reply = (self.routes)(path).expect("a known path");
        (reply.status, reply.body.trim_end().to_owned())
    }

    #[track_caller]
    fn says(&self, path: &str, status: u16, body: &str) {
        assert_eq!(self.ask(path), (status, body.to_owned()), "{path}");
    }

    #[track_caller]
    fn leader(&self, status: u16, role: &str) -> Value {
        let (code, body) = self.ask("/leader");
        let view: Value = serde_json::from_str(&body).expect("JSON");
        assert_eq!((code, view["role"].as_str()), (status, Some(role)), "{view}");
        assert_eq!(view["state"] == "held", !view["epoch"].is_null(), "{view}");
        assert_eq!(view["this_candidate_leads"], status == 200, "{view}");
        assert_eq!(view["candidate"], "a");
        view
    }
}

#[tokio::test(start_paused = true)]
async fn each_phase_has_its_replies() {
    let bench = Bench::new();
    bench.says("/livez", 200, "ok");
    bench.says("/readyz", 503, "starting");
    assert_eq!(bench.leader(503, "starting")["state"], "unknown");

    bench.health.enter(CandidatePhase::Campaigning);
    bench.says("/readyz", 503, "the store has not answered yet");
    let lead = bench.elected().await;
    bench.says("/readyz", 200, "campaigning");
    assert_eq!(bench.leader(503, "campaigning")["state"], "vacant");

    bench.election.leader().await.expect("the store works").expect("a leader");
    bench.health.enter(CandidatePhase::Following);
    bench.says("/readyz", 200, "following");
    let view = bench.leader(503, "following");
    assert_eq!((&view["leader"], &view["epoch"]), (&"a".into(), &1.into()));
    assert_eq!(view["lease_remaining_ms"], Value::Null);

    bench.health.enter(CandidatePhase::Elected(lead.lease()));
    bench.says("/readyz", 200, "elected");
    bench.leader(503, "elected");

    bench.health.enter(CandidatePhase::Leading(lead.lease()));
    bench.says("/readyz", 200, "leading");
    bench.hand.boot(Duration::from_secs(2));
    let view = bench.leader(200, "leading");
    assert_eq!((&view["leader"], &view["epoch"]), (&"a".into(), &1.into()));
    assert_eq!(view["lease_remaining_ms"], 28_000);
    assert_eq!(view["store_answered_ms_ago"], 2_000);

    bench.health.enter(CandidatePhase::Ending(lead.lease()));
    bench.says("/readyz", 503, "ending");
    assert_eq!(bench.leader(503, "ending")["epoch"], 1);
    assert!((bench.routes)("/").is_none() && (bench.routes)("/leader/").is_none());
}

/// Each reply is computed from the lease, even if the main task has not handled the end of the
/// lease.
#[tokio::test(start_paused = true)]
async fn each_reply_reads_the_lease() {
    let almost = Duration::from_millis(23_499);
    let moves: [fn(&Hand, Duration); 2] = [Hand::boot, Hand::wall];
    for forward in moves {
        let bench = Bench::new();
        let lead = bench.elected().await;
        bench.health.enter(CandidatePhase::Leading(lead.lease()));
        forward(&bench.hand, almost);
        bench.leader(200, "leading");
        // The next reply falls on the deadline for SIGTERM. This deadline precedes the end of the
        // lease by a sixth plus a twentieth of the validity.
        forward(&bench.hand, Duration::from_millis(1));
        assert_eq!(bench.leader(503, "ending")["leader"], "a");
        forward(&bench.hand, VALIDITY);
        assert_eq!(bench.leader(503, "ending")["leader"], Value::Null);
    }
    let bench = Bench::new();
    let lead = bench.elected().await;
    bench.health.enter(CandidatePhase::Leading(lead.lease()));
    bench.leader(200, "leading");
    lead.resign().await.expect("the store works");
    bench.leader(503, "ending");
    bench.says("/readyz", 503, "ending");
}

#[tokio::test(start_paused = true)]
async fn a_silent_store_makes_the_candidate_unready_but_not_dead() {
    let bench = Bench::new();
    let lead = bench.elected().await;
    bench.health.enter(CandidatePhase::Campaigning);
    // A candidate is ready while the store's last answer is at most 22 s old. This limit is a third
    // plus two fifths of the validity.
    bench.hand.boot(Duration::from_secs(22));
    bench.says("/readyz", 200, "campaigning");
    bench.hand.boot(Duration::from_secs(1));
    bench.says("/readyz", 503, "the store has not answered for 23s");
    bench.health.of(async {}).await;
    bench.hand.boot(Duration::from_secs(29));
    bench.says("/livez", 200, "ok");
    drop(lead);
}

#[tokio::test(start_paused = true)]
async fn a_blocked_main_task_is_dead() {
    let bench = Bench::new();
    bench.hand.boot(Duration::from_secs(31));
    bench.says("/livez", 503, "the main task has not run for 31s");
    let task = async {
        // The pulse polls the main task each second, so the task counts as alive while it waits for
        // a renewal.
        for _ in 0..100 {
            bench.hand.boot(EVERY_TURN);
            pause(EVERY_TURN).await;
            bench.says("/livez", 200, "ok");
        }
    };
    bench.health.of(task).await;
}

#[tokio::test(start_paused = true)]
async fn systemd_sees_held_vacant_or_unknown() {
    let bench = Bench::new();
    let shows = |ready, text: &str| {
        let state = ServiceState { ready, text: text.to_owned() };
        assert_eq!(bench.health.service_state(), state);
    };
    shows(false, "unknown: starting");
    bench.health.opened(&bench.election);
    bench.health.enter(CandidatePhase::Campaigning);
    shows(false, "unknown: the store has not answered yet");
    let lead = bench.elected().await;
    bench.health.enter(CandidatePhase::Elected(lead.lease()));
    shows(false, "held: elected epoch 1, 30s left");
    bench.health.enter(CandidatePhase::Leading(lead.lease()));
    shows(true, "held: leading epoch 1, 30s left");
    lead.resign().await.expect("resigned");
    bench.health.enter(CandidatePhase::Campaigning);
    shows(false, "vacant: campaigning");
    bench.hand.boot(Duration::from_secs(40));
    shows(false, "unknown: the store has not answered for 40s");
}
