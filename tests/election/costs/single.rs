//! The costs of an election on a single object.

use super::*;
use tenure::Layout;

const LOCK: &str = "app/lock.json";

impl World {
    fn single(&self, seed: u64, script: &[Want]) -> Election {
        self.builder(seed, script).layout(Layout::SingleObject).build().unwrap()
    }

    async fn single_leader(&self) -> Leadership {
        let builder = Election::builder(Arc::new(self.memory.clone()), "app");
        let builder = builder.validity(secs(10)).check_store(false).layout(Layout::SingleObject);
        builder.process(self.process(99)).build().unwrap().campaign().await.unwrap()
    }
}

#[tokio::test(start_paused = true)]
async fn a_first_campaign_without_an_object() {
    let world = World::new();
    let election = world.single(1, &[Get(LOCK), Create(LOCK)]);
    end(election.campaign().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_campaign_on_a_released_object() {
    let world = World::new();
    world.single_leader().await.resign().await.unwrap();
    let script = [Get(LOCK), Replace(LOCK), Replace(LOCK), Get(LOCK), Replace(LOCK)];
    let election = world.single(1, &script);
    election.campaign().await.unwrap().resign().await.unwrap();
    let leadership = election.campaign().await.unwrap();
    assert_eq!(leadership.epoch().get(), 3);
    end(leadership).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_polls_and_sees_a_release() {
    let world = World::new();
    let leader = world.single_leader().await;
    let script = [Get(LOCK), Poll(LOCK), Poll(LOCK), Poll(LOCK), Poll(LOCK), Replace(LOCK)];
    let election = world.single(1, &script);
    let follow = tokio::spawn(async move { election.campaign().await });
    wait(secs(10)).await;
    leader.resign().await.unwrap();
    end(follow.await.unwrap().unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn a_follower_after_a_lapse_on_a_single_object() {
    let world = World::new();
    end(world.single_leader().await).await;
    let script = [Get(LOCK), Poll(LOCK), Poll(LOCK), Poll(LOCK), Replace(LOCK)];
    end(world.single(1, &script).campaign().await.unwrap()).await;
}

#[tokio::test(start_paused = true)]
async fn renewals_and_a_resignation_without_a_search() {
    let world = World::new();
    let script = [
        Get(LOCK),
        Create(LOCK),
        Replace(LOCK),
        Replace(LOCK),
        // With epoch files, the leader would search for a greater epoch after ten seconds. With a
        // single object, no search is necessary.
        Replace(LOCK),
        Replace(LOCK),
        // One write for the proclamation, and one write for the resignation.
        Replace(LOCK),
        Replace(LOCK),
    ];
    let leader = world.single(1, &script).campaign().await.unwrap();
    wait(secs(14)).await;
    leader.proclaim("here").await.unwrap();
    leader.resign().await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn a_single_attempt_and_a_snapshot_cost_one_read_each() {
    let world = World::new();
    let leader = world.single_leader().await;
    let election = world.single(1, &[Get(LOCK), Get(LOCK), Get(LOCK)]);
    for _ in 0..2 {
        assert!(matches!(election.try_campaign().await.unwrap(), CampaignOutcome::Held(_)));
    }
    assert_eq!(election.leader().await.unwrap().unwrap().epoch, leader.epoch());
}
