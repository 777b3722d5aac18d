use super::*;
use crate::test_values::epoch;

fn session(id: u128) -> Session {
    Session { id: SessionId::from_bits(id), nonce: Nonce::from_bits(id + 1_000) }
}

/// Returns an assignment with these numbers of members and partitions. The members own the
/// partitions round-robin.
fn record(members: u128, partitions: u32) -> AssignmentRecord {
    let names = (0..partitions).map(|number| format!("orders-{number}").into()).collect();
    let mut assignment = Assignment::first(Nonce::from_bits(5), names);
    assignment.epoch = epoch(12_345);
    assignment.assignor = "sticky".into();
    let member = |id| Member::new(session(id), format!("worker-{id}"));
    assignment.members = (0..members).map(member).collect();
    assignment.coordinator = assignment.members.first().map(|it| it.session);
    for (partition, turn) in assignment.partitions.iter_mut().zip((0..members).cycle()) {
        partition.owner = Some(session(turn));
        partition.token = Some(epoch(12_000));
    }
    AssignmentRecord { assignment, unknown: Unknown::default() }
}

fn decode(body: &[u8]) -> Result<AssignmentRecord, BadAssignment> {
    AssignmentRecord::decode(epoch(12_345), body)
}

#[test]
fn a_written_assignment_is_read_unchanged() {
    let mut all = record(3, 7);
    all.assignment.partitions.remove(2);
    all.assignment.members[1].weight = 4;
    all.assignment.members[2].data = Some(r#"{"addr":"10.0.0.7:80"}"#.into());
    let partition = &mut all.assignment.partitions[4];
    (partition.owner, partition.target) = (None, Some(session(1)));
    partition.marks.pinned = Some("worker-1".into());
    partition.marks.paused = true;
    all.assignment.partitions[0].marks.barred = Some("worker-2".into());
    all.assignment.partitions[0].marks.retiring = true;
    for record in [all, record(0, 0), record(1, 1)] {
        assert_eq!(decode(&record.encode().unwrap()).as_ref(), Ok(&record));
    }
}

/// Later versions must read assignments of this format.
#[test]
fn the_format_of_an_assignment_is_stable() {
    let body = String::from_utf8(record(1, 2).encode().unwrap()).unwrap();
    let expected = concat!(
        r#"{"format":1,"epoch":12345,"nonce":"00000000000000000000000000000005","#,
        r#""assignor":"sticky","coordinator":0,"next_number":2,"members":[{"id":"00000000000000000000000000000000","#,
        r#""nonce":"000000000000000000000000000003e8","name":"worker-0","validity_ms":30000}],"#,
        r#""partitions":[{"name":"orders-0","owner":0,"token":12000},"#,
        r#"{"name":"orders-1","owner":0,"token":12000}]}"#,
        "\n"
    );
    assert_eq!(body, expected);
}

#[test]
fn unknown_fields_stay_with_their_member_or_partition() {
    let body = String::from_utf8(record(2, 3).encode().unwrap()).unwrap();
    let body = body
        .replace(r#"{"format""#, r#"{"zone":"b","format""#)
        .replace(r#""name":"worker-1""#, r#""rack":7,"name":"worker-1""#)
        .replace(r#""name":"orders-2""#, r#""heat":[1],"name":"orders-2""#);
    let mut read = decode(body.as_bytes()).unwrap();
    // Make the next assignment: remove one member and one partition.
    read.assignment.members.remove(0);
    read.assignment.partitions.remove(0);
    read.assignment.coordinator = None;
    for partition in &mut read.assignment.partitions {
        partition.owner = Some(session(1));
    }
    let next: Value = serde_json::from_slice(&read.encode().unwrap()).unwrap();
    assert_eq!(next["zone"], "b");
    assert_eq!(next["members"][0]["rack"], 7);
    assert_eq!(next["partitions"][1]["heat"][0], 1);
    assert_eq!(next["partitions"][0]["number"], 1);
}

#[test]
fn ten_thousand_partitions_and_a_hundred_members_take_less_than_512_kib() {
    let body = record(100, 10_000).encode().unwrap();
    assert!(body.len() < 512 * 1024, "{} bytes", body.len());
}

/// Before the fix, each reserved partition repeated the name of its former owner. So an assignment
/// became too long if a member with a long name left and reserved its partitions.
#[test]
fn regression_a_reservation_takes_less_room_than_an_owner() {
    let mut left = record(2, 1_000);
    for member in &mut left.assignment.members {
        member.name = "m".repeat(MAX_NAME_BYTES).into();
    }
    let owned = left.encode().unwrap().len();
    let gone = left.assignment.members.remove(0);
    left.assignment.coordinator = None;
    for partition in &mut left.assignment.partitions {
        if partition.owner.take_if(|owner| *owner == gone.session).is_some() {
            partition.kept = Some((Arc::clone(&gone.name), Duration::from_secs(3_600)));
        }
    }
    let kept = left.encode().unwrap();
    assert!(kept.len() < owned, "{} and {owned}", kept.len());
    assert_eq!(decode(&kept), Ok(left));
}

#[test]
fn an_assignment_over_4_mib_is_not_written_or_read() {
    let mut long = record(1, 40_000);
    let name: Arc<str> = "x".repeat(200).into();
    for partition in &mut long.assignment.partitions {
        partition.name = Arc::clone(&name);
    }
    assert!(matches!(long.encode(), Err(BadAssignment::TooLarge(8_000_000..))));
    let spaces = vec![b' '; MAX_BYTES + 1];
    assert_eq!(decode(&spaces), Err(BadAssignment::TooLarge(MAX_BYTES + 1)));
}

/// The decoder returns an error for each of these bodies, and no message quotes the body.
#[test]
fn a_body_that_breaks_a_rule_is_malformed() {
    let good = String::from_utf8(record(2, 3).encode().unwrap()).unwrap();
    let last = r#"{"name":"orders-2","owner":0,"token":12000}"#;
    assert!(decode(good.as_bytes()).is_ok() && good.contains(last));
    for (from, to) in [
        (r#""format":1,"#, ""),
        (r#""format":1"#, r#""format":0"#),
        (r#""epoch":12345"#, r#""epoch":12346"#),
        (r#""coordinator":0"#, r#""coordinator":2"#),
        (r#""next_number":3"#, r#""next_number":2"#),
        (r#""validity_ms":30000"#, r#""validity_ms":0"#),
        (r#""validity_ms":30000"#, r#""validity_ms":3600001"#),
        (r#""name":"worker-0""#, r#""name":"worker-0","weight":0"#),
        (r#""name":"worker-0""#, r#""name":"""#),
        (&"0".repeat(31), "x"),
        (r#""owner":1"#, r#""owner":2"#),
        (r#""owner":1,"token":12000"#, r#""owner":1"#),
        (r#""owner":1,"token":12000"#, r#""owner":1,"token":12346"#),
        (r#""name":"orders-2""#, r#""name":"orders-1""#),
        (r#""name":"orders-2""#, r#""number":1,"name":"orders-2""#),
        (last, r#"{"name":"orders-2","kept":0}"#),
        (last, r#"{"name":"secret","paused":"secret"}"#),
        ("}]}", "}]"),
    ] {
        let bad = good.replacen(from, to, 1);
        assert_ne!(bad, good, "{from}");
        match decode(bad.as_bytes()) {
            Err(BadAssignment::Malformed(why)) => assert!(!why.contains("secret"), "{why}"),
            other => panic!("{to}: {other:?}"),
        }
    }
    let newer = good.replace(r#""format":1"#, r#""format":3"#);
    assert_eq!(decode(newer.as_bytes()), Err(BadAssignment::TooNew(3)));
    assert!(decode(b"").is_err());
}
