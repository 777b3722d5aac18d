//! A node that follows Morling's blog post and a candidate of the library share one prefix. Neither
//! of them leads while the lock file of the other is valid.

use std::sync::Arc;
use std::time::Duration;

use futures::StreamExt as _;

use tenure::{Leadership, Loss};
use tenure_testkit::morling_lock::{Lock, MorlingNode};
use tenure_testkit::time::{millis, secs, timed, wait};
use tenure_testkit::world::{TAKEOVER, VALIDITY, World, elect, held};

fn morling(world: &World) -> MorlingNode {
    let store = Arc::clone(world.store.inner());
    MorlingNode { store, prefix: "app/", validity: VALIDITY, clock: Arc::new(world.clock.clone()) }
}

/// Tries to lock at the interval `every` until it succeeds, as Morling's post describes.
async fn lock(node: &MorlingNode, every: Duration) -> Lock {
    loop {
        if let Some(lock) = node.try_lock().await {
            return lock;
        }
        wait(every).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_valid_file_blocks_the_other_process() {
    let world = World::new();
    let node = morling(&world);
    let ours = world.node("ours").build().unwrap();
    let mut file = node.try_lock().await.expect("the election is vacant");
    let mut campaign = Box::pin(ours.campaign());
    // The node renews its lease by a touch: a write that changes only the date of the file, and not
    // its body or ETag.
    for _ in 0..20 {
        tokio::select! {
            _ = &mut campaign => panic!("elected while Morling's file was valid"),
            () = wait(secs(8)) => {}
        }
        assert!(node.touch(&mut file).await);
    }
    // The node dies. The lease of the node must have ended, by the clock of the node, before the
    // candidate leads.
    let (took, lead) = timed(campaign).await;
    let lead = lead.unwrap();
    assert!(!node.is_valid(&file), "two processes lead");
    assert!(took < TAKEOVER, "{took:?}");
    assert_eq!(lead.epoch().get(), file.epoch + 1);
    assert!(!node.touch(&mut file).await);
    for _ in 0..100 {
        assert!(node.try_lock().await.is_none(), "the candidate's file is valid");
        wait(millis(700)).await;
    }
    assert!(lead.check().is_ok());
}

#[tokio::test(start_paused = true)]
async fn nodes_and_candidates_detect_resignation_and_death() {
    let world = World::new();
    let node = morling(&world);
    let ours = world.node("ours").build().unwrap();
    let mut epoch = 0;
    for round in 0..12 {
        let lead = elect(&ours).await;
        assert_eq!(lead.epoch().get(), epoch + 1);
        assert!(node.try_lock().await.is_none());
        let dies = round % 2 == 0;
        leave(lead, dies).await;
        let (took, file) = timed(lock(&node, millis(500))).await;
        assert_eq!(file.epoch, epoch + 2);
        // After the death of the leader, the node must wait for the validity. After a resignation
        // of the leader, the node does not wait.
        let at_least = if dies { secs(9) } else { secs(0) };
        assert!(took >= at_least && took < at_least + secs(4), "{took:?}");
        assert_eq!(held(ours.try_campaign().await.unwrap()).epoch.get(), file.epoch);
        epoch = file.epoch;
        if round % 3 == 0 {
            node.release(file).await;
        }
    }
}

async fn leave(lead: Leadership, dies: bool) {
    if dies {
        drop(lead);
    } else {
        lead.resign().await.unwrap();
    }
}

/// The clock of a node is far ahead, so the node treats a live leader as dead and creates the next
/// epoch. The leader detects the greater epoch within a validity. Until this moment two processes
/// lead, and the first leader has the lower token.
#[tokio::test(start_paused = true)]
async fn a_node_with_a_fast_clock_supersedes_a_leader() {
    let world = World::new();
    let lead = world.leader("ours").await;
    wait(secs(1)).await;
    let clock = tenure_testkit::time::TestClock::new();
    clock.set_wall_by(3_600_000);
    let node = MorlingNode { clock: Arc::new(clock), ..morling(&world) };
    let file = node.try_lock().await.expect("the file is an hour old by the node's clock");
    assert!(file.epoch > lead.epoch().get());
    let (took, loss) = timed(lead.lost()).await;
    assert!(matches!(loss, Loss::Superseded { by } if by.get() == file.epoch), "{loss}");
    assert!(took <= VALIDITY + secs(2), "{took:?}");
}

/// The node is killed after one to four touches, at any time between two polls of the candidate.
#[tokio::test(start_paused = true)]
async fn candidates_wait_for_a_node_that_died() {
    for i in 0..40 {
        let world = World::new();
        let node = morling(&world);
        let ours = world.node("ours").build().unwrap();
        let mut file = node.try_lock().await.expect("the election is vacant");
        let campaign = tokio::spawn(async move { elect(&ours).await });
        for _ in 0..i % 4 {
            wait(secs(6)).await;
            node.touch(&mut file).await;
        }
        wait(millis(i * 233)).await;
        node.touch(&mut file).await;
        let lead = campaign.await.unwrap();
        assert!(!node.is_valid(&file), "{i}: two processes lead");
        assert!(lead.check().is_ok());
    }
}

/// The candidate follows epoch 1. A second node creates epoch 2, and does not seal epoch 1. Then
/// another call of the candidate's election reads epoch 2. Before the fix, the campaign's timer for
/// epoch 1 never ended after this read, and the candidate was not elected within an hour.
#[tokio::test(start_paused = true)]
async fn regression_a_read_of_the_leader_does_not_stop_a_campaign() {
    for asked in ["nothing", "leader", "observe"] {
        let world = World::new();
        let node = morling(&world);
        let ours = world.node("ours").build().unwrap();
        let mut first = node.try_lock().await.expect("the election is vacant");
        let campaign = {
            let ours = ours.clone();
            tokio::spawn(async move { elect(&ours).await })
        };
        wait(secs(1)).await;
        assert!(node.touch(&mut first).await);
        let clock = tenure_testkit::time::TestClock::new();
        clock.set_wall_by(3_600_000);
        let ahead = MorlingNode { clock: Arc::new(clock), ..morling(&world) };
        let second = ahead.try_lock().await.expect("the file is an hour old by the node's clock");
        let mut observation = Box::pin(ours.observe());
        match asked {
            "leader" => {
                let leader = ours.leader().await.unwrap().expect("the second epoch is held");
                assert_eq!(leader.epoch.get(), second.epoch);
            }
            "observe" => drop(observation.next().await.expect("a state").unwrap()),
            _ => {}
        }
        // Epochs 1 and 2 are unsealed. Both must lapse, one after the other, before the candidate
        // is elected.
        let (took, lead) = timed(campaign).await;
        assert_eq!(lead.unwrap().epoch().get(), second.epoch + 1, "{asked}");
        assert!(took < TAKEOVER * 2, "{asked}: {took:?}");
    }
}

/// A node renews its lease by a touch, which changes only the date of its file. If another call of
/// the same election reads the new date, the campaign must also restart its timer. Before the fix,
/// the campaign combined its own earlier read with the timer of the other call, and sealed the
/// epoch of a live node.
#[tokio::test(start_paused = true)]
async fn regression_a_campaign_uses_touches_that_another_call_has_read() {
    for late in (0..3_000).step_by(50) {
        let world = World::new();
        let node = morling(&world);
        let ours = world.node("ours").poll_interval(secs(8)).build().unwrap();
        let mut file = node.try_lock().await.expect("the election is vacant");
        let campaign = {
            let ours = ours.clone();
            tokio::spawn(async move { elect(&ours).await })
        };
        for _ in 0..6 {
            wait(millis(7_500 + late)).await;
            if !node.touch(&mut file).await {
                break;
            }
            ours.leader().await.unwrap();
        }
        let lead = campaign.await.unwrap();
        assert!(!node.is_valid(&file), "{late}: the peer's file was valid");
        drop(lead);
    }
}
