//! A writer opens the log while an older writer appends entries. The checks assert that the opening
//! succeeds within a bounded number of requests. The store answers the older writer more often than
//! the newer writer, by a bounded factor.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::sync::atomic::{AtomicU16, Ordering};

use stateright::{Checker, Model, Property};
use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::Nonce;
use tenure_fencing::protocol::{Ended, Header, LogAnswer, LogRequest, Writer};

use super::world::{epoch, numbers};

#[derive(Debug, Clone)]
struct Race {
    /// Maximum number of requests that the older writer sends between two requests of the newer
    /// writer.
    faster: u8,
    /// Maximum number of requests that the newer writer may send until it has opened the log.
    within: u16,
    /// True in the broken variant: at each search for the end of the log, the newer writer forgets
    /// how many of its creates were refused. So it never creates a fence ahead of the older writer.
    broken: bool,
    /// Greatest number of requests that the newer writer sent on any path.
    most: Arc<AtomicU16>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
struct RaceWorld {
    objects: BTreeMap<u64, Header>,
    older: Writer,
    newer: Writer,
    /// Number of requests that the newer writer has sent.
    sent: u16,
    /// Number of requests of the older writer since the last request of the newer writer.
    since: u8,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash)]
enum RaceAction {
    Older,
    Newer,
}

impl RaceWorld {
    /// Returns an unused nonce, computed from the number of the writer's objects. In this model
    /// each create has a known outcome, and only a successful create uses its nonce.
    fn nonce(&self, writer: u64) -> Nonce {
        let own = self.objects.values().filter(|it| it.epoch == epoch(writer)).count();
        Nonce::from_bits(u128::from(writer) * 1_000 + own as u128)
    }

    fn answer(&mut self, request: LogRequest) -> LogAnswer {
        match request {
            LogRequest::List(After::Number(after)) => {
                let mut above = self.objects.range(after + 1..).map(|(number, _)| *number);
                let least = above.next();
                let greatest = above.next_back().or(least);
                let epochs = least.map(numbers).zip(greatest.map(numbers));
                LogAnswer::Listed(Listing { epochs, rest: None })
            }
            LogRequest::List(After::Key(_)) => unreachable!("no page ends with a foreign key"),
            LogRequest::Read(number) => {
                self.objects.get(&number).map_or(LogAnswer::Missing, |it| LogAnswer::Found(*it))
            }
            LogRequest::Create { number, .. } if self.objects.contains_key(&number) => {
                LogAnswer::Refused
            }
            LogRequest::Create { number, header } => {
                self.objects.insert(number, header);
                LogAnswer::Created
            }
            LogRequest::Floor => LogAnswer::Floor(0),
        }
    }

    /// Performs the next request of the older writer, which appends entries without pauses.
    fn older(&mut self) {
        self.older.append(self.nonce(1));
        let Some(request) = self.older.request() else { return };
        let answer = self.answer(request);
        let fresh = self.nonce(1);
        self.older.handle(answer, fresh);
    }

    fn newer(&mut self) {
        let Some(request) = self.newer.request() else { return };
        let answer = self.answer(request);
        let fresh = self.nonce(2);
        self.newer.handle(answer, fresh);
        self.sent += 1;
    }
}

impl Model for Race {
    type State = RaceWorld;
    type Action = RaceAction;

    fn init_states(&self) -> Vec<RaceWorld> {
        let mut world = RaceWorld {
            objects: BTreeMap::new(),
            older: Writer::new(epoch(1), None),
            newer: Writer::new(epoch(2), None),
            sent: 0,
            since: 0,
        };
        while world.older.standing().is_none() {
            world.older();
        }
        vec![world]
    }

    fn actions(&self, world: &RaceWorld, actions: &mut Vec<RaceAction>) {
        if world.newer.standing().is_some() || world.sent > self.within {
            return;
        }
        actions.push(RaceAction::Newer);
        if world.since < self.faster && world.older.ended().is_none() {
            actions.push(RaceAction::Older);
        }
    }

    fn next_state(&self, world: &RaceWorld, action: RaceAction) -> Option<RaceWorld> {
        let mut world = world.clone();
        match action {
            RaceAction::Older => {
                world.older();
                world.since += 1;
            }
            RaceAction::Newer => {
                world.newer();
                world.since = 0;
                if self.broken && matches!(world.newer.request(), Some(LogRequest::List(_))) {
                    let confirming = world.objects.values().any(|it| it.epoch == epoch(2));
                    if !confirming {
                        world.newer = Writer::new(epoch(2), None);
                    }
                }
            }
        }
        Some(world)
    }

    fn properties(&self) -> Vec<Property<Race>> {
        vec![
            Property::<Race>::always("opens in time", |race, world| {
                race.most.fetch_max(world.sent, Ordering::Relaxed);
                world.sent <= race.within
            }),
            Property::<Race>::always("no other end", |_, world| {
                let older = world.older.ended();
                world.newer.ended().is_none()
                    && matches!(older, None | Some(Ended::Stale { maybe: false, .. }))
            }),
            Property::<Race>::sometimes("opens", |_, world| world.newer.standing().is_some()),
        ]
    }
}

/// Returns the maximum number of requests with which the newer writer opens the log: four for each
/// refused create, one for each free number that it fills below its fence, and six further
/// requests.
fn bound(faster: u8) -> u16 {
    let ahead = (2 * u16::from(faster) + 1).next_power_of_two();
    ahead + 4 * u16::try_from(ahead.ilog2()).expect("the logarithm is below 16") + 6
}

#[test]
fn a_writer_opens_the_log_within_a_bounded_number_of_requests() {
    for faster in [1, 2, 3, 4] {
        let within = bound(faster);
        let race = Race { faster, within, broken: false, most: Arc::default() };
        let most = Arc::clone(&race.most);
        let checker = race.checker().threads(2).spawn_dfs().join();
        let (states, most) = (checker.unique_state_count(), most.load(Ordering::Relaxed));
        println!(
            "older writer {faster} times as fast: at most {most} requests; unique states: {states}"
        );
        checker.assert_properties();
    }
}

/// If the newer writer never creates a fence ahead of the older writer, the older writer can always
/// take the number at which the newer writer tries to create its claim.
#[test]
fn broken_opening_that_never_fences_ahead_is_caught() {
    let race = Race { faster: 1, within: 40, broken: true, most: Arc::default() };
    let checker = race.checker().spawn_dfs().join();
    assert!(checker.discovery("opens in time").is_some(), "the checker finds no violation");
}
