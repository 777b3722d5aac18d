//! SIGTERM

use nix::sys::signal::Signal;

use super::client::sidecar;
use crate::command::eventually;
use crate::command::scene::Scene;

const RESIGN: &str = "/v1/elections/orders/resign";

/// The lease is kept while the application ends its work, so that nobody else leads meanwhile.
#[test]
fn the_application_hears_of_the_end_and_has_its_grace() {
    let scene = Scene::new();
    let mut a = sidecar(&scene, "a", &["--grace", "600s"]);
    a.leads();
    let events = a.events("/v1/elections/orders/events");
    events.wait_for("elected", 0);
    a.process.signal(Signal::SIGTERM);
    let (_, lost) = events.wait_for("lost", 0);
    assert_eq!(lost["lost"]["reason"], "ending", "{lost}");
    assert_eq!(a.get("/v1/elections/orders/token").0, 503);
    let seen = a.view();
    assert_eq!((&seen["state"], &seen["leader"]), (&"ending".into(), &().into()), "{seen}");
    assert_eq!(scene.status()["state"], "held", "others wait");
    // Its work has ended.
    let (status, said) = a.json("POST", RESIGN, "");
    assert_eq!((status, &said["sealed"]), (200, &true.into()), "{said}");
    assert_eq!(a.process.code(), 0);
    assert_eq!(scene.status()["ended"], "resigned");
    eventually("the stream ends", || events.has_ended());
}

#[test]
fn after_the_grace_it_resigns_by_itself() {
    let scene = Scene::new();
    let mut a = sidecar(&scene, "a", &["--grace", "0s"]);
    a.leads();
    a.process.signal(Signal::SIGINT);
    assert_eq!(a.process.code(), 0);
    assert_eq!(scene.status()["ended"], "resigned");
}

#[test]
fn a_second_signal_ends_it_at_once() {
    let scene = Scene::new();
    let mut a = sidecar(&scene, "a", &["--grace", "600s"]);
    a.leads();
    a.process.signal(Signal::SIGTERM);
    eventually("it ends", || a.view()["state"] == "ending");
    a.process.signal(Signal::SIGTERM);
    assert_eq!(a.process.code(), 143);
    assert_eq!(scene.status()["state"], "held", "it is left to lapse");
}
