//! Runs that broke a rule of the protocol before a fix.

use futures::StreamExt as _;
use tenure::store::Store as _;
use tenure::{CampaignOutcome, EpochEnd, ErrorKind, HoldState, LeadershipEvent, Loss, Observation};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{millis, secs, timed, wait, within};

use super::scene::Scene;

/// An attempt fails after its candidate has seen the lapse at all stores. The candidate then reads
/// the objects again, and only the timer of the third store completes a majority.
#[tokio::test(start_paused = true)]
async fn regression_a_lapse_counts_again_after_a_failed_attempt() {
    let scene = Scene::new(3).await;
    let first = scene.node(1).campaign().await.unwrap();
    wait(secs(5)).await;
    let node = scene.node(2);
    let second = tokio::spawn(async move { node.campaign().await });
    wait(secs(12)).await;
    let creates_hang = || {
        for store in &scene.stores {
            store.on(Call::Create).key("lock-0000000002").always().fault(Fault::Hang);
        }
    };
    scene.stores[2].on(Call::Replace).always().fault(Fault::Hang);
    creates_hang();
    drop(first);
    wait(secs(150)).await;
    assert_eq!(scene.ended(1).await[2], None, "the third seal fails");
    (0..3).for_each(|store| scene.up(store));
    scene.down(0);
    creates_hang();
    wait(secs(60)).await;
    scene.up(1);
    scene.up(2);
    let second = within(secs(120), second).await.expect("elected by stores 1 and 2");
    assert_eq!(second.unwrap().unwrap().epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn regression_the_takeover_delay_ends_although_a_store_is_down() {
    let scene = Scene::new(3).await;
    let first = scene.node(1).campaign().await.unwrap();
    let node = scene.builder(2).takeover_delay(secs(5)).build().unwrap();
    let second = tokio::spawn(async move { node.campaign().await });
    wait(secs(30)).await;
    scene.down(2);
    drop(first);
    let second = within(secs(60), second).await.expect("elected after 5 s");
    assert!(second.unwrap().is_ok());
}

#[tokio::test(start_paused = true)]
async fn regression_no_takeover_delay_follows_a_resignation_at_a_majority() {
    let scene = Scene::new(3).await;
    let first = scene.node(1).campaign().await.unwrap();
    let node = scene.builder(2).takeover_delay(secs(20)).build().unwrap();
    let second = tokio::spawn(async move { node.campaign().await });
    wait(secs(30)).await;
    scene.stores[2].on(Call::Replace).always().fault(Fault::Slow(secs(3)));
    first.resign().await.unwrap();
    assert!(within(secs(10), second).await.is_some());
}

/// A leader cannot reach store 2, and a follower cannot reach store 0.
#[tokio::test(start_paused = true)]
async fn regression_a_follower_closes_no_store_that_the_leader_can_join_later() {
    let scene = Scene::new(3).await;
    let (leads, follows) = (scene.view(), scene.view());
    leads.down(2);
    let leadership = leads.node(1).campaign().await.unwrap();
    let node = follows.node(2);
    let follower = tokio::spawn(async move { node.campaign().await });
    wait(secs(20)).await;
    follows.down(0);
    wait(secs(300)).await;
    leads.up(2);
    wait(secs(60)).await;
    assert!(leadership.check().is_ok());
    let holds = leadership.stores();
    assert!(holds.iter().all(|it| it.state == HoldState::Held), "{holds:?}");
    follower.abort();
}

/// A candidate dies after the first create of its attempt, so its epoch is absent at the other
/// stores.
#[tokio::test(start_paused = true)]
async fn regression_repeated_calls_of_try_campaign_end_an_unfinished_attempt() {
    let scene = Scene::new(3).await;
    let view = scene.view();
    for store in &view.stores[1..] {
        store.on(Call::Create).key("lock-00").always().fault(Fault::Hang);
    }
    assert!(within(secs(3), view.node(1).campaign()).await.is_none());
    let node = scene.node(2);
    let elected = async {
        while let CampaignOutcome::Held(_) = node.try_campaign().await.unwrap() {
            wait(secs(5)).await;
        }
    };
    assert!(within(secs(60), elected).await.is_some());
}

/// The caller sees the leader's epoch at one store. The second store hangs, and the leader has lost
/// the third store.
#[tokio::test(start_paused = true)]
async fn regression_try_campaign_returns_if_it_sees_the_leader_at_one_store() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    wait(secs(1)).await;
    scene.put(2, 1, r#"{"expired":true,"format":2,"ended":"lapsed"}"#).await;
    let view = scene.view();
    view.down(0);
    let outcome = within(secs(120), view.node(2).try_campaign()).await.expect("the attempt ends");
    assert!(matches!(outcome.unwrap(), CampaignOutcome::Held(_)));
    assert!(leadership.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn regression_an_abandoned_attempt_at_one_store_does_not_hide_the_leader() {
    let scene = Scene::new(3).await;
    let _leadership = scene.node(1).campaign().await.unwrap();
    wait(secs(1)).await;
    let abandoned = r#"{"expired":true,"format":2,"ended":"abandoned","validity_ms":30000,
        "heartbeat":2,"nonce":"000000000000000000000000000000aa"}"#;
    scene.put(0, 1, abandoned).await;
    let mut seen = scene.node(9).observe();
    let first = seen.next().await.unwrap().unwrap();
    assert!(matches!(first, Observation::Leader(_)), "{first:?}");
}

#[tokio::test(start_paused = true)]
async fn regression_a_vacant_election_is_unknown_once_a_majority_is_silent() {
    let scene = Scene::new(3).await;
    scene.node(1).campaign().await.unwrap().resign().await.unwrap();
    let mut seen = scene.node(9).observe();
    assert_eq!(seen.next().await.unwrap().unwrap(), Observation::NoLeader);
    scene.down(0);
    scene.down(1);
    let next = within(secs(60), seen.next()).await.expect("the state changes");
    assert_eq!(next.unwrap().unwrap(), Observation::Unknown);
}

#[tokio::test(start_paused = true)]
async fn regression_a_store_that_refuses_or_does_not_count_gets_few_requests() {
    let scene = Scene::new(3).await;
    let marker = "app/lock-set-00000000000000ab-2of3-0000000001.json";
    scene.stores[1].delete(vec![marker.to_owned()]).await.unwrap();
    let _leadership = scene.node(1).campaign().await.unwrap();
    let node = scene.node(2);
    let _follower = tokio::spawn(async move { node.campaign().await });
    wait(secs(60)).await;
    scene.stores[1].take_calls();
    scene.stores[2].on(Call::Replace).always().fault(Fault::Refuse);
    scene.stores[2].take_calls();
    wait(secs(600)).await;
    let [unmarked, refuses] = [1, 2].map(|store| scene.stores[store].take_calls().len());
    assert!(unmarked <= 80, "{unmarked} requests in 10 min");
    assert!(refuses <= 1_000, "{refuses} requests in 10 min");
}

#[tokio::test(start_paused = true)]
async fn regression_a_failed_listing_is_repeated_although_another_store_is_wiped() {
    let scene = Scene::new(3).await;
    let marker = "app/lock-set-00000000000000ab-2of3-0000000001.json";
    scene.stores[1].delete(vec![marker.to_owned()]).await.unwrap();
    scene.stores[2].on(Call::List).times(3).fault(Fault::FailBefore);
    let node = scene.builder(1).check_store(false).build().unwrap();
    let elected = within(secs(60), node.campaign()).await.expect("elected by a majority");
    assert!(elected.is_ok());
}

/// One answer arrives before a suspension. The answer that completes a majority arrives after the
/// suspension.
#[tokio::test(start_paused = true)]
async fn regression_an_answer_after_the_end_of_the_lease_does_not_extend_it() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    wait(secs(9)).await;
    scene.stores.iter().for_each(|store| drop(store.take_calls()));
    for store in &scene.stores[1..] {
        store.on(Call::Replace).always().fault(Fault::AnswerLate(millis(600)));
    }
    while scene.stores.iter().any(|store| store.take_calls().is_empty()) {
        wait(millis(50)).await;
    }
    scene.clock.suspend(secs(25));
    wait(millis(900)).await;
    assert!(leadership.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn regression_a_follower_that_polls_at_the_lapse_reads_before_it_seals() {
    let scene = Scene::new(3).await;
    let _leadership = scene.node(1).campaign().await.unwrap();
    let view = scene.view();
    view.stores.iter().for_each(|store| store.always(Fault::Slow(millis(50))));
    let node = view.builder(2).check_store(false).poll_interval(None).build().unwrap();
    let _follower = tokio::spawn(async move { node.campaign().await });
    wait(secs(600)).await;
    let calls: Vec<Call> = view.stores.iter().flat_map(|store| store.take_calls()).collect();
    assert!(!calls.contains(&Call::Replace) && !calls.contains(&Call::Create), "{calls:?}");
    assert!(calls.len() <= 70, "{} requests in 20 lapses at 3 stores", calls.len());
}

#[tokio::test(start_paused = true)]
async fn regression_no_candidate_waits_for_the_lapse_of_abandoned_attempts() {
    let scene = Scene::new(3).await;
    for (store, nonce) in ["a", "b", "c"].iter().enumerate() {
        let body = format!(
            r#"{{"expired":true,"format":2,"ended":"abandoned","validity_ms":30000,"heartbeat":2,
            "nonce":"{nonce:0>32}"}}"#
        );
        scene.put(store, 1, &body).await;
    }
    let elected = within(secs(1), scene.node(1).campaign()).await;
    assert!(elected.is_some_and(|it| it.is_ok()));
}

#[tokio::test(start_paused = true)]
async fn regression_a_resignation_ends_at_a_majority_while_a_store_is_down() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    scene.down(2);
    wait(secs(60)).await;
    scene.stores[1].on(Call::Replace).always().fault(Fault::Slow(millis(100)));
    leadership.resign().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn regression_a_deposed_leader_reports_the_seal_while_a_store_is_down() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    scene.down(2);
    wait(secs(60)).await;
    scene.node(2).depose(None).await.unwrap();
    let loss = leadership.lost().await;
    assert!(matches!(loss, Loss::Sealed { ended: EpochEnd::Deposed, .. }), "{loss:?}");
}

#[tokio::test(start_paused = true)]
async fn regression_the_last_reading_is_known_while_the_first_store_is_down() {
    let scene = Scene::new(3).await;
    let _leadership = scene.node(1).campaign().await.unwrap();
    let view = scene.view();
    view.down(0);
    let node = view.node(2);
    let same = node.clone();
    let _follower = tokio::spawn(async move { same.campaign().await });
    wait(secs(60)).await;
    assert!(node.last_seen().is_some_and(|it| it.is_held()));
}

#[tokio::test(start_paused = true)]
async fn regression_denied_writes_end_the_campaign_although_reads_succeed() {
    let scene = Scene::new(3).await;
    for store in &scene.stores {
        store.on(Call::Create).always().fault(Fault::Denied);
    }
    let node = scene.builder(1).check_store(false).retry_denied(secs(45)).build().unwrap();
    let error = within(secs(120), node.campaign()).await.expect("the campaign ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::AccessDenied);
}

#[tokio::test(start_paused = true)]
async fn regression_try_campaign_gives_up_stores_that_contradict_themselves() {
    for (call, fault) in [(Call::Create, Fault::Refuse), (Call::Get, Fault::Hidden)] {
        let scene = Scene::new(3).await;
        scene.node(1).campaign().await.unwrap().resign().await.unwrap();
        for store in &scene.stores[..2] {
            store.on(call).always().fault(fault);
        }
        let node = scene.builder(2).check_store(false).build().unwrap();
        let error =
            within(secs(120), node.try_campaign()).await.expect("the attempt ends").unwrap_err();
        assert!(error.to_string().contains("cache"), "{error}");
    }
}

/// Before the fix, each election reported a store as down if the store had not answered yet.
#[tokio::test(start_paused = true)]
async fn regression_a_leadership_is_not_degraded_before_a_slow_store_has_answered() {
    for (fault, is_degraded) in [(Fault::Slow(secs(2)), false), (Fault::Hang, true)] {
        let scene = Scene::new(3).await;
        scene.stores[2].always(fault);
        let leadership = scene.builder(1).check_store(false).build().unwrap();
        let leadership = leadership.campaign().await.unwrap();
        let mut events = leadership.events();
        let degraded = async {
            while !matches!(events.next().await, Some(LeadershipEvent::Degraded { .. })) {}
        };
        assert_eq!(within(secs(60), degraded).await.is_some(), is_degraded);
        assert_eq!(leadership.stores()[2].state != HoldState::Held, is_degraded);
    }
}

/// Before the fix, the reads after each refused renewal made the state of the store `held`.
#[tokio::test(start_paused = true)]
async fn regression_a_store_that_refuses_renewals_is_not_held() {
    for fault in [Fault::Refuse, Fault::Denied, Fault::FailBefore, Fault::Hang] {
        let scene = Scene::new(3).await;
        let leadership = scene.node(1).campaign().await.unwrap();
        wait(secs(1)).await;
        scene.stores[2].on(Call::Replace).always().fault(fault);
        wait(secs(15)).await;
        for _ in 0..60 {
            wait(millis(500)).await;
            let hold = &leadership.stores()[2];
            assert!(hold.state != HoldState::Held && hold.last_error.is_some(), "{hold:?}");
        }
        scene.up(2);
        wait(secs(60)).await;
        assert_eq!(leadership.stores()[2].state, HoldState::Held, "{fault:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_renewal_that_is_read_back_ends_the_degraded_state() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    let mut events = leadership.events();
    wait(secs(1)).await;
    scene.stores[2].on(Call::Replace).times(1).fault(Fault::FailAfter);
    let mut seen = Vec::new();
    let watch = async {
        while let Some(event) = events.next().await {
            match event {
                LeadershipEvent::Degraded { .. } => seen.push("degraded"),
                LeadershipEvent::Whole => seen.push("whole"),
                _ => {}
            }
        }
    };
    assert!(within(secs(15), watch).await.is_none(), "the leadership lasts");
    assert_eq!(seen, ["degraded", "whole"]);
}

#[tokio::test(start_paused = true)]
async fn regression_depose_does_not_wait_for_a_store_that_hangs() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    wait(secs(1)).await;
    scene.down(1);
    let (took, deposed) = timed(scene.node(2).depose(None)).await;
    deposed.unwrap();
    assert!(took < secs(3), "{took:?}");
    assert!(matches!(leadership.lost().await, Loss::Sealed { .. }));
}
