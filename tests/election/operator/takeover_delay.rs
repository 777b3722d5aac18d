//! Tests of `ElectionBuilder::takeover_delay` after calls of an operator.

use std::time::Duration;

use tenure::{CampaignOutcome, Clock as _, Deposed, Election, Leadership, Restored};

use super::scene::{LAYOUTS, Scene, epoch};
use tenure_testkit::fault_store::Fault;
use tenure_testkit::time::{millis, secs, timed, wait};
use tenure_testkit::world::{VALIDITY, elect};

const DELAY: Duration = Duration::from_secs(8);
/// Tolerance for the time that a successor waits. The tolerance covers the clock drift and the poll
/// interval.
const SLACK: Duration = Duration::from_secs(2);

/// Repeats single attempts until one succeeds, as an application may do.
async fn campaign_by_single_attempts(election: &Election) -> Leadership {
    loop {
        match election.try_campaign().await.unwrap() {
            CampaignOutcome::Elected(leadership) => return leadership,
            _ => wait(millis(100)).await,
        }
    }
}

/// Before the fix, the successor led a quarter of a second after the end of the old lease, although
/// the takeover delay was 8 s.
#[tokio::test(start_paused = true)]
async fn regression_the_takeover_delay_starts_at_the_end_of_a_deposed_lease() {
    for layout in LAYOUTS {
        for tries in [false, true] {
            let scene = Scene::new(layout);
            let way = scene.another_way();
            let lead = elect(&scene.behind(&way, "a").build().unwrap()).await;
            let next = scene.node("b").takeover_delay(DELAY).build().unwrap();
            let campaign = tokio::spawn(async move {
                if tries { campaign_by_single_attempts(&next).await } else { elect(&next).await }
            });
            wait(secs(1)).await;
            // The leader is cut off from the store, so it believes until the end of its lease that
            // it leads.
            way.always(Fault::Hang);
            let end = lead.ends_at().boot;
            let deposed = scene.election("ann").depose(None).await.unwrap();
            assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
            assert_eq!(campaign.await.unwrap().epoch(), epoch(2));
            let waited = scene.clock.now().boot - end;
            assert!(waited >= DELAY && waited < DELAY + SLACK, "{layout:?}, {tries}: {waited:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn the_takeover_delay_starts_at_the_first_read_of_a_seal_that_needs_no_wait() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let _lead = scene.leader("a").await;
        scene.election("ann").depose_dead(None).await.unwrap();
        let next = scene.node("b").takeover_delay(DELAY).build().unwrap();
        let (took, lead) = timed(elect(&next)).await;
        assert_eq!(lead.epoch(), epoch(2));
        assert!(took >= DELAY && took < DELAY + SLACK, "{layout:?}: {took:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn regression_the_takeover_delay_starts_at_the_end_of_a_restores_wait() {
    for layout in LAYOUTS {
        let scene = Scene::new(layout);
        let restored = scene.election("ann").restore(epoch(41), VALIDITY).await.unwrap();
        assert!(matches!(restored, Restored::Sealed { .. }), "{restored:?}");
        let next = scene.node("b").takeover_delay(DELAY).build().unwrap();
        let (took, lead) = timed(elect(&next)).await;
        assert_eq!(lead.epoch(), epoch(42));
        let all = VALIDITY + DELAY;
        assert!(took >= all && took < all + SLACK, "{layout:?}: {took:?}");
    }
}
