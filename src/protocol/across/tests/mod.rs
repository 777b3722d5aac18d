mod faults;

use std::collections::BTreeMap;

use super::message::AcrossRequest;
use super::*;
use crate::protocol::find::After;
use crate::protocol::message::{EpochEnd, Lost, Request, Wait, Write};
use crate::protocol::testing::{e, n};
use crate::store::etag::ETag;

/// The content of an epoch object.
#[derive(Debug, Clone, Copy, PartialEq)]
struct Object {
    nonce: Option<Nonce>,
    heartbeat: u64,
    ended: Option<EpochEnd>,
}

impl Object {
    fn etag(self) -> ETag {
        ETag::new(format!("{self:?}"))
    }
}

/// Stores in memory, and the requests that they served.
struct Stores {
    objects: Vec<BTreeMap<u64, Object>>,
    generations: Vec<u32>,
    /// False for a store that does not answer.
    up: Vec<bool>,
    lists: usize,
    gets: usize,
    puts: usize,
    rounds: usize,
}

impl Stores {
    fn new(count: usize) -> Stores {
        let (objects, generations, up) =
            (vec![BTreeMap::new(); count], vec![1; count], vec![true; count]);
        Stores { objects, generations, up, lists: 0, gets: 0, puts: 0, rounds: 0 }
    }

    /// Returns the numbers of rounds, LISTs, GETs and PUTs since the last call.
    fn cost(&mut self) -> [usize; 4] {
        let cost = [self.rounds, self.lists, self.gets, self.puts];
        (self.rounds, self.lists, self.gets, self.puts) = (0, 0, 0, 0);
        cost
    }

    fn answer(&mut self, store: usize, request: AcrossRequest) -> AcrossInput {
        let objects = &mut self.objects[store];
        let plain = match request {
            AcrossRequest::Placeholder { epoch } => {
                self.puts += 1;
                let lapsed = Some(EpochEnd::Lapsed);
                let object = Object { nonce: None, heartbeat: 1, ended: lapsed };
                let answer = put(objects, epoch, None, object);
                return AcrossInput::Answer { store, answer };
            }
            AcrossRequest::Plain(request) => request,
        };
        let answer = match plain {
            Request::List(After::Number(after)) => {
                self.lists += 1;
                let mut keys = objects.keys().copied().filter(|key| *key > after);
                let least = keys.next();
                let epochs = least.map(|least| (e(least), e(keys.next_back().unwrap_or(least))));
                let marker = Marker { generation: self.generations[store], notes: [0; 5] };
                let page = Listing { epochs, rest: None };
                return AcrossInput::Listed { store, page, marker: Some(marker) };
            }
            Request::Get { epoch, unless } => {
                self.gets += 1;
                let epoch = epoch.expect("epoch files");
                match objects.get(&epoch.get()) {
                    None => Answer::Missing,
                    Some(object) if Some(object.etag()) == unless => Answer::NotModified,
                    Some(object) => {
                        Answer::Found { sighting: sighting(epoch, *object), touched: false }
                    }
                }
            }
            Request::Create { epoch, write } => {
                self.puts += 1;
                let Write { nonce, heartbeat } = write;
                put(objects, epoch, None, Object { nonce: Some(nonce), heartbeat, ended: None })
            }
            Request::Renew { epoch, etag, write } => {
                self.puts += 1;
                let Write { nonce, heartbeat } = write;
                let object = Object { nonce: Some(nonce), heartbeat, ended: None };
                put(objects, epoch, Some(etag), object)
            }
            Request::Seal { epoch, etag, nonce, heartbeat, ended } => {
                self.puts += 1;
                let object = Object { nonce, heartbeat, ended: Some(ended) };
                put(objects, epoch, Some(etag), object)
            }
            other => unreachable!("{other:?} is no request of an election across stores"),
        };
        AcrossInput::Answer { store, answer }
    }

