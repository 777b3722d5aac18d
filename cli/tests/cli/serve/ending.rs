//! Tests the end of a sidecar after a signal.

use nix::sys::signal::Signal;

use super::client::sidecar;
use crate::TENURE;
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

const RESIGN: &str = "/v1/elections/orders/resign";
const DATA: &str = "/v1/elections/orders/data";

/// After a signal, the sidecar keeps the lease while the application ends its work. So no other
/// process leads during this time.
#[test]
fn the_application_learns_of_the_end_and_has_a_grace() {
    let scene = Scene::new(TENURE);
    let mut a = sidecar(&scene, "a", &["--grace", "600s"]);
    a.leads();
    let events = a.events("/v1/elections/orders/events");
    events.wait_for("elected", 0);
    a.process.signal(Signal::SIGTERM);
    let (_, lost) = events.wait_for("lost", 0);
    assert_eq!(lost["lost"]["reason"], "ending", "{lost}");
    assert_eq!(a.get("/v1/elections/orders/token").0, 503);
    let seen = a.view();
    assert_eq!([&seen["role"], &seen["state"]], ["ending", "held"], "{seen}");
    assert!(seen["leader"].is_null(), "{seen}");
    assert_eq!(scene.status()["state"], "held", "others wait");
    // With this request, the application reports that it has ended its work as the leader.
    let (status, said) = a.json("POST", RESIGN, "");
    assert_eq!((status, &said["sealed"]), (200, &true.into()), "{said}");
    assert_eq!(a.process.code(), 0);
    assert_eq!(scene.status()["ended"], "resigned");
    eventually("the stream ends", || events.has_ended());
}

/// Before the fix, SIGHUP killed the sidecar, so the lease lapsed without a resignation.
#[test]
fn regression_sighup_ends_the_sidecar_as_sigterm_does() {
    let scene = Scene::new(TENURE);
    let mut a = sidecar(&scene, "a", &["--grace", "0s"]);
    a.leads();
    a.process.signal(Signal::SIGHUP);
    assert_eq!(a.process.code(), 0);
    assert_eq!(scene.status()["ended"], "resigned");
}

#[test]
fn a_second_signal_ends_the_sidecar_immediately() {
    let scene = Scene::new(TENURE);
    let mut a = sidecar(&scene, "a", &["--grace", "600s"]);
    a.leads();
    a.process.signal(Signal::SIGTERM);
    eventually("the call ends", || a.view()["role"] == "ending");
    a.process.signal(Signal::SIGTERM);
    assert_eq!(a.process.code(), 143);
    assert_eq!(scene.status()["state"], "held", "the epoch is not sealed");
}

/// After a signal, the sidecar has resigned in one of two elections, and the grace of the other
/// continues. Before the fix, requests to the resigned election got the answer `busy`, so a client
/// retried.
#[test]
fn regression_an_ended_election_is_not_busy() {
    let scene = Scene::new(TENURE);
    let other = format!("other=file://{}", scene.path("other").display());
    let mut a = sidecar(&scene, "a", &["--grace", "600s", "--election", &other]);
    a.leads();
    eventually("the other election has a token", || a.get("/v1/elections/other/token").0 == 200);
    a.process.signal(Signal::SIGTERM);
    eventually("the call ends", || a.view()["role"] == "ending");
    assert_eq!(a.json("POST", RESIGN, "").0, 200);
    for (method, path, body) in [("POST", RESIGN, "{}"), ("PUT", DATA, "1")] {
        let (status, said) = a.json(method, path, body);
        // The task of the election may end just before it answers this request. If the reply is
        // 504, repeat the request.
        let (status, said) = match status {
            504 => a.json(method, path, body),
            _ => (status, said),
        };
        assert_eq!((status, &said["code"]), (503, &"ending".into()), "{said}");
    }
    assert_eq!(a.json("POST", "/v1/elections/other/resign", "").0, 200);
    assert_eq!(a.process.code(), 0);
}
