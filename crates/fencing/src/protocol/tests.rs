use tenure::seam::fencing::{After, Listing};

use super::*;

fn e(number: u64) -> Epoch {
    Epoch::new(number).unwrap()
}

fn nonce(bits: u128) -> Nonce {
    Nonce::from_bits(bits)
}

fn listed(ends: Option<(u64, u64)>) -> LogAnswer {
    let number = |number| NonZeroU64::new(number).unwrap();
    let epochs = ends.map(|(least, greatest)| (number(least), number(greatest)));
    LogAnswer::Listed(Listing { epochs, rest: None })
}

fn claim(epoch: u64, bits: u128, claim: u64, last: u64) -> Header {
    Header { epoch: e(epoch), nonce: nonce(bits), claim, kind: Kind::Claim { last, fences: 0 } }
}

fn entry(epoch: u64, bits: u128, claim: u64) -> Header {
    Header { epoch: e(epoch), nonce: nonce(bits), claim, kind: Kind::Entry }
}

/// A writer of epoch 2 that has claimed number 4, after an entry at 3.
fn open() -> Writer {
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(Some((1, 3))), nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(3)));
    writer.handle(LogAnswer::Found(entry(1, 1, 1)), nonce(20));
    let header = claim(2, 20, 1, 3);
    assert_eq!(writer.request(), Some(LogRequest::Create { number: 4, header }));
    writer.handle(LogAnswer::Created, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::List(After::Number(4))), "confirmed");
    writer.handle(listed(None), nonce(0));
    assert_eq!(writer.standing(), Some(Standing { claim: 4, last: 3, next: 5 }));
    writer
}

/// A writer whose append at 5 was refused, with this at its place, and this floor.
fn refused(found: Header, floor: u64) -> Writer {
    let mut writer = open();
    assert!(writer.append(nonce(21)));
    assert!(!writer.append(nonce(22)), "one at a time");
    writer.handle(LogAnswer::Refused, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(5)));
    writer.handle(LogAnswer::Found(found), nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Floor));
    writer.handle(LogAnswer::Floor(floor), nonce(0));
    writer
}

#[test]
fn a_claim_that_is_not_the_end_is_made_anew() {
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(None), nonce(20));
    writer.handle(LogAnswer::Created, nonce(0));
    writer.handle(listed(Some((7, 9))), nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::List(After::Number(8))), "9 must show");
    writer.handle(listed(Some((9, 9))), nonce(0));
    writer.handle(LogAnswer::Found(claim(3, 30, 5, 8)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Stale { newest: e(3), maybe: false }));
}

fn fence(epoch: u64, bits: u128, base: u64) -> Header {
    Header { epoch: e(epoch), nonce: nonce(bits), claim: 0, kind: Kind::Fence { base } }
}

fn creates(writer: &Writer) -> (u64, Header) {
    let Some(LogRequest::Create { number, header }) = writer.request() else {
        panic!("{writer:?}")
    };
    (number, header)
}

/// A writer of epoch 2 whose claim at 4 was refused, and that has created a fence at 6 + 2.
fn fenced_off() -> Writer {
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(Some((1, 3))), nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 1, 1)), nonce(20));
    writer.handle(LogAnswer::Refused, nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 2, 1)), nonce(0));
    writer.handle(listed(Some((3, 6))), nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 4, 1)), nonce(21));
    assert_eq!(creates(&writer), (8, fence(2, 21, 6)));
    writer.handle(LogAnswer::Created, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::List(After::Number(8))), "confirmed");
    writer
}

#[test]
fn a_writer_that_was_outrun_fences_off_ahead_and_walks_down() {
    let mut writer = fenced_off();
    writer.handle(listed(None), nonce(22));
    assert_eq!(creates(&writer), (7, fence(2, 22, 6)));
    writer.handle(LogAnswer::Unknown, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(7)));
    writer.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(creates(&writer), (7, fence(2, 22, 6)), "the very same");
    writer.handle(LogAnswer::Refused, nonce(0));
    writer.handle(LogAnswer::Found(fence(2, 22, 6)), nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(6)), "nothing was free there");
    writer.handle(LogAnswer::Found(entry(1, 4, 1)), nonce(23));
    let kind = Kind::Claim { last: 6, fences: 2 };
    assert_eq!(creates(&writer), (9, Header { epoch: e(2), nonce: nonce(23), claim: 1, kind }));
    writer.handle(LogAnswer::Created, nonce(0));
    writer.handle(listed(None), nonce(0));
    assert_eq!(writer.standing(), Some(Standing { claim: 9, last: 6, next: 10 }));
}