    /// Serves all requests under way at the same time. Returns false if no request was under way.
    fn round(&mut self, machine: &mut Across, nonce: u128) -> bool {
        if machine.wait() == AcrossWait::Nonce {
            machine.handle(AcrossInput::Nonce(n(nonce)));
        }
        let requests = (0..self.up.len()).filter_map(|store| match machine.step(store) {
            AcrossStep::Request(request) if self.up[store] => Some((store, request)),
            _ => None,
        });
        let requests: Vec<(usize, AcrossRequest)> = requests.collect();
        self.rounds += usize::from(!requests.is_empty());
        let any = !requests.is_empty();
        for (store, request) in requests {
            let input = self.answer(store, request);
            machine.handle(input);
        }
        any
    }

    fn run(&mut self, machine: &mut Across, nonce: u128) {
        for _ in 0..40 {
            if !self.round(machine, nonce) && machine.wait() != AcrossWait::Nonce {
                return;
            }
        }
        panic!("the machine never becomes idle: {machine:?}");
    }

    /// Returns a leader of epoch 1 with this nonce.
    fn elect(&mut self, nonce: u128) -> Across {
        let mut machine = Across::new(self.up.len(), false);
        self.run(&mut machine, nonce);
        assert_eq!(machine.wait(), AcrossWait::Lead);
        machine
    }
}

fn sighting(epoch: Epoch, object: Object) -> Sighting {
    let Object { nonce, heartbeat, ended } = object;
    Sighting {
        epoch,
        etag: object.etag(),
        seen: Seen { nonce, heartbeat, ended, reclaimable: false },
    }
}

fn put(
    objects: &mut BTreeMap<u64, Object>,
    epoch: Epoch,
    tag: Option<ETag>,
    object: Object,
) -> Answer {
    let before = objects.get(&epoch.get()).map(|object| object.etag());
    if before != tag {
        return if before.is_none() { Answer::Missing } else { Answer::Refused };
    }
    objects.insert(epoch.get(), object);
    Answer::Done { etag: object.etag() }
}

/// Passes an input for each store to the machine.
fn at_all(machine: &mut Across, input: impl Fn(usize) -> AcrossInput) {
    for store in 0..machine.parts.len() {
        machine.handle(input(store));
    }
}

fn counted(machine: &Across) -> Vec<Option<u64>> {
    machine.stores().map(|store| machine.counted(store)).collect()
}

/// The costs in the table of the module: rounds, LISTs, GETs and PUTs.
#[test]
fn each_step_has_the_cost_of_the_table() {
    let mut stores = Stores::new(3);
    let mut leader = stores.elect(1);
    assert_eq!(stores.cost(), [4, 6, 0, 3], "a first campaign");
    let mut follower = Across::new(3, false);
    stores.run(&mut follower, 2);
    assert_eq!(stores.cost(), [2, 3, 3, 0], "the follower reads the epoch");
    at_all(&mut leader, |store| AcrossInput::RenewDue { store });
    stores.run(&mut leader, 1);
    assert_eq!(stores.cost(), [1, 0, 0, 3], "a renewal");
    assert_eq!(counted(&leader), [Some(2); 3]);
    at_all(&mut follower, |store| AcrossInput::PollDue { store });
    stores.run(&mut follower, 2);
    assert_eq!(stores.cost(), [1, 0, 3, 0], "a poll");
    leader.handle(AcrossInput::Resign);
    stores.run(&mut leader, 1);
    assert_eq!((stores.cost(), leader.wait()), ([1, 0, 0, 3], AcrossWait::Over), "a resignation");
    follower.handle(AcrossInput::PollDue { store: 1 });
    stores.round(&mut follower, 2);
    assert_eq!(stores.cost(), [1, 0, 1, 0], "the poll sees the resignation");
    stores.run(&mut follower, 2);
    assert_eq!((stores.cost(), follower.wait()), ([5, 6, 2, 3], AcrossWait::Lead), "a takeover");
}

