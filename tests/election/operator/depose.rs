//! Tests of `Election::depose`.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{Deposed, EpochEnd, ErrorKind, Layout, Loss};

use super::scene::{LAYOUTS, Scene, depose, epoch, is_sealed};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, timed, wait};
use tenure_testkit::world::{VALIDITY, elect};
use tenure_testkit::write_faults::WRITE_FAULTS;

/// Returns the rule that a seal breaks, or `None`. The seal has replaced the record `before` by the
/// record `after`. The test of broken seals also uses this function.
fn wrong_seal(before: &Value, after: &Value, ended: &str) -> Option<String> {
    let number = |record: &Value, field: &str| record[field].as_u64().unwrap_or(0);
    if !is_sealed(after) {
        return Some("the record is not sealed".to_owned());
    }
    if number(after, "heartbeat") != number(before, "heartbeat") + 1 {
        return Some(format!("the heartbeat of the seal is {}", after["heartbeat"]));
    }
    if after["ended"] != ended || after["data"] != Value::Null {
        return Some(format!("{after}"));
    }
    let kept = ["validity_ms", "format", "candidate", "nonce", "elected_at", "token", "epoch"];
    kept.iter().find(|field| after[**field] != before[**field]).map(|field| format!("its {field}"))
}

#[tokio::test(start_paused = true)]
async fn depose_seals_the_current_epoch_and_keeps_the_other_fields() {
    for layout in LAYOUTS {
        for scene in [Scene::new(layout), Scene::in_a_directory(layout)] {
            let a = elect(&scene.node("a").data(json!({ "x": 1 })).build().unwrap()).await;
            let before = scene.record(1).await;
            let deposed = scene.election("ann").depose(None).await.unwrap();
            let Deposed::Sealed { leader, wait: waits } = deposed else { panic!("{deposed:?}") };
            assert_eq!((leader.name(), leader.epoch), ("a", epoch(1)));
            assert_eq!(waits, VALIDITY + VALIDITY / 100, "with the drift");
            let after = scene.record(1).await;
            assert_eq!(wrong_seal(&before, &after, "deposed"), None);
            assert_eq!(after["sealed_by"], "ann");
            wait(secs(4)).await;
            let lost = a.check().unwrap_err();
            let Loss::Sealed { by, ended } = lost else { panic!("{lost:?}") };
            assert_eq!((by.as_deref(), ended), (Some("ann"), EpochEnd::Deposed));
        }
    }
}

#[tokio::test(start_paused = true)]
async fn depose_costs_at_most_a_list_a_get_and_a_put() {
    for (layout, calls) in [
        (Layout::EpochFiles, &[Call::List, Call::Get, Call::Replace][..]),
        (Layout::SingleObject, &[Call::Get, Call::Replace][..]),
    ] {
        for only in [None, Some(epoch(1))] {
            let scene = Scene::new(layout);
            let _a = scene.leader("a").await;
            scene.store.take_log();
            scene.election("ann").depose(only).await.unwrap();
            assert_eq!(scene.store.take_calls(), calls);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_successor_waits_for_the_lease_of_a_holder_that_is_cut_off() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let a = scene.cut_off_leader(secs(4)).await;
        scene.election("ann").depose(None).await.unwrap();
        let (took, b) = timed(elect(&scene.election("b"))).await;
        assert!(a.check().is_err(), "{layout:?}: two processes lead");
        assert!(took >= VALIDITY && took < VALIDITY + secs(2), "{took:?}");
        assert_eq!(b.epoch(), epoch(2));
    }
}

#[tokio::test(start_paused = true)]
async fn with_force_the_successor_does_not_wait() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        drop(scene.leader("a").await);
        let before = scene.record(1).await;
        let deposed = scene.election("ann").depose_dead(None).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { wait: Duration::ZERO, .. }), "{deposed:?}");
        assert_eq!(wrong_seal(&before, &scene.record(1).await, "lapsed"), None);
        let (took, b) = timed(elect(&scene.election("b"))).await;
        assert!(took < secs(1), "{took:?}");
        assert_eq!(b.epoch(), epoch(2));
    }
}

