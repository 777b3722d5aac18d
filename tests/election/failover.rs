//! Tests that a failover takes the time that `docs/explanation/cost.md` gives.

use std::time::Duration;

use tenure_testkit::time::{secs, timed, wait};
use tenure_testkit::world::{World, elect};

/// The test stops leaders at different moments between two renewals. The followers have different
/// seeds.
#[tokio::test(start_paused = true)]
async fn a_failover_takes_the_documented_worst_and_average_time() {
    let validity = 30.0;
    let (worst, mean) = (validity * (1.01 + 1.0 / 6.0), validity * (1.01 - 1.0 / 12.0));
    let mut took = Vec::new();
    for dies in 0..50_u32 {
        let world = World::new();
        let node = |name| world.node(name).validity(secs(30)).build();
        let leads = elect(&node("a").expect("it fits")).await;
        let follower = node("b").expect("it fits");
        // This wait differs from round to round. So the time between a renewal of the leader and
        // the next poll of the follower also differs.
        wait(Duration::from_millis(700) * (dies % 7)).await;
        let follows = tokio::spawn(async move { elect(&follower).await });
        wait(secs(30) + Duration::from_millis(200) * dies).await;
        drop(leads);
        let (gap, next) = timed(follows).await;
        assert_eq!(next.expect("no panic").epoch().get(), 2);
        took.push(gap.as_secs_f64());
    }
    let longest = took.iter().copied().fold(0.0, f64::max);
    let average = took.iter().sum::<f64>() / took.len() as f64;
    assert!(longest <= worst + 0.1, "{longest} s");
    assert!((average - mean).abs() < validity / 20.0, "{average} s");
}
