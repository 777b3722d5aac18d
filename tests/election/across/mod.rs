//! Elections across stores, in paused time.

mod costs;
mod failures;
mod regressions;
pub mod scene;

use tenure::{CampaignOutcome, HoldState, Loss, Observation};
use tenure_testkit::time::{secs, timed, wait};

use futures::StreamExt as _;
use scene::Scene;

#[tokio::test(start_paused = true)]
async fn a_candidate_is_elected_at_all_stores_and_resigns() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    assert_eq!(leadership.check().unwrap().get(), 1);
    wait(secs(1)).await;
    let holds = leadership.stores();
    assert_eq!(holds.len(), 3);
    assert!(holds.iter().all(|it| it.state == HoldState::Held), "{holds:?}");
    leadership.resign().await.unwrap();
    let ended = scene.ended(1).await;
    assert!(ended.iter().filter(|it| it.as_deref() == Some("resigned")).count() >= 2, "{ended:?}");
    let (took, next) = timed(scene.node(2).campaign()).await;
    assert_eq!(next.unwrap().epoch().get(), 2);
    assert!(took < secs(1), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_follower_takes_over_after_a_crash() {
    let scene = Scene::new(5).await;
    let first = scene.node(1).campaign().await.unwrap();
    let lease = first.lease();
    drop(first);
    let (took, second) = timed(scene.node(2).campaign()).await;
    assert_eq!(second.unwrap().epoch().get(), 2);
    assert!(took > secs(30) && took < secs(40), "{took:?}");
    assert!(lease.check().is_err());
}

#[tokio::test(start_paused = true)]
async fn a_leader_keeps_its_lease_while_a_minority_is_down() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    wait(secs(5)).await;
    scene.down(2);
    wait(secs(300)).await;
    assert!(leadership.check().is_ok());
    assert_eq!(leadership.stores()[2].state, HoldState::Down);
    scene.up(2);
    wait(secs(60)).await;
    assert_eq!(leadership.stores()[2].state, HoldState::Held);
    scene.down(0);
    scene.down(1);
    let (took, loss) = timed(leadership.lost()).await;
    assert!(matches!(loss, Loss::LeaseEnded { last_error: Some(_) }), "{loss:?}");
    assert!(took > secs(19) && took <= secs(30), "{took:?}");
}

#[tokio::test(start_paused = true)]
async fn a_candidate_is_elected_while_a_minority_is_down() {
    let scene = Scene::new(3).await;
    scene.down(0);
    let (took, leadership) = timed(scene.node(1).campaign()).await;
    let leadership = leadership.unwrap();
    assert!(took < secs(10), "{took:?}");
    assert_eq!(leadership.stores()[0].state, HoldState::Down);
    scene.up(0);
    wait(secs(60)).await;
    assert_eq!(leadership.stores()[0].state, HoldState::Held, "it joins the store");
}

#[tokio::test(start_paused = true)]
async fn try_campaign_names_the_leader_and_later_takes_over() {
    let scene = Scene::new(3).await;
    let first = scene.node(1).campaign().await.unwrap();
    let other = scene.node(2);
    let CampaignOutcome::Held(leader) = other.try_campaign().await.unwrap() else {
        panic!("another leads")
    };
    assert_eq!(leader.name(), "node-1");
    drop(first);
    wait(secs(31)).await;
    let outcome = other.try_campaign().await.unwrap();
    assert!(matches!(outcome, CampaignOutcome::Elected(_)), "{outcome:?}");
}

#[tokio::test(start_paused = true)]
async fn data_reaches_a_majority_and_observers() {
    let scene = Scene::new(3).await;
    let observer = scene.node(9);
    let mut observations = observer.observe();
    assert_eq!(observations.next().await.unwrap().unwrap(), Observation::NoLeader);
    let leadership = scene.node(1).campaign().await.unwrap();
    let Observation::Leader(leader) = observations.next().await.unwrap().unwrap() else {
        panic!("there is a leader")
    };
    assert_eq!(leader.name(), "node-1");
    scene.down(1);
    let (took, done) = timed(leadership.proclaim("here")).await;
    done.unwrap();
    assert!(took < secs(1), "{took:?}");
    let Observation::Leader(leader) = observations.next().await.unwrap().unwrap() else {
        panic!("the leader stays")
    };
    assert_eq!(leader.data, "here");
    assert_eq!(observer.leader().await.unwrap().unwrap().data, "here");
    leadership.resign().await.unwrap();
    assert_eq!(observations.next().await.unwrap().unwrap(), Observation::NoLeader);
    assert!(observer.leader().await.unwrap().is_none());
    assert_eq!(observer.newest_epoch().await.unwrap().unwrap().get(), 1);
}

#[tokio::test(start_paused = true)]
async fn a_named_successor_has_precedence() {
    let scene = Scene::new(3).await;
    let leadership = scene.node(1).campaign().await.unwrap();
    let [two, three] = [2, 3].map(|number| scene.node(number));
    let winner = async {
        tokio::select! {
            it = two.campaign() => it.unwrap().candidate().to_owned(),
            it = three.campaign() => it.unwrap().candidate().to_owned(),
        }
    };
    let resigns = async {
        wait(secs(10)).await;
        leadership.resign_to("node-3").await.unwrap();
    };
    let (winner, ()) = tokio::join!(winner, resigns);
    assert_eq!(winner, "node-3");
}
