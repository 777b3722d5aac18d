//! Tests of the assumed clock drift, and of waits that must end on each clock of a process.

use tenure::ElectionBuilder;

use super::*;

#[tokio::test(start_paused = true)]
async fn the_drift_lengthens_the_wait_of_an_observer() {
    let world = World::new();
    for (drift, least) in [(0.0, secs(10)), (0.2, secs(12)), (0.5, secs(15))] {
        let other = world.node("a").build().unwrap();
        drop(elect(&other).await);
        let election = world.node("b").clock_drift_max(drift).build().unwrap();
        let (took, lead) = timed(elect(&election)).await;
        assert!(took >= least && took < least + secs(2), "{drift}: {took:?}");
        lead.resign().await.unwrap();
    }
}

/// A clock daemon slews the boot clocks of a follower and a leader. For example, chrony slews a
/// clock by up to 83,333 ppm. Before the fix, leases and timers used only the boot clock, and two
/// leaders overlapped in 46 of 60 elections.
#[tokio::test(start_paused = true)]
async fn regression_two_leaders_never_overlap_with_slewed_clocks() {
    const CHRONY: i32 = 83_333;
    for seed in 0..60 {
        let world = World::new();
        let way = world.another_way();
        let (ours, theirs) = match seed % 3 {
            0 => (0, CHRONY),
            1 => (-CHRONY, CHRONY),
            _ => (-CHRONY, 0),
        };
        let leader = world.node_behind(&way, &TestClock::slewed(ours), "a");
        let lead = elect(&leader.validity(secs(30)).build().unwrap()).await;
        let follower = world.node_on(&TestClock::slewed(theirs), "b");
        let election = follower.validity(secs(30)).poll_interval(millis(500)).build().unwrap();
        let follow = tokio::spawn(async move { elect(&election).await });
        wait(millis(12_000 + seed * 137)).await;
        assert!(lead.check().is_ok());
        way.on(Call::Replace).always().fault(Fault::Hang);
        let next = follow.await.unwrap();
        assert_eq!(next.epoch().get(), 2);
        assert!(lead.check().is_err(), "seed {seed}: two processes lead");
    }
}

/// A follower with the longest poll interval waits for nearly the whole lease by its slewed boot
/// clock. Before its next step, the follower must wait until the lease has also ended by its other
/// clocks.
#[tokio::test(start_paused = true)]
async fn a_follower_waits_for_all_clocks_if_one_is_slewed() {
    const VALIDITY: Duration = Duration::from_secs(30);
    for seed in 0..40 {
        for deposed in [false, true] {
            let world = World::new();
            let way = world.another_way();
            let leader = world.node_behind(&way, &TestClock::new(), "a").validity(VALIDITY);
            let lead = elect(&leader.build().unwrap()).await;
            let follower = world.node_on(&TestClock::slewed(83_333), "b").validity(VALIDITY);
            let election = follower.poll_interval(VALIDITY).build().unwrap();
            let follow = tokio::spawn(async move { elect(&election).await });
            wait(millis(12_000 + seed * 437)).await;
            // The leader is cut off from the store, so it believes until the end of its lease that
            // it leads.
            way.always(Fault::Hang);
            if deposed {
                let operator = world.node("operator").build().unwrap();
                operator.depose(None).await.unwrap();
            }
            assert_eq!(follow.await.unwrap().epoch().get(), 2);
            assert!(lead.check().is_err(), "seed {seed}, deposed {deposed}: two processes lead");
        }
    }
}

/// A wait ends only after its duration has passed on every clock of the machine. With
/// `Layout::SingleObject`, the takeover delay begins at the lapse.
#[tokio::test(start_paused = true)]
async fn a_lapse_and_a_takeover_delay_last_their_time_on_all_clocks() {
    const CHRONY: i32 = 83_333;
    for (layout, slewed, delay) in [
        (Layout::EpochFiles, CHRONY, 100),
        (Layout::EpochFiles, -CHRONY, 100),
        (Layout::EpochFiles, -CHRONY, 0),
        (Layout::SingleObject, CHRONY, 100),
        (Layout::SingleObject, -CHRONY, 100),
        (Layout::SingleObject, -CHRONY, 0),
    ] {
        let least = (VALIDITY + secs(delay)).div_f64(1.0 + f64::from(slewed.min(0)) / 1e6);
        for seed in 0..8 {
            let world = World::new();
            let build = |builder: ElectionBuilder| builder.layout(layout).build().unwrap();
            drop(elect(&build(world.node("a"))).await);
            let follower = process(&TestClock::slewed(slewed), 100 + seed);
            let follower = world.node("b").process(follower).poll_interval(VALIDITY);
            let (took, _) = timed(elect(&build(follower.takeover_delay(secs(delay))))).await;
            assert!(took >= least, "{layout:?}, {slewed} ppm, seed {seed}: {took:?} of {least:?}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn renewals_polls_and_leases_keep_their_intervals() {
    let world = World::new();
    let election = world.node("a").validity(secs(20)).renew_interval(secs(2)).build().unwrap();
    let lead = elect(&election).await;
    assert_eq!(lead.remaining(), secs(20));
    let follower = world.node("b").poll_interval(millis(500)).build().unwrap();
    let task = tokio::spawn(async move { follower.campaign().await });
    wait(millis(100)).await;
    world.store.take_log();
    wait(secs(20)).await;
    let calls = world.store.take_calls();
    let count = |wanted| calls.iter().filter(|call| **call == wanted).count();
    assert!((9..=10).contains(&count(Call::Replace)), "{calls:?}");
    // The GETs are 40 polls and a search for the next epoch.
    assert!((40..=42).contains(&count(Call::Get)), "{calls:?}");
    task.abort();
}
