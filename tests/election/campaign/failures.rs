//! Campaigns with failing requests, and on stores that change during the campaign.

use tenure::ErrorKind;
use tenure::Loss;
use tenure_testkit::world::key;
use tenure_testkit::write_faults::WRITE_FAULTS;

use super::*;

#[tokio::test(start_paused = true)]
async fn a_campaign_survives_and_reports_each_failing_request() {
    for call in [Call::List, Call::Get, Call::Create, Call::Replace] {
        for fault in WRITE_FAULTS {
            let world = World::new();
            drop(world.leader("a").await);
            let election = world.node("b").build().unwrap();
            let mut events = election.events();
            world.store.on(call).times(3).fault(fault);
            let lead = elect(&election).await;
            assert!(lead.check().is_ok() && lead.epoch().get() >= 2, "{call:?} {fault:?}");
            assert_eq!(world.epochs().await.last(), Some(&lead.epoch().get()));
            let told = ready(&mut events).await;
            let failed = |e: &&CampaignEvent| matches!(e, CampaignEvent::StoreFailed(_));
            let is_write = matches!(call, Call::Create | Call::Replace);
            let of_writes = [Fault::NoEtag, Fault::Swallow, Fault::Refuse];
            let expected = match is_write {
                true => fault != Fault::Refuse,
                false => !of_writes.contains(&fault) && !matches!(fault, Fault::Late(_)),
            };
            let any = told.iter().filter(failed).count() > 0;
            assert_eq!(any, expected, "{call:?} {fault:?}: {told:?}");
            assert!(matches!(told.last(), Some(CampaignEvent::Elected(e)) if *e == lead.epoch()));
            wait(VALIDITY * 2).await;
            assert!(lead.check().is_ok(), "{call:?} {fault:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_survives_an_outage_of_hours() {
    let world = World::new();
    let election = world.node("a").build().unwrap();
    world.store.always(Fault::FailBefore);
    let mut campaign = Box::pin(election.campaign());
    assert!(within(secs(3 * 3_600), &mut campaign).await.is_none());
    let asked = world.store.take_calls().len();
    // At the maximum back-off, consecutive attempts are at least half a poll interval apart. So the
    // number of requests is bounded.
    assert!((6_000..14_000).contains(&asked), "{asked} requests");
    world.store.heal();
    let (took, lead) = timed(campaign).await;
    assert_eq!(lead.unwrap().epoch().get(), 1);
    assert!(took < secs(2), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_permanent_failure_ends_a_campaign() {
    for (fault, kind) in [
        (Fault::Denied, ErrorKind::AccessDenied),
        (Fault::NoSuchStore, ErrorKind::NoSuchStore),
        (Fault::Unsupported, ErrorKind::UnsafeStore),
        (Fault::Reverse, ErrorKind::UnsafeStore),
    ] {
        for call in [Call::List, Call::Get, Call::Create] {
            let world = World::new();
            world.leader("a").await.resign().await.unwrap();
            world.leader("b").await.resign().await.unwrap();
            world.store.on(call).always().fault(fault);
            if fault == Fault::Reverse && call != Call::List {
                continue;
            }
            let election = world.node("c").build().unwrap();
            for _ in 0..2 {
                let result = within(secs(60), election.campaign()).await.expect("the call ends");
                assert_eq!(result.unwrap_err().kind(), kind, "{fault:?} {call:?}");
                let error = election.try_campaign().await.unwrap_err();
                assert_eq!(error.kind(), kind, "{fault:?} {call:?}: {error}");
            }
            world.store.heal();
            drop(elect(&election).await);
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_deleted_newest_epoch_is_an_error_and_not_a_new_first_epoch() {
    let world = World::new();
    let a = world.leader("a").await;
    let b = world.node("b").build().unwrap();
    held(b.try_campaign().await.unwrap());
    world.delete(&name(1)).await;
    let error = within(secs(60), b.campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::NewestDeleted);
    let text = error.to_string();
    assert!(text.contains(&key(1)), "{text}");
    assert!(text.contains("was the newest epoch object and is missing"), "{text}");
    assert_eq!(b.leader().await.unwrap_err().kind(), ErrorKind::NewestDeleted);
    assert!(matches!(a.lost().await, Loss::Vanished));
    assert!(world.epochs().await.is_empty());
    // An operator creates the deleted object again, with the record of a sealed epoch.
    world.put(&name(1), json!({ "expired": true, "ended": "resigned" }).to_string()).await;
    assert_eq!(elect(&b).await.epoch().get(), 2);
}

/// The store refuses every seal, although the condition of the seal is true. The candidate must
/// pause between its attempts.
#[tokio::test(start_paused = true)]
async fn regression_a_store_that_refuses_every_seal_gets_few_requests() {
    for unique in [false, true] {
        let world = World::new();
        drop(world.leader("a").await);
        world.store.on(Call::Replace).always().fault(Fault::Refuse);
        let election = world.node("a").name_is_unique(unique).build().unwrap();
        let campaign = within(secs(60), election.campaign());
        assert!(within(secs(70), campaign).await.expect("the campaign yields").is_none());
        let asked = world.store.take_calls().len();
        // The pause before each attempt has a constant length, so the number of requests is
        // bounded.
        assert!(asked < 2_000, "{asked} requests in a minute");
        world.store.heal();
        assert_eq!(elect(&election).await.epoch().get(), 2);
    }
}