#[tokio::test(start_paused = true)]
async fn force_ends_the_wait_after_a_deposition() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        drop(scene.leader("a").await);
        let b = scene.election("b");
        let follow = tokio::spawn(async move { elect(&b).await });
        wait(millis(500)).await;
        let ann = scene.election("ann");
        ann.depose(None).await.unwrap();
        wait(secs(3)).await;
        assert!(!follow.is_finished());
        let sealed = scene.record(1).await;
        let again = ann.depose(None).await.unwrap();
        assert!(matches!(again, Deposed::Already { ended: EpochEnd::Deposed, .. }), "{again:?}");
        assert_eq!(scene.record(1).await, sealed, "the record is unchanged");
        let (took, _) = timed(async {
            ann.depose_dead(None).await.unwrap();
            assert_eq!(wrong_seal(&sealed, &scene.record(1).await, "lapsed"), None);
            follow.await.unwrap()
        })
        .await;
        assert!(took < secs(3), "{took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_sealed_or_missing_epoch_is_reported_and_left_unchanged() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let ann = scene.election("ann");
        assert_eq!(ann.depose(None).await.unwrap(), Deposed::NoLeader);
        assert_eq!(ann.depose_dead(None).await.unwrap(), Deposed::NoLeader);
        scene.leader("a").await.resign().await.unwrap();
        let sealed = scene.record(1).await;
        for (dead, only) in [(false, None), (true, None), (false, Some(epoch(1)))] {
            let deposed = depose(&ann, dead, only).await.unwrap();
            let Deposed::Already { leader, ended } = deposed else { panic!("{deposed:?}") };
            assert_eq!((leader.name(), ended), ("a", EpochEnd::Resigned));
        }
        assert_eq!(scene.record(1).await, sealed);
    }
}