#[test]
fn a_walk_ends_at_a_greater_epoch_and_begins_anew_where_the_log_was_trimmed() {
    let mut writer = fenced_off();
    writer.handle(listed(None), nonce(22));
    writer.handle(LogAnswer::Refused, nonce(0));
    let mut other = writer.clone();
    writer.handle(LogAnswer::Found(claim(3, 30, 1, 6)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Stale { newest: e(3), maybe: false }));
    other.handle(LogAnswer::Found(fence(2, 29, 5)), nonce(0));
    assert_eq!(other.request(), Some(LogRequest::Read(6)));
    other.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(other.request(), Some(LogRequest::List(After::Number(7))));
    // A fence that is not the end: others went past it, so the next is farther ahead.
    let mut outrun = fenced_off();
    outrun.handle(listed(Some((9, 12))), nonce(0));
    outrun.handle(listed(Some((12, 12))), nonce(0));
    outrun.handle(LogAnswer::Found(entry(1, 9, 1)), nonce(24));
    assert_eq!(creates(&outrun), (16, fence(2, 24, 12)));
    // On the way down each fence has a nonce of its own, and none is created twice.
    outrun.handle(LogAnswer::Created, nonce(0));
    outrun.handle(listed(None), nonce(25));
    assert_eq!(creates(&outrun), (15, fence(2, 25, 12)));
    outrun.handle(LogAnswer::Created, nonce(26));
    assert_eq!(creates(&outrun), (14, fence(2, 26, 12)));
}

#[test]
fn a_walk_fills_what_another_fence_below_has_left_free() {
    let mut writer = fenced_off();
    writer.handle(listed(None), nonce(22));
    writer.handle(LogAnswer::Created, nonce(23));
    assert_eq!(writer.request(), Some(LogRequest::Read(6)));
    writer.handle(LogAnswer::Found(fence(1, 19, 3)), nonce(24));
    assert_eq!(creates(&writer), (5, fence(2, 24, 3)));
    writer.handle(LogAnswer::Created, nonce(25));
    assert_eq!(creates(&writer), (4, fence(2, 25, 3)));
    writer.handle(LogAnswer::Created, nonce(26));
    writer.handle(LogAnswer::Found(entry(1, 1, 1)), nonce(27));
    let kind = Kind::Claim { last: 3, fences: 5 };
    assert_eq!(creates(&writer), (9, Header { epoch: e(2), nonce: nonce(27), claim: 1, kind }));
}

#[test]
fn a_writer_passes_the_fence_of_a_lower_epoch_alone() {
    let late = fence(1, 19, 3);
    let mut writer = refused(late, 5);
    assert_eq!(creates(&writer), (6, entry(2, 21, 4)));
    writer.handle(LogAnswer::Created, nonce(0));
    assert_eq!(writer.standing(), Some(Standing { claim: 4, last: 6, next: 7 }));
    let replaced = refused(fence(2, 29, 3), 5).ended();
    assert_eq!(replaced, Some(Ended::Replaced { maybe: false }));
    let stale = refused(fence(3, 30, 3), 5).ended();
    assert_eq!(stale, Some(Ended::Stale { newest: e(3), maybe: false }));
    // Trimmed meanwhile: the newest below the fences at the end tells by whom.
    let mut writer = refused(late, 6);
    writer.handle(listed(Some((5, 9))), nonce(0));
    writer.handle(LogAnswer::Found(fence(1, 18, 6)), nonce(0));
    writer.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(7)));
    let mut trimmed = writer.clone();
    writer.handle(LogAnswer::Found(entry(3, 31, 6)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Stale { newest: e(3), maybe: true }));
    // The fence's base is gone as well: the log goes on above.
    trimmed.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(trimmed.request(), Some(LogRequest::Read(6)));
    trimmed.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(trimmed.request(), Some(LogRequest::List(After::Number(8))));
}

#[test]
fn an_own_object_is_read_back() {
    let mut writer = open();
    writer.append(nonce(21));
    writer.handle(LogAnswer::Unknown, nonce(0));
    writer.handle(LogAnswer::Missing, nonce(0));
    assert!(matches!(writer.request(), Some(LogRequest::Create { number: 5, header })
        if header == entry(2, 21, 4)));
    writer.handle(LogAnswer::Refused, nonce(0));
    writer.handle(LogAnswer::Found(entry(2, 21, 4)), nonce(0));
    assert_eq!(writer.standing(), Some(Standing { claim: 4, last: 5, next: 6 }));
}

#[test]
fn the_floor_says_whether_a_refusal_is_certain() {
    let ended = |found, floor| refused(found, floor).ended();
    let newer = claim(3, 30, 4, 3);
    assert_eq!(ended(newer, 5), Some(Ended::Stale { newest: e(3), maybe: false }));
    assert_eq!(ended(newer, 6), Some(Ended::Stale { newest: e(3), maybe: true }));
    let same = claim(2, 29, 4, 3);
    assert_eq!(ended(same, 5), Some(Ended::Replaced { maybe: false }));
    let older = claim(1, 19, 4, 3);
    assert_eq!(ended(older, 0), Some(Ended::WentBack { number: 5, epoch: e(1) }));
    // Above the own number a trim went on: a ghost may lie there, and the end tells.
    let mut writer = refused(older, 6);
    assert_eq!(writer.request(), Some(LogRequest::List(After::Number(4))));
    writer.handle(listed(Some((5, 9))), nonce(0));
    writer.handle(LogAnswer::Found(entry(3, 31, 6)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Stale { newest: e(3), maybe: true }));
}