#[test]
fn a_lapsed_leader_is_succeeded_in_five_rounds() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    let mut follower = Across::new(3, false);
    stores.run(&mut follower, 2);
    stores.cost();
    // A majority of lapsed stores begins to close the epoch. The third store has not lapsed yet.
    at_all(&mut follower, |store| AcrossInput::Lapsed { store: store.min(1) });
    stores.run(&mut follower, 2);
    assert_eq!((stores.cost(), follower.wait()), ([5, 5, 0, 5], AcrossWait::Lead));
    let ended = |store: usize| stores.objects[store][&1].ended;
    assert_eq!(
        [ended(0), ended(1), ended(2)],
        [Some(EpochEnd::Lapsed), Some(EpochEnd::Lapsed), None]
    );
}

#[test]
fn a_minority_of_lapsed_stores_closes_nothing() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    let mut follower = Across::new(3, false);
    stores.run(&mut follower, 2);
    follower.handle(AcrossInput::Lapsed { store: 2 });
    stores.cost();
    stores.run(&mut follower, 2);
    assert_eq!((stores.cost(), follower.wait()), ([0; 4], AcrossWait::Stores));
}

#[test]
fn absent_objects_become_placeholders() {
    let mut stores = Stores::new(3);
    stores.up[2] = false;
    stores.elect(1);
    stores.up = vec![false, true, true];
    let mut follower = Across::new(3, false);
    stores.run(&mut follower, 2);
    at_all(&mut follower, |store| AcrossInput::Lapsed { store });
    stores.run(&mut follower, 2);
    // The first store gets the first create, and does not answer. The other stores then get their
    // creates.
    assert_eq!(stores.objects[2][&1].nonce, None);
    assert_eq!(follower.wait(), AcrossWait::Lead);
    assert_eq!(counted(&follower), [None, Some(1), Some(1)]);
}

#[test]
fn a_leader_joins_a_store_that_was_down() {
    let mut stores = Stores::new(3);
    stores.up[2] = false;
    let mut leader = stores.elect(1);
    assert_eq!(counted(&leader), [Some(1), Some(1), None]);
    stores.up[2] = true;
    stores.cost();
    stores.run(&mut leader, 1);
    assert_eq!(counted(&leader), [Some(1); 3]);
    assert_eq!(stores.cost(), [3, 2, 0, 1], "a LIST for the marker, the create, and its LIST");
}

#[test]
fn a_lost_store_is_reported_and_a_lost_majority_ends_the_leadership() {
    let mut stores = Stores::new(3);
    let mut leader = stores.elect(1);
    for (store, lost) in [(0, false), (1, true)] {
        let object = stores.objects[store].get_mut(&1).expect("epoch 1");
        object.ended = Some(EpochEnd::Deposed);
        leader.handle(AcrossInput::RenewDue { store });
        let mut events = Vec::new();
        while let AcrossStep::Request(request) = leader.step(store)
            && leader.wait() == AcrossWait::Lead
        {
            let input = stores.answer(store, request);
            events.extend(leader.handle(input));
        }
        let deposed = Lost::Sealed(EpochEnd::Deposed);
        let event = match lost {
            false => AcrossEvent::StoreLost { store, lost: deposed },
            true => AcrossEvent::Lost(deposed),
        };
        assert_eq!(events, [event]);
    }
}

#[test]
fn a_create_at_lost_contents_does_not_count() {
    let mut stores = Stores::new(3);
    let mut candidate = Across::new(3, false);
    for _ in 0..3 {
        stores.round(&mut candidate, 1);
    }
    // All creates are done, and the confirming LISTs follow.
    stores.objects[1].clear();
    stores.generations[1] = 2;
    stores.up[2] = false;
    stores.round(&mut candidate, 1);
    assert_eq!(counted(&candidate), [None; 3], "store 1 has new contents");
    candidate.handle(AcrossInput::Answer { store: 2, answer: Answer::Unknown });
    stores.run(&mut candidate, 1);
    assert_eq!(
        counted(&candidate),
        [Some(1), Some(2), None],
        "the epoch of store 1 was created again"
    );
}

