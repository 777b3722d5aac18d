//! The state machine by itself, and what the driver around it allocates.

use std::hint::black_box;
use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use futures::StreamExt as _;
use serde_json::{Value, json};
use tenure::protocol::candidate::Candidate;
use tenure::protocol::find::Listing;
use tenure::protocol::message::{Answer, Nonce, Seen, Sighting, Step, Wait};
use tenure::protocol::message::{Event, Input, Rules};
use tenure::store::{ETag, Store as _};
use tenure::{Election, Epoch};
use tokio::time::Instant;

use super::Size;
use super::report::{Section, table};
use super::still::Still;
use tenure_testkit::time::{TestClock, process};

const POLL: Duration = Duration::from_secs(5);
const VALIDITY: Duration = Duration::from_secs(30);
const KEY: &str = "app/lock-0000000001.json";

struct Machine(Candidate);

impl Machine {
    fn new() -> Machine {
        let rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };
        Machine(Candidate::new(rules, None))
    }

    fn following(etag: &ETag) -> Machine {
        let mut machine = Machine::new();
        machine.answer(Answer::Listed(Listing {
            epochs: Some((Epoch::FIRST, Epoch::FIRST)),
            rest: None,
        }));
        let seen = Seen {
            nonce: Some(Nonce::from_bits(1)),
            heartbeat: 1,
            ended: None,
            reclaimable: false,
        };
        let sighting = Sighting { epoch: Epoch::FIRST, etag: etag.clone(), seen };
        machine.answer(Answer::Found { sighting, touched: false });
        assert_eq!(machine.0.step(), Step::Wait(Wait::Follow));
        machine
    }

    fn leading(etag: &ETag) -> Machine {
        let mut machine = Machine::new();
        let nothing = || Answer::Listed(Listing { epochs: None, rest: None });
        machine.answer(nothing());
        machine.0.handle(Input::Nonce(Nonce::from_bits(2)));
        machine.answer(Answer::Done { etag: etag.clone() });
        assert!(matches!(machine.answer(nothing()), Some(Event::Granted { .. })));
        assert_eq!(machine.0.step(), Step::Wait(Wait::Lead));
        machine
    }

    fn answer(&mut self, answer: Answer) -> Option<Event> {
        black_box(self.0.step());
        self.0.handle(Input::Answer(answer))
    }

    fn poll(&mut self) {
        self.0.handle(Input::PollDue);
        self.answer(Answer::NotModified);
    }

    fn renew(&mut self, etag: &ETag) {
        self.0.handle(Input::RenewDue);
        self.answer(Answer::Done { etag: etag.clone() });
    }
}

/// Nanoseconds and allocations of one step: each call is two inputs and one question what to do.
fn per_step(rounds: u64, mut call: impl FnMut()) -> (f64, f64) {
    let mut nanos = f64::MAX;
    let mut allocations = 0;
    // The best of several, as others run on this machine, too.
    for _ in 0..5 {
        let start = Instant::now();
        let info = allocation_counter::measure(|| (0..rounds).for_each(|_| call()));
        nanos = nanos.min(start.elapsed().as_nanos() as f64);
        allocations = allocations.max(info.count_total);
    }
    let steps = (rounds * 2) as f64;
    (nanos / steps, allocations as f64 / steps)
}

fn election(store: Still) -> Election {
    Election::builder(Arc::new(store), "app")
        .name("worker-7")
        .validity(VALIDITY)
        .check_store(false)
        .process(process(&TestClock::new(), 1))
        .build()
        .expect("these settings fit together")
}

/// The record of another, which never lapses while this runs.
fn led() -> (String, Bytes) {
    let record = json!({
        "expired": false, "validity_ms": 86_400_000, "format": 1, "candidate": "worker-8",
        "nonce": "5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c", "heartbeat": 1,
    });
    (KEY.to_owned(), Bytes::from(record.to_string()))
}

/// Allocations a request of an election on a store that allocates nothing.
fn driver(store: Still, interval: Duration, lead: bool) -> f64 {
    let requests = 1_000;
    let runtime = super::paused();
    let (election, leadership) = runtime.block_on(async {
        let election = election(store);
        let campaign = tokio::spawn({
            let election = election.clone();
            async move { election.campaign().await.expect("nothing is wrong") }
        });
        let leadership = if lead {
            Some(campaign.await.expect("no panic"))
        } else {
            drop(campaign);
            None
        };
        // Whatever is made once has been made by then.
        tokio::time::sleep(interval * 200).await;
        (election, leadership)
    });
    let info = allocation_counter::measure(|| {
        runtime.block_on(async { tokio::time::sleep(interval * requests).await });
    });
    assert!(leadership.as_ref().is_none_or(|it| it.check().is_ok()));
    drop((election, leadership));
    info.count_total as f64 / f64::from(requests)
}

