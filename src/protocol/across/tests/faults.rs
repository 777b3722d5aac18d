//! Stores that lost their contents or epochs, that have notes, or that are down.

use super::*;

/// Returns the answer to a LIST of this store that shows a note about store 1.
fn noted(store: usize, generation: u32) -> AcrossInput {
    let notes = [0, generation, 0, 0, 0];
    let page = Listing { epochs: None, rest: None };
    AcrossInput::Listed { store, page, marker: Some(Marker { generation: 1, notes }) }
}

#[test]
fn a_note_voids_a_create_in_older_contents() {
    let mut stores = Stores::new(3);
    let mut candidate = Across::new(3, false);
    stores.up[2] = false;
    for _ in 0..3 {
        stores.round(&mut candidate, 1);
    }
    let confirms = AcrossStep::Request(AcrossRequest::Plain(Request::List(After::Number(1))));
    assert_eq!([candidate.step(0), candidate.step(1)], [confirms.clone(), confirms]);
    let AcrossStep::Request(list) = candidate.step(1) else { panic!("a LIST") };
    let clean = stores.answer(1, list);
    candidate.handle(clean);
    candidate.handle(noted(0, 2));
    assert_eq!(candidate.fault(1), Some(StoreFault::Replaced { generation: 2 }));
    assert_eq!(counted(&candidate), [None; 3], "the create at store 1 does not count");
}

/// A LIST that came before the repeated create does not confirm it (Q6).
#[test]
fn a_repeated_create_needs_new_lists() {
    let mut stores = Stores::new(3);
    stores.up[2] = false;
    let mut candidate = Across::new(3, false);
    for _ in 0..3 {
        stores.round(&mut candidate, 1);
    }
    stores.objects[1].clear();
    stores.generations[1] = 2;
    stores.round(&mut candidate, 1);
    stores.cost();
    stores.run(&mut candidate, 1);
    assert_eq!(candidate.wait(), AcrossWait::Lead);
    let [_, lists, _, puts] = stores.cost();
    assert_eq!((lists, puts), (2, 1), "store 1 gets a create, and both stores are listed again");
}

/// Before the fix, no LIST followed the repeated create, although all stores answered. The attempt
/// waited for the end of its lease.
#[test]
fn regression_an_attempt_continues_after_a_replacement() {
    let mut stores = Stores::new(3);
    let mut candidate = Across::new(3, false);
    stores.round(&mut candidate, 1);
    stores.up[2] = false;
    stores.round(&mut candidate, 1);
    stores.round(&mut candidate, 1);
    stores.objects[0].clear();
    stores.generations[0] = 2;
    stores.run(&mut candidate, 1);
    stores.up[2] = true;
    stores.run(&mut candidate, 1);
    assert_eq!(
        (candidate.wait(), counted(&candidate)),
        (AcrossWait::Lead, vec![Some(2), Some(1), Some(1)])
    );
}

/// Before the fix, a LIST after the epoch of this process cleared the fault. The candidate then
/// created its epoch at a store that had lost a greater epoch. Two processes were granted one
/// epoch.
#[test]
fn regression_a_store_never_counts_again_after_its_greatest_epoch_fell() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    let mut candidate = Across::new(3, false);
    stores.run(&mut candidate, 2);
    stores.objects[2].clear();
    candidate.handle(AcrossInput::PollDue { store: 2 });
    stores.run(&mut candidate, 2);
    let fell = Some(StoreFault::GreatestFell { from: Epoch::FIRST });
    assert_eq!(candidate.fault(2), fell);
    at_all(&mut candidate, |store| AcrossInput::Lapsed { store: store.min(1) });
    stores.run(&mut candidate, 2);
    candidate.handle(AcrossInput::StoreResume { store: 2 });
    stores.run(&mut candidate, 2);
    assert_eq!((candidate.wait(), candidate.fault(2)), (AcrossWait::Lead, fell));
    assert_eq!((counted(&candidate)[2], stores.objects[2].len()), (None, 0));
}

/// Before the fix, each candidate waited for the first store, although that store was down. Then
/// each candidate won a different store, and waited for the end of its lease.
#[test]
fn regression_the_first_create_is_at_a_store_that_answers() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    let mut candidates = [Across::new(3, false), Across::new(3, false)];
    for (nonce, candidate) in [2, 3].into_iter().zip(&mut candidates) {
        stores.up = vec![true; 3];
        stores.run(candidate, nonce);
    }
    stores.up[0] = false;
    for (nonce, candidate) in [2, 3].into_iter().zip(&mut candidates) {
        at_all(candidate, |store| AcrossInput::Lapsed { store: store.max(1) });
        for _ in 0..6 {
            at_all(candidate, |store| AcrossInput::StoreResume { store });
            if candidate.wait() != AcrossWait::Nonce {
                stores.round(candidate, nonce);
            }
        }
        candidate.handle(AcrossInput::Nonce(n(nonce)));
    }
    let [first, second] = &mut candidates;
    stores.round(first, 2);
    stores.round(second, 3);
    stores.round(second, 3);
    assert_eq!(second.wait(), AcrossWait::Pause, "the second candidate is refused at store 1");
    stores.run(first, 2);
    assert_eq!(counted(first), [None, Some(1), Some(1)]);
}