#[tokio::test(start_paused = true)]
async fn only_the_given_epoch_is_deposed() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        scene.leader("a").await.resign().await.unwrap();
        let _b = scene.leader("b").await;
        let before = scene.record(2).await;
        for other in [1, 3] {
            for dead in [false, true] {
                let only = Some(epoch(other));
                let deposed = depose(&scene.election("ann"), dead, only).await.unwrap();
                let Deposed::NotCurrent(leader) = deposed else { panic!("{deposed:?}") };
                assert_eq!((leader.name(), leader.epoch), ("b", epoch(2)));
            }
        }
        assert_eq!(scene.record(2).await, before);
        let deposed = scene.election("ann").depose(Some(epoch(2))).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_record_without_a_validity_needs_force() {
    let nonce = "0123456789abcdef0123456789abcdef";
    let files = [
        r#"{"expired":false,"validity_ms":60000}"#.to_owned(),
        format!(r#"{{"expired":false,"nonce":"{nonce}","heartbeat":4}}"#),
        "no record".to_owned(),
        "x".repeat(70_000),
    ];
    let single = [
        r#"{"expires_at":9e9,"token":1}"#.to_owned(),
        format!(r#"{{"expires_at":9e9,"token":1,"epoch":1,"nonce":"{nonce}","heartbeat":4}}"#),
    ];
    for (layout, bodies) in [(LAYOUTS[0], &files[..]), (LAYOUTS[1], &single[..])] {
        for body in bodies {
            let scene = Scene::new(layout);
            scene.put(1, body.as_str()).await;
            let before = scene.record(1).await;
            let deposed = scene.election("ann").depose(None).await.unwrap();
            assert!(matches!(deposed, Deposed::NeedsForce(_)), "{deposed:?}");
            assert_eq!(scene.record(1).await, before);
            let deposed = scene.election("ann").depose_dead(None).await.unwrap();
            assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
            let (took, b) = timed(elect(&scene.election("b"))).await;
            assert!(took < secs(1) && b.epoch() == epoch(2), "{body}: {took:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_later_format_is_left_unchanged_and_a_broken_single_object_has_no_token() {
    for (layout, body, kind) in [
        (LAYOUTS[0], r#"{"format":3}"#, ErrorKind::RecordTooNew),
        (LAYOUTS[1], r#"{"format":3}"#, ErrorKind::RecordTooNew),
        (LAYOUTS[1], "no lock", ErrorKind::CorruptRecord),
    ] {
        let scene = Scene::new(layout);
        scene.put(1, body).await;
        for dead in [false, true] {
            let error = depose(&scene.election("ann"), dead, None).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            let remedy = "until the record is repaired, or restored";
            let repairable = kind == ErrorKind::CorruptRecord;
            assert_eq!(error.to_string().contains(remedy), repairable, "{error}");
            assert!(!error.may_have_happened());
        }
        let list = scene.store.take_calls();
        assert!(!list.contains(&Call::Replace));
    }
}

/// After every fault of the write that seals the epoch, the outcome of `depose` matches the record
/// on the store.
#[tokio::test(start_paused = true)]
async fn a_seal_with_an_unknown_effect_is_read_back() {
    for layout in LAYOUTS {
        for fault in WRITE_FAULTS {
            for times in 1..=3 {
                let scene = Scene::new(layout);
                drop(scene.leader("a").await);
                let before = scene.record(1).await;
                scene.store.on(Call::Replace).times(times).fault(fault);
                let deposed = scene.election("ann").depose(None).await.unwrap();
                assert!(matches!(deposed, Deposed::Sealed { .. }), "{fault:?}: {deposed:?}");
                let told = scene.record(1).await;
                assert_eq!(wrong_seal(&before, &told, "deposed"), None, "{fault:?}");
                wait(secs(15)).await;
                assert_eq!(scene.record(1).await, told, "{fault:?} took effect later");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_unknown_effect_is_reported_and_found_by_a_second_run() {
    for layout in LAYOUTS {
        for (fault, sealed) in [(Fault::Conflict, false), (Fault::HangAfter, true)] {
            let scene = Scene::new(layout);
            drop(scene.leader("a").await);
            let ann = scene.election("ann");
            scene.store.on(Call::Replace).always().fault(fault);
            if sealed {
                // The operator then reads the object, to find the effect of the write. This read
                // fails too.
                scene.store.on(Call::Get).skip(1).always().fault(Fault::FailBefore);
            }
            let error = ann.depose(None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::Unavailable);
            assert!(error.may_have_happened(), "{error}");
            assert_eq!(is_sealed(&scene.record(1).await), sealed);
            scene.store.heal();
            let deposed = ann.depose(None).await.unwrap();
            let already = matches!(deposed, Deposed::Already { ended: EpochEnd::Deposed, .. });
            assert_eq!(already, sealed, "{deposed:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn an_error_without_an_effect_reports_no_effect() {
    for layout in LAYOUTS {
        for (call, fault, kind) in [
            (Call::Replace, Fault::Denied, ErrorKind::AccessDenied),
            // `FailBefore` answers 503, and the answer shows that the request had no effect.
            (Call::Replace, Fault::FailBefore, ErrorKind::Unavailable),
            (Call::Get, Fault::Denied, ErrorKind::AccessDenied),
            (Call::Get, Fault::FailBefore, ErrorKind::Unavailable),
        ] {
            let scene = Scene::new(layout);
            drop(scene.leader("a").await);
            scene.store.on(call).always().fault(fault);
            let error = scene.election("ann").depose(None).await.unwrap_err();
            assert_eq!(error.kind(), kind, "{error}");
            assert!(!error.may_have_happened() && !is_sealed(&scene.record(1).await), "{error}");
            if fault == Fault::FailBefore {
                assert!(error.to_string().contains("503"), "the error has no cause: {error}");
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn reads_are_tried_three_times() {
    for layout in LAYOUTS {
        for (call, failures) in
            [(Call::List, 2), (Call::List, 3), (Call::Get, 2), (Call::Get, 3), (Call::Get, 9)]
        {
            if layout == Layout::SingleObject && call == Call::List {
                continue;
            }
            let scene = Scene::new(layout);
            let _lead = scene.leader("a").await;
            let way = scene.another_way();
            way.on(call).times(failures).fault(Fault::FailBefore);
            let operator = scene.behind(&way, "ann").build().unwrap();
            let (took, outcome) = timed(operator.depose(None)).await;
            assert!(took >= millis(300), "the pauses are too short: {took:?}");
            let asked = way.take_calls().iter().filter(|asked| **asked == call).count();
            let case = format!("{layout:?}, {call:?} fails {failures} times: {outcome:?}");
            if failures < 3 {
                assert!(matches!(outcome, Ok(Deposed::Sealed { .. })), "{case}");
            } else {
                assert_eq!(outcome.unwrap_err().kind(), ErrorKind::Unavailable, "{case}");
                assert_eq!(asked, 3, "{case}");
            }
            let scene = Scene::new(layout);
            let _lead = scene.leader("a").await;
            scene.store.on(call).fault(Fault::Denied);
            let error = scene.election("ann").depose(None).await.unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AccessDenied, "the read was retried");
        }
    }
}

/// The store refuses the seal, because the leader has renewed its lease after the read. The
/// operator reads the newer record and tries again.
#[tokio::test(start_paused = true)]
async fn a_seal_is_retried_a_few_times_after_renewals() {
    for layout in LAYOUTS {
        for (renewals, wins) in [(1, true), (4, true), (5, false), (50, false)] {
            let scene = Scene::new(layout);
            drop(scene.leader("a").await);
            let slow = Fault::Slow(millis(200));
            scene.store.on(Call::Replace).times(renewals).fault(slow);
            let ann = scene.election("ann");
            let deposing = tokio::spawn(async move { ann.depose(None).await });
            let mut before = scene.record(1).await;
            while !deposing.is_finished() {
                let asked = scene.store.take_calls();
                if asked.contains(&Call::Replace) && !is_sealed(&scene.record(1).await) {
                    scene.renew(1).await;
                    before = scene.record(1).await;
                }
                wait(millis(5)).await;
            }
            let deposed = deposing.await.unwrap().unwrap();
            let after = scene.record(1).await;
            if wins {
                assert!(matches!(deposed, Deposed::Sealed { .. }), "{renewals}: {deposed:?}");
                assert_eq!(wrong_seal(&before, &after, "deposed"), None, "{renewals}");
            } else {
                assert!(matches!(deposed, Deposed::Renewed(_)), "{renewals}: {deposed:?}");
                assert!(!is_sealed(&after));
            }
        }
    }
}

/// If the caller names no epoch, `depose` seals the epoch that is the newest at its first read, and
/// no later epoch.
#[tokio::test(start_paused = true)]
async fn a_leader_that_is_elected_after_the_first_read_is_not_deposed() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let a = scene.leader("a").await;
        let ann_way = scene.another_way();
        ann_way.on(Call::Replace).fault(Fault::Slow(secs(1)));
        let ann = scene.behind(&ann_way, "ann").build().unwrap();
        let deposing = tokio::spawn(async move { ann.depose(None).await });
        wait(millis(100)).await;
        a.resign().await.unwrap();
        let b = scene.leader("b").await;
        let deposed = deposing.await.unwrap().unwrap();
        let spared = matches!(deposed, Deposed::Already { .. } | Deposed::NotCurrent(_));
        assert!(spared, "{deposed:?}");
        wait(secs(15)).await;
        assert!(b.check().is_ok());
    }
}

#[test]
fn broken_seals_are_caught() {
    let before = json!({ "expired": false, "heartbeat": 4, "nonce": "x", "validity_ms": 5 });
    let mut after = json!({
        "expired": true, "heartbeat": 5, "nonce": "x", "validity_ms": 5, "ended": "deposed"
    });
    assert_eq!(wrong_seal(&before, &after, "deposed"), None);
    for (field, value) in [
        ("heartbeat", json!(6)),
        ("heartbeat", json!(4)),
        ("nonce", json!("y")),
        ("data", json!(1)),
    ] {
        let right = after[field].take();
        after[field] = value;
        assert!(wrong_seal(&before, &after, "deposed").is_some(), "{field}");
        after[field] = right;
    }
}