#[test]
fn an_observer_sends_no_write() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    let mut observer = Across::new(3, true);
    stores.cost();
    stores.run(&mut observer, 2);
    assert_eq!(observer.leader(), Some(n(1)));
    at_all(&mut observer, |store| AcrossInput::Lapsed { store });
    stores.run(&mut observer, 2);
    assert_eq!(stores.cost()[3], 0);
}

#[test]
fn a_store_without_a_marker_does_not_count() {
    let mut machine = Across::new(3, false);
    let page = Listing { epochs: None, rest: None };
    machine.handle(AcrossInput::Listed { store: 0, page, marker: None });
    assert_eq!(machine.fault(0), Some(StoreFault::NoMarker));
    assert_eq!(machine.step(0), AcrossStep::Wait(Wait::Retry));
}

/// Before the fix, if a leader read back a late repeated create, the create counted without a LIST
/// (Q8). A store that had lost its contents then counted for the lease.
#[test]
fn regression_a_late_repeated_create_does_not_count() {
    let mut stores = Stores::new(3);
    let mut leader = Across::new(3, false);
    stores.round(&mut leader, 1);
    leader.handle(AcrossInput::Nonce(n(1)));
    let AcrossStep::Request(create) = leader.step(0) else { panic!("the first create") };
    stores.answer(0, create);
    leader.handle(AcrossInput::Answer { store: 0, answer: Answer::Unknown });
    leader.handle(AcrossInput::StoreResume { store: 0 });
    stores.run(&mut leader, 1);
    assert_eq!(counted(&leader), [Some(1); 3]);
    stores.objects[0].get_mut(&1).expect("epoch 1").heartbeat = 2;
    leader.handle(AcrossInput::RenewDue { store: 0 });
    stores.run(&mut leader, 1);
    assert_eq!(counted(&leader), [None, Some(1), Some(1)]);
}

/// Before the fix, the greatest epoch of another election ended the leadership, and the machine
/// created placeholders for this epoch.
#[test]
fn regression_a_list_without_a_marker_shows_no_epoch() {
    let mut stores = Stores::new(3);
    stores.up[2] = false;
    let mut leader = stores.elect(1);
    leader.handle(AcrossInput::Answer { store: 2, answer: Answer::Unknown });
    leader.handle(AcrossInput::StoreResume { store: 2 });
    let page = Listing { epochs: Some((e(9), e(9))), rest: None };
    leader.handle(AcrossInput::Listed { store: 2, page, marker: None });
    assert_eq!((leader.wait(), leader.newest()), (AcrossWait::Lead, Some(e(1))));
}

/// Before the fix, the first of several pages ended the leadership, before the last page showed
/// that the store is of another election.
#[test]
fn regression_a_page_before_the_marker_shows_no_epoch() {
    let mut stores = Stores::new(3);
    stores.up[2] = false;
    let mut leader = stores.elect(1);
    leader.handle(AcrossInput::Answer { store: 2, answer: Answer::Unknown });
    leader.handle(AcrossInput::StoreResume { store: 2 });
    for rest in [Some(After::Number(9)), None] {
        let page = Listing { epochs: Some((e(9), e(9))), rest };
        leader.handle(AcrossInput::Listed { store: 2, page, marker: None });
        assert_eq!((leader.wait(), leader.newest()), (AcrossWait::Lead, Some(e(1))));
    }
    while leader.fault(2).is_none() {
        let page = Listing { epochs: None, rest: None };
        leader.handle(AcrossInput::Listed { store: 2, page, marker: None });
    }
    assert_eq!((leader.wait(), leader.newest()), (AcrossWait::Lead, Some(e(1))));
}
