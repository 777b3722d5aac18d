//! Tests restores of an unreadable single object. The object does not show the token or the
//! validity of the holder, so the operator must know both.

use std::time::Duration;

use tenure::{Layout, Restored};

use super::scene::{Scene, epoch};
use tenure_testkit::fault_store::Call;
use tenure_testkit::time::millis;
use tenure_testkit::world::{VALIDITY, elect};

/// Before the fix, the restore overwrote an unreadable object, and did not wait for the lease of
/// its live leader.
#[tokio::test(start_paused = true)]
async fn regression_a_restore_waits_for_the_holder_of_an_unreadable_object() {
    let too_long = " ".repeat(65 * 1024);
    for body in ["no lock", r#"{"expires_at":1740151473.2}"#, &too_long] {
        let scene = Scene::new(Layout::SingleObject);
        let a = scene.cut_off_leader(Duration::ZERO).await;
        scene.put(1, body).await;
        scene.store.take_calls();
        let ann = scene.election("ann");
        assert_eq!(ann.restore(epoch(41), Duration::ZERO).await.unwrap(), Restored::NeedsWait);
        assert_eq!(scene.store.take_calls(), [Call::Get], "no write was sent");
        let now = ann.restore(epoch(41), VALIDITY).await.unwrap();
        assert!(matches!(now, Restored::Sealed { wait, .. } if wait >= VALIDITY), "{now:?}");
        let b = elect(&scene.election("b")).await;
        assert_eq!(b.epoch(), epoch(42));
        assert!(a.check().is_err(), "two processes lead");
    }
}

/// If the operator knows that the holder is dead, a wait of 1 ms is sufficient.
#[tokio::test(start_paused = true)]
async fn a_short_wait_is_enough_after_the_death_of_the_holder() {
    let scene = Scene::new(Layout::SingleObject);
    scene.put(1, "no lock").await;
    let now = scene.election("ann").restore(epoch(41), millis(1)).await.unwrap();
    assert!(matches!(now, Restored::Sealed { wait, .. } if wait < millis(3)), "{now:?}");
    assert_eq!(elect(&scene.election("b")).await.epoch(), epoch(42));
}
