use tenure::store::{ETag, StoreError, StoreErrorKind};

use super::*;

fn etag(text: &str) -> ETag {
    ETag::new(text)
}

fn done() -> WriteAnswer {
    Ok(PutOutcome::Done { etag: Some(etag("new")) })
}

fn refused() -> WriteAnswer {
    Ok(PutOutcome::PreconditionFailed)
}

fn unknown(determinacy: Determinacy) -> WriteAnswer {
    Err(StoreError::new(StoreErrorKind::Transient, determinacy, "409"))
}

/// Returns the outcome for these responses to three writers. The store has the body of the writer
/// with the number `wrote`. For `None`, the store has the old body.
fn of(told: [WriteAnswer; 3], wrote: Option<usize>) -> RaceOutcome {
    let bodies: Vec<_> = (0..3).map(|writer| Bytes::from(format!("{writer}"))).collect();
    let before = Bytes::from("before");
    let (body, etag) = match wrote {
        Some(writer) => (bodies[writer].clone(), etag("new")),
        None => (before.clone(), etag("old")),
    };
    let found = Seen { len: body.len() as u64, body: Some(body), etag };
    check(&bodies, Some(&before), &told, Some(&found))
}

fn breaks(told: [WriteAnswer; 3], wrote: Option<usize>) -> String {
    match of(told, wrote) {
        RaceOutcome::Broken(violation) => violation,
        other => panic!("{other:?}"),
    }
}

#[test]
fn a_race_has_one_winner_and_stores_its_write() {
    assert_eq!(of([refused(), done(), refused()], Some(1)), RaceOutcome::Decided);
    assert!(breaks([done(), done(), refused()], Some(1)).contains("2 of 3 writers"));
    assert!(breaks([refused(), done(), refused()], Some(2)).contains("is not stored"));
    assert!(breaks([refused(), done(), refused()], None).contains("is not stored"));
    assert!(breaks([refused(), refused(), refused()], None).contains("no writer won"));
    assert!(breaks([refused(), refused(), refused()], Some(0)).contains("refused is stored"));
    let missing = Ok(PutOutcome::NotFound);
    assert!(breaks([missing, done(), refused()], Some(1)).contains("does not exist"));
    let other = Ok(PutOutcome::Done { etag: Some(etag("other")) });
    assert!(breaks([other, refused(), refused()], Some(0)).contains("other"));
}

#[test]
fn the_stored_body_decides_after_an_unknown_effect() {
    let maybe = || unknown(Determinacy::Indeterminate);
    assert_eq!(of([maybe(), refused(), refused()], Some(0)), RaceOutcome::Decided);
    assert_eq!(of([maybe(), done(), refused()], Some(1)), RaceOutcome::Decided);
    assert_eq!(of([maybe(), maybe(), maybe()], None), RaceOutcome::Undecided);
    assert!(breaks([maybe(), done(), refused()], Some(0)).contains("is not stored"));
    assert!(breaks([maybe(), refused(), refused()], None).contains("no writer won"));
    let never = unknown(Determinacy::Determinate);
    assert!(breaks([never, refused(), refused()], Some(0)).contains("refused is stored"));
}

#[test]
fn a_tally_is_clear_if_most_writes_have_a_known_effect() {
    let mut tally = Tally::default();
    assert!(!tally.is_clear(), "a tally without races");
    tally.count(vec![(
        vec![done(), refused(), unknown(Determinacy::Indeterminate)],
        RaceOutcome::Decided,
    )]);
    assert!(tally.is_clear());
    assert_eq!((tally.done, tally.refused, tally.unknown), (1, 1, 1));
    let unclear = || unknown(Determinacy::Indeterminate);
    tally.count(vec![(vec![unclear(), unclear(), unclear()], RaceOutcome::Decided)]);
    assert!(!tally.is_clear());
}

#[test]
fn the_length_identifies_a_long_body() {
    let long = Bytes::from(vec![b' '; 200_000]);
    let bodies = [Bytes::from("short"), long.clone(), Bytes::from("other")];
    let found = Seen { len: long.len() as u64, body: None, etag: etag("new") };
    let check = |told: [WriteAnswer; 3]| check(&bodies, None, &told, Some(&found));
    assert_eq!(check([refused(), done(), refused()]), RaceOutcome::Decided);
    assert!(matches!(check([done(), refused(), refused()]), RaceOutcome::Broken(_)));
}
