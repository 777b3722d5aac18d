//! Elections on an inconsistent store. The store lists an epoch, or refuses its creation, but does
//! not return the object of this epoch in a read.

use tenure::{CampaignEvent, ErrorKind, Observation};
use tenure_testkit::fault_store::{Call, Fault};
use tenure_testkit::time::{secs, timed, within};
use tenure_testkit::world::{World, elect, ready};

use futures::StreamExt as _;

const WORDS: [&str; 3] = ["lists this epoch and does not find it", "epoch 1", "tenure restore"];

async fn resigned() -> World {
    let world = World::new();
    world.leader("a").await.resign().await.unwrap();
    world.store.on(Call::Get).key("lock-").always().fault(Fault::Hidden);
    world
}

#[tokio::test(start_paused = true)]
async fn regression_a_single_attempt_on_a_hidden_epoch_ends_with_a_reason() {
    let world = resigned().await;
    let election = world.node("b").build().unwrap();
    let error = within(secs(60), election.snapshot()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    for word in WORDS {
        assert!(error.to_string().contains(word), "{error}");
    }
    let calls = world.store.take_calls().len();
    assert!(calls < 20, "{calls} requests");
    let error =
        within(secs(60), election.try_campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
}

#[tokio::test(start_paused = true)]
async fn regression_a_campaign_reports_a_hidden_epoch_and_continues() {
    let world = resigned().await;
    let election = world.node("b").build().unwrap();
    let mut events = Box::pin(election.events());
    world.store.take_calls();
    assert!(within(secs(300), election.campaign()).await.is_none(), "no candidate is elected");
    let calls = world.store.take_calls().len();
    assert!(calls < 600, "{calls} requests in five minutes with polls every 1.7 s");
    let told = ready(&mut events).await.into_iter().any(|event| match event {
        CampaignEvent::StoreFailed(error) => error.to_string().contains(WORDS[0]),
        _ => false,
    });
    assert!(told, "the reason is reported");
    world.store.heal();
    assert_eq!(elect(&election).await.epoch().get(), 2);
}

#[tokio::test(start_paused = true)]
async fn regression_an_observer_of_a_hidden_epoch_reports_unknown() {
    let world = resigned().await;
    let mut seen = world.node("o").build().unwrap().observe();
    let (took, told) = timed(within(secs(60), seen.next())).await;
    assert_eq!(told.expect("in time").expect("an item").unwrap(), Observation::Unknown);
    assert!(took < secs(14), "{took:?}");
    world.store.heal();
    let told = within(secs(10), seen.next()).await.expect("in time");
    assert_eq!(told.expect("an item").unwrap(), Observation::NoLeader);
}

/// The store refuses to create the object of an epoch, but its listings and reads do not show this
/// object.
#[tokio::test(start_paused = true)]
async fn a_refused_epoch_that_is_never_listed_is_reported() {
    let world = World::new();
    world.store.on(Call::Create).key("lock-").always().fault(Fault::Refuse);
    let election = world.node("b").build().unwrap();
    let error =
        within(secs(60), election.try_campaign()).await.expect("the call ends").unwrap_err();
    assert_eq!(error.kind(), ErrorKind::Unavailable);
    assert!(error.to_string().contains(WORDS[0]), "{error}");
}

/// The candidate does not report an inconsistency that ends within three polls.
#[tokio::test(start_paused = true)]
async fn an_epoch_that_is_found_at_the_third_poll_is_not_reported() {
    let world = World::new();
    world.leader("a").await.resign().await.unwrap();
    world.store.on(Call::Get).key("lock-").times(2).fault(Fault::Hidden);
    let election = world.node("b").build().unwrap();
    let mut events = Box::pin(election.events());
    assert_eq!(elect(&election).await.epoch().get(), 2);
    let failed = |event: &CampaignEvent| matches!(event, CampaignEvent::StoreFailed(_));
    assert!(!ready(&mut events).await.iter().any(failed));
}