/// The append may have been written and trimmed, so the end of the log alone says who has it.
#[test]
fn the_end_of_the_log_says_who_superseded_a_writer_in_doubt() {
    let ended = |end: Header| {
        let mut writer = refused(claim(1, 19, 4, 3), 6);
        writer.handle(listed(Some((5, 9))), nonce(0));
        writer.handle(LogAnswer::Found(end), nonce(0));
        writer.ended()
    };
    assert_eq!(ended(entry(2, 29, 6)), Some(Ended::Replaced { maybe: true }));
    assert_eq!(ended(entry(1, 19, 4)), Some(Ended::WentBack { number: 9, epoch: e(1) }));
}

#[test]
fn only_an_append_that_was_not_answered_is_withdrawn() {
    let mut writer = open();
    assert!(writer.append(nonce(21)));
    writer.withdraw();
    assert_eq!(writer.standing(), Some(Standing { claim: 4, last: 3, next: 5 }));
    // An attempt may have taken effect: it is looked for.
    assert!(writer.append(nonce(22)));
    writer.handle(LogAnswer::Unknown, nonce(0));
    writer.withdraw();
    assert_eq!(writer.request(), Some(LogRequest::Read(5)));
    // A claim is no append.
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(None), nonce(20));
    writer.withdraw();
    assert!(matches!(writer.request(), Some(LogRequest::Create { number: 1, .. })));
}

#[test]
fn what_was_seen_and_is_gone_ends_the_writer() {
    let mut writer = Writer::new(e(2), NonZeroU64::new(7));
    writer.handle(listed(Some((7, 7))), nonce(0));
    writer.handle(LogAnswer::Missing, nonce(0));
    writer.handle(listed(None), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Gone(7)));
}

#[test]
fn the_last_number_is_not_passed() {
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(Some((u64::MAX, u64::MAX))), nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 1, 1)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Full));
    // A claim has no room after a fence at the last number.
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(Some((1, u64::MAX - 3))), nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 1, 1)), nonce(20));
    writer.handle(LogAnswer::Refused, nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 2, 1)), nonce(0));
    writer.handle(listed(Some((u64::MAX - 2, u64::MAX - 2))), nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 2, 1)), nonce(21));
    assert_eq!(creates(&writer).0, u64::MAX - 1);
    assert!(matches!(creates(&writer).1.kind, Kind::Claim { fences: 0, .. }));
}

#[test]
fn a_trim_keeps_claims_and_the_newest_entry() {
    let marker = Floor { floor: 6, swept: 4 };
    let mut sweep = Sweep::new(100, 12, &claim(3, 1, 8, 11), marker).unwrap();
    assert_eq!((sweep.from(), sweep.cut()), (4, 11));
    assert_eq!(sweep.next_claim(), Some(12));
    assert!(!sweep.deletes(5), "not before the claims are known");
    assert!(sweep.handle_claim(&claim(3, 1, 8, 11)));
    assert!(sweep.handle_claim(&claim(2, 1, 2, 7)));
    assert_eq!(sweep.next_claim(), None, "2 was swept past before");
    let deleted: Vec<u64> = (0..20).filter(|number| sweep.deletes(*number)).collect();
    assert_eq!(deleted, [4, 5, 6, 7, 9, 10]);
    assert_eq!(marker.raised(11).swept(11), Floor { floor: 11, swept: 11 });
    assert_eq!(marker.raised(1).swept(1), marker, "never lowered");

    // All below was deleted before: nothing is read, nothing is deleted.
    let swept = Floor { floor: 6, swept: 6 };
    let sweep = Sweep::new(6, 12, &entry(3, 1, 8), swept).unwrap();
    assert!(sweep.is_empty());
    assert_eq!(sweep.next_claim(), None);
}

#[test]
fn a_trim_keeps_the_fences_below_a_claim() {
    let header = |claim, fences| Header {
        epoch: e(3),
        nonce: nonce(1),
        claim,
        kind: Kind::Claim { last: claim + 1, fences },
    };
    let mut sweep = Sweep::new(100, 20, &entry(3, 1, 12), Floor::default()).unwrap();
    assert!(!sweep.handle_claim(&header(1, 11)), "more fences than there is room for");
    assert!(sweep.handle_claim(&header(1, 3)));
    assert!(sweep.handle_claim(&header(0, 0)));
    let kept: Vec<u64> = (1..20).filter(|number| !sweep.deletes(*number)).collect();
    assert_eq!(kept, [1, 9, 10, 11, 12]);
    assert_eq!(Sweep::new(100, 20, &fence(3, 1, 12), Floor::default()), None);
}

#[test]
fn a_trim_whose_chain_may_miss_claims_does_not_begin() {
    let marker = Floor { floor: 13, swept: 4 };
    assert_eq!(Sweep::new(100, 12, &claim(3, 1, 8, 11), marker), None);
    let mut sweep = Sweep::new(9, 12, &entry(3, 1, 8), Floor::default()).unwrap();
    assert!(!sweep.handle_claim(&entry(3, 1, 7)), "no claim");
    assert!(!sweep.handle_claim(&claim(3, 1, 8, 7)), "a claim that leads nowhere");
}
