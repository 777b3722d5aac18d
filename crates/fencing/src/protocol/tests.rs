use tenure::internals::fencing::{After, Listing};

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

/// Returns a writer of epoch 2 that has claimed number 4, after an entry at 3.
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

/// Returns a writer whose append at 5 was refused because the object `found` has this number. The
/// trim marker has this floor.
fn refused(found: Header, floor: u64) -> Writer {
    let mut writer = open();
    assert!(writer.append(nonce(21)));
    assert!(!writer.append(nonce(22)), "an append is pending");
    writer.handle(LogAnswer::Refused, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(5)));
    writer.handle(LogAnswer::Found(found), nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Floor));
    writer.handle(LogAnswer::Floor(floor), nonce(0));
    writer
}

#[test]
fn a_claim_below_the_end_is_repeated() {
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(None), nonce(20));
    writer.handle(LogAnswer::Created, nonce(0));
    writer.handle(listed(Some((7, 9))), nonce(0));
    assert_eq!(
        writer.request(),
        Some(LogRequest::List(After::Number(8))),
        "the listing must include 9"
    );
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

/// Returns a writer of epoch 2 whose claim at 4 was refused. The log then ended at 6, so the writer
/// created a fence at 6 + 2.
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
fn an_outrun_writer_creates_a_fence_ahead_and_walks_down() {
    let mut writer = fenced_off();
    writer.handle(listed(None), nonce(22));
    assert_eq!(creates(&writer), (7, fence(2, 22, 6)));
    writer.handle(LogAnswer::Unknown, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(7)));
    writer.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(creates(&writer), (7, fence(2, 22, 6)), "the same fence");
    writer.handle(LogAnswer::Refused, nonce(0));
    writer.handle(LogAnswer::Found(fence(2, 22, 6)), nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(6)), "no number below 7 was free");
    writer.handle(LogAnswer::Found(entry(1, 4, 1)), nonce(23));
    let kind = Kind::Claim { last: 6, fences: 2 };
    assert_eq!(creates(&writer), (9, Header { epoch: e(2), nonce: nonce(23), claim: 1, kind }));
    writer.handle(LogAnswer::Created, nonce(0));
    writer.handle(listed(None), nonce(0));
    assert_eq!(writer.standing(), Some(Standing { claim: 9, last: 6, next: 10 }));
}

#[test]
fn a_walk_ends_at_a_greater_epoch_and_restarts_after_a_trim() {
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
    // The log has entries above the fence, so the fence was too late. The writer creates the next
    // fence at a greater distance from the end.
    let mut outrun = fenced_off();
    outrun.handle(listed(Some((9, 12))), nonce(0));
    outrun.handle(listed(Some((12, 12))), nonce(0));
    outrun.handle(LogAnswer::Found(entry(1, 9, 1)), nonce(24));
    assert_eq!(creates(&outrun), (16, fence(2, 24, 12)));
    // During the walk each fence has a separate nonce, and no fence is created twice.
    outrun.handle(LogAnswer::Created, nonce(0));
    outrun.handle(listed(None), nonce(25));
    assert_eq!(creates(&outrun), (15, fence(2, 25, 12)));
    outrun.handle(LogAnswer::Created, nonce(26));
    assert_eq!(creates(&outrun), (14, fence(2, 26, 12)));
}

