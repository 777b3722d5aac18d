//! Elections on a store that denies access for a while. A waiting call retries a denied request for
//! the time that `retry_denied` sets, by default 10 s.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use futures::StreamExt as _;
use tenure::{CampaignEvent, Election, ErrorKind, Layout, Loss, Observation, Store};
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::layer::{Layer, Layered};
use tenure_testkit::time::{millis, process, secs, timed, wait, within};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect, ready};

const PASSING: [(Fault, ErrorKind); 2] =
    [(Fault::Denied, ErrorKind::AccessDenied), (Fault::NoSuchStore, ErrorKind::NoSuchStore)];
const LAYOUTS: [Layout; 2] = [Layout::EpochFiles, Layout::SingleObject];
const HOUR: Duration = Duration::from_secs(3_600);

/// While keys are rotated or a policy changes, the store may answer 403 for 3 s. Before the fix,
/// these answers ended the campaign of every waiting candidate with an error.
#[tokio::test(start_paused = true)]
async fn regression_a_waiting_candidate_survives_three_seconds_of_denials() {
    for layout in LAYOUTS {
        for (fault, _) in PASSING {
            let world = World::new();
            let leader = elect(&world.node("a").layout(layout).build().unwrap()).await;
            let standby = world.node("b").layout(layout).build().unwrap();
            let mut events = standby.events();
            let campaign = tokio::spawn(async move { standby.campaign().await });
            // The store denies all requests twice, for 3 s each. A request succeeds between these
            // two times, so the limit of `retry_denied` (10 s) starts again.
            for _ in 0..2 {
                wait(secs(5)).await;
                world.store.always(fault);
                wait(secs(3)).await;
                world.store.heal();
                wait(secs(5)).await;
                assert!(leader.check().is_ok());
            }
            let told = ready(&mut events).await;
            let failed = |event: &&CampaignEvent| matches!(event, CampaignEvent::StoreFailed(_));
            assert!(told.iter().any(|event| failed(&event)), "{told:?}");
            leader.resign().await.unwrap();
            let elected =
                within(secs(5), campaign).await.expect("the candidate polls").unwrap().unwrap();
            assert_eq!(elected.epoch().get(), 2, "{layout:?} {fault:?}");
        }
    }
}

