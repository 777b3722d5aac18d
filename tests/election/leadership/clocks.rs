//! Tests how a lease ends after a step of the wall clock, and after a suspension of the machine.

use super::*;

#[tokio::test(start_paused = true)]
async fn a_wall_clock_that_is_set_back_extends_no_lease() {
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    way.always(Fault::Hang);
    clock.set_wall_by(-3_600_000);
    let (took, _) = timed(lead.lost()).await;
    assert!(took <= VALIDITY, "{took:?}");
}

/// Before the fix, if a step of the wall clock ended a lease, the reported reason was "the process
/// did not run for 13.0s".
#[tokio::test(start_paused = true)]
async fn regression_a_forward_step_of_the_wall_clock_is_the_reported_reason() {
    let world = World::new();
    let (lead, _, clock) = leader_behind(&world).await;
    wait(secs(2)).await;
    clock.set_wall_by(13_000);
    let Loss::WallClockAhead { by } = lead.check().unwrap_err() else { panic!("another reason") };
    assert_eq!(by, secs(13));
    // The loss and its reason do not change when the clock is set back.
    clock.set_wall_by(-13_000);
    let loss = lead.lost().await;
    assert!(matches!(loss, Loss::WallClockAhead { by } if by == secs(13)), "{loss}");
    assert!(loss.to_string().contains("wall clock moved 13.0s ahead"), "{loss}");
}

/// A small step shortens the lease only until the next renewal.
#[tokio::test(start_paused = true)]
async fn small_steps_of_the_wall_clock_lose_no_lease() {
    let world = World::new();
    let (lead, _, clock) = leader_behind(&world).await;
    for _ in 0..20 {
        wait(secs(4)).await;
        clock.set_wall_by(5_000);
        assert!(lead.check().is_ok());
    }
}

#[tokio::test(start_paused = true)]
async fn a_machine_that_is_never_paused_ignores_its_wall_clock() {
    let world = World::new();
    let election = world.node("a").machine_is_never_paused(true).build().unwrap();
    let lead = elect(&election).await;
    world.clock.set_wall_by(3_600_000);
    assert!(lead.check().is_ok());
    wait(secs(60)).await;
    assert!(lead.check().is_ok(), "the lease is valid");
    assert_eq!(lead.ends_at().wall, Duration::MAX, "the wall clock never ends the lease");
    world.clock.suspend(VALIDITY);
    assert!(matches!(lead.check().unwrap_err(), Loss::Suspended { .. }));
}

/// After a suspension of 3.1 s, every renewal in the rest of the lease fails. Before the fix, the
/// reported reason was only "the process did not run for 3.1s", without the error of the store.
#[tokio::test(start_paused = true)]
async fn regression_a_failing_store_after_a_suspension_is_the_reported_reason() {
    for (fault, words) in [(Fault::FailBefore, "503"), (Fault::Hang, "no answer within 2s")] {
        let world = World::new();
        let (lead, way, clock) = leader_behind(&world).await;
        clock.suspend(millis(3_100));
        way.always(fault);
        let loss = lead.lost().await;
        let Loss::LeaseEnded { last_error: Some(error) } = &loss else { panic!("{loss}") };
        assert!(error.to_string().contains(words), "{fault:?}: {error}");
    }
    // If a renewal failed before a long suspension, the reported reason is the suspension, and not
    // the failed renewal.
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    way.on(Call::Replace).fault(Fault::FailBefore);
    wait(millis(3_400)).await;
    clock.suspend(secs(40));
    let loss = lead.lost().await;
    assert!(matches!(loss, Loss::Suspended { gap } if gap >= secs(40)), "{loss}");
    // If the suspension leaves no time for a request, the reported reason is the suspension.
    let world = World::new();
    let (lead, way, clock) = leader_behind(&world).await;
    way.always(Fault::Hang);
    clock.suspend(VALIDITY - millis(500));
    let loss = lead.lost().await;
    assert!(matches!(loss, Loss::Suspended { gap } if gap >= secs(9)), "{loss}");
}

/// The driver checks a lease of 2 s five times a second, so the driver detects a suspension of 0.75
/// s.
#[tokio::test(start_paused = true)]
async fn short_leases_are_checked_more_often() {
    let world = World::new();
    let (way, clock) = (world.another_way(), TestClock::new());
    let node = world.node_behind(&way, &clock, "a").validity(secs(2));
    let lead = elect(&node.build().unwrap()).await;
    way.always(Fault::Hang);
    wait(millis(1_050)).await;
    clock.suspend(millis(750));
    let loss = lead.lost().await;
    assert!(matches!(loss, Loss::Suspended { gap } if gap >= millis(750)), "{loss}");
}

/// After a suspension, the application checks the lease before the driver runs. The reported reason
/// must still be the suspension.
#[tokio::test(start_paused = true)]
async fn regression_a_suspension_found_by_a_check_is_the_reported_reason() {
    let world = World::new();
    let (lead, _, clock) = leader_behind(&world).await;
    wait(secs(2)).await;
    clock.suspend(secs(40));
    let loss = lead.check().unwrap_err();
    assert!(matches!(loss, Loss::Suspended { gap } if gap >= secs(40)), "{loss}");
}

#[tokio::test(start_paused = true)]
async fn a_lease_survives_a_short_suspension() {
    let world = World::new();
    let (lead, _, clock) = leader_behind(&world).await;
    for _ in 0..10 {
        wait(secs(3)).await;
        clock.suspend(secs(5));
        wait(secs(1)).await;
        assert!(lead.check().is_ok());
    }
}