#[test]
fn a_walk_fills_the_gaps_below_another_fence() {
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
fn a_writer_passes_only_fences_of_lower_epochs() {
    let late = fence(1, 19, 3);
    let mut writer = refused(late, 5);
    assert_eq!(creates(&writer), (6, entry(2, 21, 4)));
    writer.handle(LogAnswer::Created, nonce(0));
    assert_eq!(writer.standing(), Some(Standing { claim: 4, last: 6, next: 7 }));
    let replaced = refused(fence(2, 29, 3), 5).ended();
    assert_eq!(replaced, Some(Ended::Replaced { maybe: false }));
    let stale = refused(fence(3, 30, 3), 5).ended();
    assert_eq!(stale, Some(Ended::Stale { newest: e(3), maybe: false }));
    // If number 5 was trimmed meanwhile, the writer searches for the newest object below the fences
    // at the end. This object has the epoch of the successor.
    let mut writer = refused(late, 6);
    writer.handle(listed(Some((5, 9))), nonce(0));
    writer.handle(LogAnswer::Found(fence(1, 18, 6)), nonce(0));
    writer.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(writer.request(), Some(LogRequest::Read(7)));
    let mut trimmed = writer.clone();
    writer.handle(LogAnswer::Found(entry(3, 31, 6)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Stale { newest: e(3), maybe: true }));
    // The writer `trimmed` also finds no object at 7 and no object at 6. The number 6 is the base
    // of the fence, so it had an object, which was trimmed. The writer searches for a newer end.
    trimmed.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(trimmed.request(), Some(LogRequest::Read(6)));
    trimmed.handle(LogAnswer::Missing, nonce(0));
    assert_eq!(trimmed.request(), Some(LogRequest::List(After::Number(8))));
}

#[test]
fn a_writer_that_reads_its_own_object_has_created_it() {
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
fn the_floor_shows_whether_a_refused_append_may_have_taken_effect() {
    let ended = |found, floor| refused(found, floor).ended();
    let newer = claim(3, 30, 4, 3);
    assert_eq!(ended(newer, 5), Some(Ended::Stale { newest: e(3), maybe: false }));
    assert_eq!(ended(newer, 6), Some(Ended::Stale { newest: e(3), maybe: true }));
    let same = claim(2, 29, 4, 3);
    assert_eq!(ended(same, 5), Some(Ended::Replaced { maybe: false }));
    let older = claim(1, 19, 4, 3);
    assert_eq!(ended(older, 0), Some(Ended::WentBack { number: 5, epoch: e(1) }));
    // A trim raised the floor above the number of the append. The object may be a ghost, so the
    // writer also reads the end of the log.
    let mut writer = refused(older, 6);
    assert_eq!(writer.request(), Some(LogRequest::List(After::Number(4))));
    writer.handle(listed(Some((5, 9))), nonce(0));
    writer.handle(LogAnswer::Found(entry(3, 31, 6)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Stale { newest: e(3), maybe: true }));
}

/// The floor is above the number of a refused append, so a trim may have deleted the object that
/// this append created. Then only the end of the log shows whether another writer has taken over.
#[test]
fn the_end_of_the_log_shows_the_successor_if_the_effect_of_an_append_is_unknown() {
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
fn only_an_append_without_an_effect_is_withdrawn() {
    let mut writer = open();
    assert!(writer.append(nonce(21)));
    writer.withdraw();
    assert_eq!(writer.standing(), Some(Standing { claim: 4, last: 3, next: 5 }));
    // The effect of this append is unknown, so `withdraw` does nothing, and the writer reads the
    // object back.
    assert!(writer.append(nonce(22)));
    writer.handle(LogAnswer::Unknown, nonce(0));
    writer.withdraw();
    assert_eq!(writer.request(), Some(LogRequest::Read(5)));
    // A claim cannot be withdrawn.
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(None), nonce(20));
    writer.withdraw();
    assert!(matches!(writer.request(), Some(LogRequest::Create { number: 1, .. })));
}

#[test]
fn a_deleted_end_of_the_log_ends_the_writer() {
    let mut writer = Writer::new(e(2), NonZeroU64::new(7));
    writer.handle(listed(Some((7, 7))), nonce(0));
    writer.handle(LogAnswer::Missing, nonce(0));
    writer.handle(listed(None), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Gone(7)));
}

#[test]
fn the_log_is_full_after_its_last_number() {
    let mut writer = Writer::new(e(2), None);
    writer.handle(listed(Some((u64::MAX, u64::MAX))), nonce(0));
    writer.handle(LogAnswer::Found(entry(1, 1, 1)), nonce(0));
    assert_eq!(writer.ended(), Some(Ended::Full));
    // The writer creates no fence at the last number, because no number would be left for the
    // claim. It creates its claim instead.
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
    assert!(!sweep.deletes(5), "no claim has been read yet");
    assert!(sweep.handle_claim(&claim(3, 1, 8, 11)));
    assert!(sweep.handle_claim(&claim(2, 1, 2, 7)));
    assert_eq!(sweep.next_claim(), None, "an earlier trim deleted the entries up to 3");
    let deleted: Vec<u64> = (0..20).filter(|number| sweep.deletes(*number)).collect();
    assert_eq!(deleted, [4, 5, 6, 7, 9, 10]);
    assert_eq!(marker.raised(11).swept(11), Floor { floor: 11, swept: 11 });
    assert_eq!(marker.raised(1).swept(1), marker, "the marker is never lowered");

    // An earlier trim deleted all entries, so this trim reads and deletes nothing.
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
    assert!(!sweep.handle_claim(&header(1, 11)), "more fences than numbers below the claim");
    assert!(sweep.handle_claim(&header(1, 3)));
    assert!(sweep.handle_claim(&header(0, 0)));
    let kept: Vec<u64> = (1..20).filter(|number| !sweep.deletes(*number)).collect();
    assert_eq!(kept, [1, 9, 10, 11, 12]);
    assert_eq!(Sweep::new(100, 20, &fence(3, 1, 12), Floor::default()), None);
}

#[test]
fn a_trim_with_an_incomplete_chain_of_claims_is_refused() {
    let marker = Floor { floor: 13, swept: 4 };
    assert_eq!(Sweep::new(100, 12, &claim(3, 1, 8, 11), marker), None);
    let mut sweep = Sweep::new(9, 12, &entry(3, 1, 8), Floor::default()).unwrap();
    assert!(!sweep.handle_claim(&entry(3, 1, 7)), "an entry is not a claim");
    assert!(!sweep.handle_claim(&claim(3, 1, 8, 7)), "a claim that refers to itself");
}