/// Bytes that an election which is followed keeps from its first poll on.
pub fn kept_by_polls() -> i64 {
    let etag = ETag::new("\"5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c\"");
    let runtime = super::paused();
    let mut observations = runtime.block_on(async {
        let mut observations = election(Still { led: Some(led()), etag }).observe();
        drop(observations.next().await);
        observations
    });
    let info = allocation_counter::measure(|| {
        runtime.block_on(async {
            let polls = tokio::time::timeout(POLL * 100, observations.next());
            assert!(polls.await.is_err(), "nothing changes");
        });
    });
    info.bytes_current
}

/// Allocations of the same requests without an election around them.
fn bare(call: impl AsyncFn()) -> f64 {
    let runtime = super::paused();
    let info = allocation_counter::measure(|| {
        runtime.block_on(async {
            for _ in 0..1_000 {
                call().await;
            }
        });
    });
    (info.count_total as f64 / 1_000.0).floor()
}

pub fn measure(size: &Size) -> Section {
    let mut section = Section::new("The state machine, and what the driver allocates");
    let etag = ETag::new("\"5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c\"");
    let mut following = Machine::following(&etag);
    let polled = per_step(size.steps, || black_box(&mut following).poll());
    let mut leading = Machine::leading(&etag);
    let renewed = per_step(size.steps, || black_box(&mut leading).renew(&etag));

    let still = |is_led: bool| Still { led: is_led.then(led), etag: etag.clone() };
    let poll = driver(still(true), POLL, false);
    let renewal = driver(still(false), VALIDITY / 3, true);
    let (followed, alone) = (still(true), still(false));
    let bare_poll = bare(async || {
        let key = format!("app/lock-{:010}.json", black_box(1));
        black_box(followed.get(&key, Some(etag.clone()), 1 << 16).await.expect("it answers"));
    });
    let whole: Value = serde_json::from_str(super::server::LONG_LED).expect("JSON");
    let name = String::from("worker-7");
    let bare_renewal = bare(async || {
        let key = format!("app/lock-{:010}.json", black_box(1));
        // The record owns its candidate's name.
        black_box(name.clone());
        let body = Bytes::from(serde_json::to_vec(black_box(&whole)).expect("JSON"));
        black_box(alone.replace(&key, body, etag.clone()).await.expect("it answers"));
    });

    let row = |what: &str, own: f64, bare: f64| {
        vec![what.to_owned(), format!("{own:.2}"), format!("{bare:.2}")]
    };
    section.text = format!(
        "A step is one input and, for every second, the question what to do next; the best of 5 runs of \
         {} steps. Allocations are counted over 1,000 intervals on a store that answers at once and \
         allocates only the box in which a call's future comes. A renewal's share of the leader's look \
         at the next epoch, one in three renewals, is in its number; the bare requests are the key's \
         text, the body and the call.\n\n{}",
        super::report::grouped(size.steps * 2),
        table(
            &["allocations", "tenure", "the bare request"],
            &[
                row("a follower's poll that shows nothing new", poll, bare_poll),
                row(
                    "a leader's renewal, and a third of a look",
                    renewal,
                    bare_renewal + bare_poll / 3.0
                ),
            ],
        )
    );
    let worst = polled.0.max(renewed.0);
    section.timed(
        "one step of the state machine",
        format!("{worst:.0} ns"),
        "< 1,000 ns",
        worst < 1_000.0,
    );
    let worst = polled.1.max(renewed.1);
    section.exact(
        "allocations of a step, leading or following",
        format!("{worst:.0}"),
        "0",
        worst == 0.0,
    );
    let beyond = (poll - bare_poll).max(0.0);
    section.exact(
        "allocations of a follower's poll that shows nothing new, beyond the request's own",
        format!("{beyond:.2}"),
        "0",
        beyond < 0.01,
    );
    let beyond = (renewal - bare_renewal - bare_poll / 3.0).max(0.0);
    section.exact(
        "allocations of a leader's renewal beyond the request's own",
        format!("{beyond:.2}"),
        "0",
        beyond < 0.01,
    );
    section
}