/// The test denies each request of a campaign, and each request of the preceding store check.
#[tokio::test(start_paused = true)]
async fn a_service_survives_denials_of_each_request() {
    for layout in LAYOUTS {
        for (fault, kind) in PASSING {
            for call in [Call::List, Call::Get, Call::Create, Call::Replace] {
                let world = World::new();
                elect(&world.node("a").layout(layout).build().unwrap())
                    .await
                    .resign()
                    .await
                    .unwrap();
                drop(elect(&world.node("a").layout(layout).build().unwrap()).await);
                let service = world.node("b").layout(layout).check_store(true).retry_denied(None);
                let service = service.build().unwrap();
                world.store.on(call).always().fault(fault);
                let mut campaign = Box::pin(service.campaign());
                let waited = within(HOUR, &mut campaign).await;
                assert!(waited.is_none(), "{layout:?} {fault:?} {call:?}: {waited:?}");
                let failure = service.last_failure().map(|error| error.kind());
                assert_eq!(failure, Some(kind), "{layout:?} {fault:?} {call:?}");
                let sent = world.store.take_calls().len();
                assert!(sent < 5_000, "{sent} requests, {layout:?} {call:?}");
                world.store.heal();
                let (took, elected) = timed(campaign).await;
                assert!(elected.unwrap().epoch().get() >= 3, "{layout:?} {call:?}");
                // The bound includes the time of the store check. After a failure, the check pauses
                // for 1.1 s before each write that it sends.
                assert!(took < TAKEOVER + secs(10), "{took:?} {layout:?} {call:?}");
                assert!(service.last_failure().is_none());
            }
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_campaign_retries_denials_for_the_configured_time() {
    for (fault, kind) in PASSING {
        for (during, longest) in
            [(Some(secs(0)), secs(0)), (Some(secs(60)), secs(65)), (None, HOUR)]
        {
            for check in [false, true] {
                let world = World::new();
                world.store.always(fault);
                let node = world.node("a").check_store(check).retry_denied(during);
                let (took, ended) = timed(within(HOUR, node.build().unwrap().campaign())).await;
                assert!(took <= longest, "{during:?}: {took:?}");
                match during {
                    Some(during) => {
                        assert!(took >= during, "{during:?}: {took:?}");
                        assert_eq!(ended.unwrap().unwrap_err().kind(), kind);
                    }
                    None => assert!(ended.is_none()),
                }
            }
        }
    }
}

/// A permanent denial of one kind of request ends the campaign, even if other requests of the same
/// poll succeed. For example, every LIST succeeds if only the permission to read is missing.
#[tokio::test(start_paused = true)]
async fn denials_end_a_campaign_even_if_other_requests_succeed() {
    for layout in LAYOUTS {
        for call in [Call::Get, Call::Create, Call::Replace] {
            if layout == Layout::SingleObject && call == Call::Create {
                continue;
            }
            let world = World::new();
            drop(elect(&world.node("a").layout(layout).build().unwrap()).await);
            wait(secs(1)).await;
            world.store.on(call).always().fault(Fault::Denied);
            let node = world.node("b").layout(layout).build().unwrap();
            let ended = within(secs(60), node.campaign()).await;
            let error = ended.expect("the campaign ends within a takeover and 10 s").unwrap_err();
            assert_eq!(error.kind(), ErrorKind::AccessDenied, "{layout:?} {call:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn single_attempts_do_not_retry_denials() {
    for (fault, kind) in PASSING {
        let world = World::new();
        world.store.always(fault);
        let election = world.node("a").check_store(true).retry_denied(None).build().unwrap();
        for _ in 0..3 {
            let (took, attempt) = timed(election.try_campaign()).await;
            assert_eq!((took, attempt.unwrap_err().kind()), (secs(0), kind));
            assert_eq!(election.depose(None).await.unwrap_err().kind(), kind);
            assert_eq!(election.snapshot().await.unwrap_err().kind(), kind);
        }
    }
}

/// The setting `retry_denied` affects only waiting calls, and not the duration of a lease.
#[tokio::test(start_paused = true)]
async fn retries_of_denials_do_not_change_the_end_of_a_lease() {
    for layout in LAYOUTS {
        let mut ends = Vec::new();
        for during in [Some(secs(0)), Some(secs(10)), None] {
            let world = World::new();
            let node = world.node("a").layout(layout).retry_denied(during).build().unwrap();
            let leader = elect(&node).await;
            world.store.always(Fault::Denied);
            let (took, loss) = timed(leader.lost()).await;
            assert!(matches!(loss, Loss::LeaseEnded { .. }), "{loss:?}");
            assert!(took <= VALIDITY, "{took:?}");
            ends.push(took);
        }
        assert!(ends.iter().all(|end| *end == ends[0]), "{layout:?}: {ends:?}");
    }
}

/// After the create of an epoch, a LIST confirms that no greater epoch exists. If the store denies
/// this LIST, the candidate tries again while the lease of its epoch is valid. After the end of the
/// lease, the candidate abandons the epoch.
#[tokio::test(start_paused = true)]
async fn a_denied_confirmation_blocks_no_candidate() {
    for denied in [secs(3), secs(30)] {
        let world = World::new();
        let service = world.node("a").retry_denied(None).build().unwrap();
        world.store.on(Call::List).skip(1).always().fault(Fault::Denied);
        let mut campaign = Box::pin(service.campaign());
        assert!(within(denied, &mut campaign).await.is_none());
        world.store.heal();
        let leader = within(TAKEOVER, campaign).await.expect("elected").unwrap();
        assert!(leader.remaining() >= VALIDITY / 3);
        let epoch = if denied < VALIDITY { 1 } else { 2 };
        assert_eq!(leader.epoch().get(), epoch);
    }
}

async fn told(
    seen: &mut (impl futures::Stream<Item = Result<Observation, tenure::Error>> + Unpin),
) -> Observation {
    within(secs(120), seen.next()).await.expect("an item within 120 s").expect("no end").unwrap()
}

#[tokio::test(start_paused = true)]
async fn regression_an_observer_survives_denials_and_reports_unknown() {
    for layout in LAYOUTS {
        // A proxy may answer with "not implemented". A client cannot distinguish this answer of a
        // proxy from the answer of an unfit store.
        let unfit = (Fault::Unsupported, ErrorKind::UnsafeStore);
        for (fault, kind) in PASSING.into_iter().chain([unfit]) {
            let world = World::new();
            let leader = elect(&world.node("a").layout(layout).build().unwrap()).await;
            let way = world.another_way();
            let node = world.node_behind(&way, &world.clock, "o").layout(layout);
            let observer: Election = node.retry_denied(None).build().unwrap();
            let mut events = observer.events();
            let mut seen = observer.observe();
            assert!(matches!(told(&mut seen).await, Observation::Leader(_)));
            way.always(fault);
            let (took, unknown) = timed(told(&mut seen)).await;
            assert_eq!(unknown, Observation::Unknown);
            assert!(took <= VALIDITY + secs(3), "{took:?}");
            assert!(within(HOUR, seen.next()).await.is_none());
            assert_eq!(observer.last_failure().map(|error| error.kind()), Some(kind));
            // An observer emits events for denials, but not for answers of an unfit store.
            assert!(fault == Fault::Unsupported || !ready(&mut events).await.is_empty());
            way.heal();
            let (took, leads) = timed(told(&mut seen)).await;
            assert!(matches!(leads, Observation::Leader(_)), "{leads:?}");
            assert!(took <= secs(6), "{took:?}");
            drop(leader);
        }
    }
}

/// A denied poll at the lapse does not prove that the leader has stopped renewing its lease.
#[tokio::test(start_paused = true)]
async fn a_denied_poll_at_the_lapse_is_not_an_observation() {
    let world = World::new();
    let leader = world.leader("a").await;
    let way = world.another_way();
    let node = world.node_behind(&way, &world.clock, "b").poll_interval(None).retry_denied(None);
    let standby = node.build().unwrap();
    let campaign = tokio::spawn(async move { standby.campaign().await });
    wait(millis(100)).await;
    way.always(Fault::Denied);
    wait(VALIDITY * 3).await;
    way.heal();
    wait(VALIDITY * 3).await;
    assert!(leader.check().is_ok() && !campaign.is_finished());
    campaign.abort();
}

/// A store that panics in each request, as an SDK does if the system cannot start a thread.
#[derive(Debug)]
struct Panicking(FaultStore, AtomicBool);

#[async_trait::async_trait]
impl Layer for Panicking {
    fn inner(&self) -> &dyn Store {
        &self.0
    }

    async fn before(&self, _: Call) {
        assert!(!self.1.load(Ordering::Relaxed), "OS can't spawn worker thread");
    }

    fn describe(&self) -> String {
        self.0.describe()
    }
}

#[tokio::test(start_paused = true)]
async fn regression_a_panicking_request_is_a_failed_request() {
    for layout in LAYOUTS {
        let world = World::new();
        let store = Arc::new(Layered(Panicking(world.another_way(), AtomicBool::new(false))));
        let election = |name, seed| {
            let election = Election::builder(store.clone(), "app").layout(layout).name(name);
            let process = process(&world.clock, seed);
            election.validity(VALIDITY).process(process).build().unwrap()
        };
        let panics = |panics| store.0.1.store(panics, Ordering::Relaxed);
        let (first, second) = (election("a", 7), election("b", 8));
        panics(true);
        let campaign = tokio::spawn(async move { first.campaign().await });
        wait(secs(30)).await;
        panics(false);
        let leader = within(secs(10), campaign).await.expect("in time").unwrap().unwrap();
        let mut seen = second.observe();
        let standby = tokio::spawn(async move { second.campaign().await });
        assert!(matches!(told(&mut seen).await, Observation::Leader(_)));
        panics(true);
        wait(secs(5)).await;
        panics(false);
        wait(VALIDITY).await;
        assert!(leader.check().is_ok(), "the lease outlasts one failed renewal");
        leader.resign().await.unwrap();
        let next =
            within(TAKEOVER, standby).await.expect("the campaign continues").unwrap().unwrap();
        assert_eq!(next.epoch().get(), 2);
        panics(true);
        assert!(matches!(next.lost().await, Loss::LeaseEnded { .. }));
    }
}

/// A proxy between a candidate and the store may answer 400 for a while. A candidate whose settings
/// have worked before must not treat this answer as a permanent error.
#[tokio::test(start_paused = true)]
async fn regression_settings_that_worked_are_not_rejected_later() {
    for layout in LAYOUTS {
        let world = World::new();
        let leader = elect(&world.node("a").layout(layout).build().unwrap()).await;
        let standby = world.node("b").layout(layout).retry_denied(None).build().unwrap();
        let campaign = tokio::spawn(async move { standby.campaign().await });
        wait(secs(2)).await;
        world.store.always(Fault::Invalid);
        assert!(matches!(leader.lost().await, Loss::LeaseEnded { .. }));
        let new = world.node("c").layout(layout).retry_denied(None).build().unwrap();
        let error = new.campaign().await.unwrap_err();
        assert_eq!(
            error.kind(),
            ErrorKind::InvalidInput,
            "settings that never worked are rejected"
        );
        world.store.heal();
        let next =
            within(TAKEOVER, campaign).await.expect("the campaign continues").unwrap().unwrap();
        assert_eq!(next.epoch().get(), 2);
    }
}
