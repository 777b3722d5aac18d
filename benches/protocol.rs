//! What the state machine costs: nothing beside a request.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tenure::Epoch;
use tenure::protocol::candidate::{Candidate, Event, Input, Rules};
use tenure::protocol::find::{After, Listing, Progress, Search};
use tenure::protocol::message::{Answer, Nonce, Seen, Sighting, Step, Wait};
use tenure::store::ETag;

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("protocol");
    let mut following = Machine::following();
    group.bench_function("poll", |b| b.iter(|| black_box(&mut following).poll()));
    let mut leading = Machine::leading();
    group.bench_function("renew", |b| b.iter(|| black_box(&mut leading).renew()));
    group.bench_function("campaign and resign", |b| b.iter(Machine::live));
    group.bench_function("clone", |b| b.iter(|| black_box(&following).clone()));
    for epochs in [1_000, 1_000_000] {
        let name = format!("find the newest of {epochs}");
        group.bench_function(name, |b| b.iter(|| find(black_box(epochs))));
    }
    group.finish();
}

/// A state machine at a point to which it returns after each step measured.
#[derive(Clone, Debug)]
struct Machine(Candidate);

impl Machine {
    /// A candidate that follows the leader of epoch 1.
    fn following() -> Machine {
        let mut machine = Machine::start();
        let epochs = Some((Epoch::FIRST, Epoch::FIRST));
        machine.answer(Answer::Listed(Listing { epochs, rest: None }));
        let nonce = Some(Nonce::from_bits(1));
        let seen = Seen { nonce, heartbeat: 1, ended: None, reclaimable: false };
        let sighting = Sighting { epoch: Epoch::FIRST, etag: etag(), seen };
        machine.answer(Answer::Found { sighting, touched: false });
        assert_eq!(machine.0.step(), Step::Wait(Wait::Follow));
        machine
    }

    /// A leader between two renewals.
    fn leading() -> Machine {
        let mut machine = Machine::start();
        machine.campaign_on_nothing();
        assert_eq!(machine.0.step(), Step::Wait(Wait::Lead));
        machine
    }

    /// One poll that shows nothing new: two inputs, one request.
    fn poll(&mut self) {
        self.0.handle(Input::PollDue);
        self.answer(Answer::NotModified);
    }

    /// One renewal: two inputs, one request.
    fn renew(&mut self) {
        self.0.handle(Input::RenewDue);
        self.answer(Answer::Done { etag: etag() });
    }

    /// A whole life on a store that stays otherwise empty, from the first LIST to the seal.
    fn live() -> Epoch {
        let mut machine = Machine::start();
        let epoch = machine.campaign_on_nothing();
        machine.0.handle(Input::Resign);
        machine.answer(Answer::Done { etag: etag() });
        epoch
    }

    fn start() -> Machine {
        let rules = Rules { observer: false, verify_renewals: false, takeover_delay: false };
        Machine(Candidate::new(rules, None))
    }

    fn campaign_on_nothing(&mut self) -> Epoch {
        self.answer(nothing());
        self.0.handle(Input::Nonce(Nonce::from_bits(2)));
        self.answer(Answer::Done { etag: etag() });
        match self.answer(nothing()) {
            Some(Event::Granted { epoch, .. }) => epoch,
            other => unreachable!("a campaign alone is granted its epoch, not {other:?}"),
        }
    }

    /// Asks for the request, as a driver does, and answers it.
    fn answer(&mut self, answer: Answer) -> Option<Event> {
        let step = self.0.step();
        debug_assert!(matches!(step, Step::Request(_)), "{step:?}");
        std::hint::black_box(step);
        self.0.handle(Input::Answer(answer))
    }
}

fn nothing() -> Answer {
    Answer::Listed(Listing { epochs: None, rest: None })
}

fn etag() -> ETag {
    ETag::new("\"5f0c5f0c5f0c5f0c5f0c5f0c5f0c5f0c\"")
}

/// Finds the newest of epochs 1 to `newest`, from pages of 1,000. How many pages that took.
fn find(newest: u64) -> usize {
    let mut search = Search::new(None);
    for pages in 1.. {
        let After::Number(after) = *search.next_page() else {
            unreachable!("there are no foreign keys here")
        };
        let last = newest.min(after + 1_000);
        let epochs = Epoch::new(after + 1).filter(|first| first.get() <= newest);
        let listing = Listing {
            epochs: epochs.zip(Epoch::new(last)),
            rest: (last < newest).then_some(After::Number(last)),
        };
        if let Progress::Newest(found) = search.handle(listing) {
            assert_eq!(found.map(Epoch::get), Some(newest));
            return pages;
        }
    }
    unreachable!("a search ends")
}

criterion_group!(benches, steps);
criterion_main!(benches);
