//! Settings that do not fit together are refused before anything is done.

use crate::bench::{Bench, tenure};

/// The options that follow, after one election.
fn refused(options: &[&str], words: &[&str]) {
    let bench = Bench::new();
    let election = format!("orders=file://{}", bench.path("new").display());
    let said = tenure(&[&["serve", "--election", &election][..], options].concat());
    assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word:?} is not in {said:?}");
    }
    assert!(!bench.path("new").exists(), "nothing was made");
}

#[test]
fn elections_have_names_of_their_own() {
    for name in ["", "a b", "a/b", "ä", "..", ".", &"x".repeat(65)] {
        refused(&["--election", &format!("{name}=file:///tmp/x")], &["1 to 64"]);
    }
    refused(&["--election", "file:///tmp/x"], &["NAME=URL"]);
    refused(&["--election", "nothing"], &["NAME=URL"]);
    refused(&["--election", "orders=file:///tmp/other"], &["two elections are called orders"]);
    let twice = ["--election", "a=s3://b/p", "--election", "b=s3://b/p/"];
    refused(&twice, &["a and b are the same election"]);
}

#[test]
fn leases_leave_room_for_the_news_of_their_end() {
    refused(&["--validity", "700ms"], &["700ms", "713ms"]);
    refused(&["--validity", "1s", "--poll", "2s"], &["poll"]);
}

#[test]
fn the_health_of_the_application_has_a_deadline() {
    refused(&["--app-health-deadline", "5s"], &["--app-health"]);
    let short = ["--app-health", "heartbeat", "--app-health-deadline", "99ms"];
    refused(&short, &["99ms", "100ms"]);
    refused(&["--app-health", "https://localhost/"], &["https is not supported"]);
}

#[test]
fn an_address_in_use_is_refused_before_anything_is_sent() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("it has one").to_string();
    let election = format!("orders=file://{}", bench.path("new").display());
    let said = tenure(&["serve", "--election", &election, "--listen", &address]);
    said.fails(71, &["cannot serve elections at", &address, "in use"]);
    assert!(!bench.path("new").exists(), "nothing was made");
}
