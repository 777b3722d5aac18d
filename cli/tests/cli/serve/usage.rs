//! Tests that `tenure serve` refuses contradictory settings before its first request.

use crate::bench::{Bench, tenure};

/// Runs `serve` with one election and these options.
fn refused(options: &[&str], words: &[&str]) {
    refused_after("--election", options, words);
}

/// Runs `serve` with one group and these options.
fn refused_group(options: &[&str], words: &[&str]) {
    refused_after("--group", options, words);
}

fn refused_after(what: &str, options: &[&str], words: &[&str]) {
    let bench = Bench::new();
    let named = format!("orders=file://{}", bench.path("new").display());
    let said = tenure(&[&["serve", what, &named][..], options].concat());
    assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
    for word in words {
        assert!(said.err.contains(word), "{word:?} is not in {said:?}");
    }
    assert!(!bench.path("new").exists(), "no object was created");
}

#[test]
fn two_elections_with_one_name_are_refused() {
    for name in ["", "a b", "a/b", "ä", "..", ".", &"x".repeat(65)] {
        refused(&["--election", &format!("{name}=file:///tmp/x")], &["1 to 64"]);
    }
    refused(&["--election", "file:///tmp/x"], &["NAME=URL"]);
    refused(&["--election", "nothing"], &["NAME=URL"]);
    refused(&["--election", "orders=file:///tmp/other"], &["two elections have the name orders"]);
    let twice = ["--election", "a=s3://b/p", "--election", "b=s3://b/p/"];
    refused(&twice, &["a and b are the same election"]);
}

#[test]
fn an_election_or_a_group_is_required() {
    let said = tenure(&["serve"]);
    said.fails(64, &["--election NAME=URL", "--group NAME=URL"]);
    let said = tenure(&["serve", "--store", "./x"]);
    assert_eq!(said.code, 64);
    assert!(said.err.contains("use --election NAME=./x or --group NAME=./x"), "{said:?}");
}

#[test]
fn each_group_needs_a_unique_name_and_partitions() {
    let partitions = ["--partitions", "0..4"];
    let with = |options: &[&'static str]| [&partitions[..], options].concat();
    refused_group(&[], &["the group orders has no partitions"]);
    refused_group(&["--partitions", "4..4"], &["4..4 is empty"]);
    refused_group(&["--partitions", "a,b,a"], &["two partitions", "\"a\""]);
    refused_group(&["--partitions", "0..100001"], &["100000"]);
    refused_group(&["--partitions", "others=0..4"], &["others", "no --group", "GROUP=others="]);
    refused_group(&with(&["--partitions", "orders=0..2"]), &["2 times", "orders"]);
    refused_group(&with(&["--group", "orders=file:///x"]), &["two groups have the name orders"]);
    // With two groups, the value of `--partitions` begins with the name of a group.
    let two = with(&["--group", "b=s3://b/p", "--partitions", "b=0..2"]);
    refused_group(&two, &["the group orders has no partitions", "2 groups", "orders=0..64"]);
    let same = ["--group", "a=s3://b/p", "--group", "b=s3://b/p/"];
    refused_group(&with(&same), &["a and b are the same group"]);
    refused_group(&["--group", "a/b=file:///x"], &["1 to 64"]);
}

#[test]
fn regression_partitions_without_a_group_are_refused() {
    let named = ["--group", "b=s3://b/p", "--partitions", "b=0..2", "--partitions", "orders=0..2"];
    let more = [&named[..], &["--partitions", "0..9"]].concat();
    refused_group(&more, &["--partitions without GROUP=", "got 2"]);
}

#[test]
fn options_of_groups_need_a_group_and_valid_values() {
    for option in ["--partitions=0..4", "--unique-name", "--leave-for=1s", "--data=1"] {
        let name = option.split('=').next().expect("a flag");
        refused(&[option, "--name", "a"], &[name, "needs a --group"]);
    }
    refused(&["--weight", "2"], &["--weight"]);
    refused(&["--rebalance-delay", "2s"], &["--rebalance-delay"]);
    let refused_group = |options: &[&str], words: &[&str]| {
        refused_group(&[&["--partitions", "0..4"], options].concat(), words);
    };
    refused_group(&["--unique-name"], &["--name <NAME>"]);
    refused_group(&["--leave-for", "1m"], &["--name <NAME>"]);
    refused_group(&["--leave-for", "61m", "--name", "a"], &["1h 1m", "at most 1h"]);
    refused_group(&["--weight", "0"], &["--weight must be at least 1, got 0"]);
    refused_group(&["--rebalance-delay", "2h"], &["--rebalance-delay must be at most 1h, got 2h"]);
    refused_group(&["--poll", "lapse"], &["--poll lapse is for elections"]);
    refused_group(&["--poll", "31s"], &["31s", "30s"]);
    refused_group(&["--validity", "2h"], &["--validity must be at most 1h in a group, got 2h"]);
    refused_group(&["--validity", "700ms"], &["700ms", "713ms"]);
    refused_group(&["--clock-drift-max", "0.6"], &["0.6", "0.5"]);
    refused_group(&["--data", "{"], &["not JSON"]);
}

#[test]
fn too_short_leases_and_too_long_polls_are_refused() {
    refused(&["--validity", "700ms"], &["700ms", "713ms"]);
    refused(&["--validity", "1s", "--poll", "2s"], &["poll"]);
}

#[test]
fn invalid_options_of_app_health_are_refused() {
    refused(&["--app-health-deadline", "5s"], &["--app-health"]);
    let short = ["--app-health", "heartbeat", "--app-health-deadline", "99ms"];
    refused(&short, &["99ms", "100ms"]);
    for (check, why) in [
        ("https://localhost/", "https is not supported"),
        ("http://anna:secret@localhost/", "a user or a password"),
        ("http://{partition}/", "the host must not contain {partition}"),
    ] {
        refused(&["--app-health", check], &[why]);
    }
}

#[test]
fn an_address_in_use_is_refused_before_the_first_request() {
    let bench = Bench::new();
    let taken = std::net::TcpListener::bind("127.0.0.1:0").expect("a free port");
    let address = taken.local_addr().expect("the listener has an address").to_string();
    let election = format!("orders=file://{}", bench.path("new").display());
    let said = tenure(&["serve", "--election", &election, "--listen", &address]);
    said.fails(71, &["cannot serve elections at", &address, "in use"]);
    assert!(!bench.path("new").exists(), "no object was created");
}
