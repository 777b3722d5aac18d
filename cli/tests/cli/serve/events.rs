//! Tests of the event streams of elections, `GET /v1/elections/NAME/events`.

use super::client::{Events, sidecar};
use super::leader_and_follower;
use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

const EVENTS: &str = "/v1/elections/orders/events";

#[test]
fn a_stream_begins_with_the_state_and_reports_each_change() {
    let scene = Scene::new(TENURE);
    let (a, b) = leader_and_follower(&scene, &["--poll", "100ms"]);
    let (at_a, at_b) = (a.events(EVENTS), b.events(EVENTS));
    let (first, elected) = at_a.wait_for("elected", 0);
    assert_eq!((first, &elected["epoch"]), (0, &1.into()), "{elected}");
    assert!(elected["lease_remaining_ms"].is_u64() && elected["this_candidate_leads"] == true);
    let (first, leader) = at_b.wait_for("leader_changed", 0);
    assert_eq!((first, &leader["leader"]), (0, &"a".into()), "{leader}");
    assert_eq!(a.json("PUT", "/v1/elections/orders/data", "7").0, 200);
    let (_, leader) = at_b.wait_for("leader_changed", 1);
    assert_eq!(leader["data"], 7, "{leader}");
    assert_eq!(a.json("POST", "/v1/elections/orders/resign", r#"{"pause_ms":600000}"#).0, 200);
    let (at, lost) = at_a.wait_for("lost", 0);
    assert_eq!((&lost["lost"]["epoch"], &lost["lost"]["reason"]), (&1.into(), &"resigned".into()));
    assert_eq!((&lost["this_candidate_leads"], &lost["leader"]), (&false.into(), &().into()));
    let (_, elected) = at_b.wait_for("elected", 0);
    assert_eq!(elected["epoch"], 2, "{elected}");
    eventually("a hears of b", || {
        at_a.all()[at..]
            .iter()
            .any(|(name, view)| name == "leader_changed" && view["leader"] == "b")
    });
    assert!(at_a.text().contains("content-type: text/event-stream"), "{}", at_a.text());
    assert!(!at_b.names().contains(&"lost".to_owned()), "b has lost nothing: {:?}", at_b.names());
}

/// Before the fix, while an application had 64 open streams, the sidecar refused all its other
/// requests.
#[test]
fn regression_unread_streams_do_not_block_other_requests() {
    let scene = Scene::new(TENURE);
    let a = sidecar(&scene, "a", &[]);
    a.leads();
    let open = |_| {
        let stream = a.events(EVENTS);
        eventually("the stream begins", || stream.names().contains(&"elected".to_owned()));
        stream
    };
    let mut streams: Vec<Events> = (0..64).map(open).collect();
    // While 64 streams are open, the sidecar answers other requests, and closes no stream.
    for _ in 0..40 {
        assert_eq!(a.get("/v1/elections/orders/token").0, 200);
    }
    assert!(!streams.iter().any(Events::has_ended));
    streams.push(open(64));
    eventually("the oldest stream ends", || streams[0].has_ended());
    assert!(!streams[1..].iter().any(Events::has_ended));
    assert!(a.process.said().contains("64 streams are open"), "{}", a.process.said());
}