/// Before the fix, a join that met a sealed object reported nothing. A resignation then waited for
/// the end of the lease.
#[test]
fn regression_the_loss_of_a_store_during_its_join_is_reported() {
    let mut stores = Stores::new(3);
    stores.up[2] = false;
    let mut leader = stores.elect(1);
    let placeholder = Object { nonce: None, heartbeat: 1, ended: Some(EpochEnd::Lapsed) };
    stores.objects[2].insert(1, placeholder);
    stores.up[2] = true;
    let mut events = Vec::new();
    while let AcrossStep::Request(request) = leader.step(2) {
        let input = stores.answer(2, request);
        events.extend(leader.handle(input));
    }
    let lost = Lost::Sealed(EpochEnd::Lapsed);
    assert_eq!(events, [AcrossEvent::StoreLost { store: 2, lost }]);
    leader.handle(AcrossInput::Resign);
    let AcrossStep::Request(seal) = leader.step(0) else { panic!("a seal") };
    let sealed = stores.answer(0, seal);
    assert_eq!(leader.handle(sealed), Some(AcrossEvent::Lost(Lost::Resigned)));
}

#[test]
fn an_absent_object_lapses_like_any_other() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    stores.objects[1].clear();
    stores.objects[2].clear();
    let mut follower = Across::new(3, false);
    stores.run(&mut follower, 2);
    follower.handle(AcrossInput::Lapsed { store: 1 });
    stores.run(&mut follower, 2);
    assert!(stores.objects[1].is_empty(), "one store is no majority");
    follower.handle(AcrossInput::Lapsed { store: 2 });
    stores.run(&mut follower, 2);
    assert_eq!(stores.objects[1][&1].ended, Some(EpochEnd::Lapsed));
}

/// A store that answers 304 to a read without a condition makes the machine pause (E19).
#[test]
fn an_unexpected_304_causes_no_busy_loop() {
    let mut stores = Stores::new(3);
    stores.elect(1);
    let mut follower = Across::new(3, false);
    stores.round(&mut follower, 2);
    follower.handle(AcrossInput::Answer { store: 0, answer: Answer::NotModified });
    assert_eq!(follower.step(0), AcrossStep::Wait(Wait::Retry));
}

/// Before the fix, an observer read the compacted epoch again and again, because another store still
/// had the object of an attempt that had failed.
#[test]
fn regression_an_observer_lists_where_the_followed_epoch_is_absent() {
    let mut stores = Stores::new(3);
    let object = |nonce| Object { nonce: Some(n(nonce)), heartbeat: 1, ended: None };
    stores.objects[2].insert(1, object(1));
    stores.up[0] = false;
    let mut observer = Across::new(3, true);
    stores.run(&mut observer, 1);
    assert_eq!(observer.newest(), Some(e(1)));
    // Epoch 1 was compacted at store 1, and store 2 did not take part in epoch 2.
    stores.objects[1].insert(2, object(2));
    at_all(&mut observer, |store| AcrossInput::PollDue { store });
    stores.run(&mut observer, 1);
    assert_eq!(observer.newest(), Some(e(2)));
}

/// Before the fix, an observer never stopped polling a dead epoch if a store had an old copy of it.
#[test]
fn regression_an_observer_lists_after_a_lapse() {
    let mut stores = Stores::new(3);
    let object = |nonce| Object { nonce: Some(n(nonce)), heartbeat: 1, ended: None };
    stores.objects[1].insert(1, object(1));
    stores.objects[2].insert(1, object(1));
    stores.up[0] = false;
    let mut observer = Across::new(3, true);
    stores.run(&mut observer, 1);
    assert_eq!(observer.leader(), Some(n(1)));
    stores.objects[1].insert(2, object(2));
    at_all(&mut observer, |store| AcrossInput::PollDue { store });
    stores.run(&mut observer, 1);
    assert_eq!(observer.newest(), Some(e(1)), "no LIST before the lapse");
    observer.handle(AcrossInput::Lapsed { store: 1 });
    observer.handle(AcrossInput::PollDue { store: 1 });
    stores.run(&mut observer, 1);
    assert_eq!(observer.newest(), Some(e(2)));
}

/// A LIST costs more than a GET.
#[test]
fn an_observer_of_a_leader_sends_only_gets() {
    let mut stores = Stores::new(3);
    let object = Object { nonce: Some(n(1)), heartbeat: 1, ended: None };
    stores.objects[0].insert(1, object);
    stores.objects[1].insert(1, object);
    let mut observer = Across::new(3, true);
    stores.run(&mut observer, 1);
    stores.cost();
    at_all(&mut observer, |store| AcrossInput::PollDue { store });
    stores.run(&mut observer, 1);
    assert_eq!(stores.cost(), [1, 0, 3, 0]);
}
