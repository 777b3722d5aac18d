//! Tests the requests and the report of `tenure probe`.

use serde_json::Value;

use crate::bench::Bench;
use tenure_testkit::command::eventually;

#[test]
fn a_directory_is_safe_and_the_probe_leaves_it_empty() {
    let bench = Bench::new();
    let said = bench.run("probe", &["--rounds", "3"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
    for word in [
        "3 rounds of 32 writers, long writes of ",
        "one of 32 racing creators wins",
        "4 races in 3 rounds: 4 done, 92 refused, 0 unknown",
        "p99",
        "the store's clock is 0",
        "requests",
        "no fault seen: every promise was kept. 4 races of each kind can miss a fault that shows in",
    ] {
        assert!(said.out.contains(word), "{word:?} is not in {}", said.out);
    }
    assert!(!said.out.contains("NO ") && !said.out.contains("warning"), "{}", said.out);
    assert_eq!(bench.objects(), [""; 0]);
}

#[test]
fn json_has_the_documented_fields() {
    let bench = Bench::new();
    let report = bench.json("probe", &["--rounds", "2", "--json"]);
    let documented = [
        "verdict",
        "why",
        "store",
        "keys",
        "rounds",
        "writers",
        "long_bytes",
        "power",
        "promises",
        "latency",
        "clock",
        "settings",
        "warnings",
        "requests",
        "cost_usd",
        "left_behind",
    ];
    let object = report.as_object().expect("an object");
    assert_eq!(object.keys().count(), documented.len(), "{object:?}");
    let page = include_str!("../../../docs/how-to/test-a-store.md");
    for field in documented {
        assert!(object.contains_key(field), "{field} is missing");
        assert!(page.contains(&format!("`{field}`")), "{field} is not documented");
    }
    assert_eq!((&report["verdict"], &report["writers"]), (&"no_fault_seen".into(), &32.into()));
    let promises = report["promises"].as_array().expect("a list");
    assert!(promises.len() == 11 && promises.iter().all(|one| one["kept"] == "yes"));
    assert_eq!(promises[9]["race"]["refused"], 61, "{:?}", promises[9]);
    assert_eq!(report["power"][0]["one_in"], 10);
    let missed = report["power"][0]["missed"].as_f64().expect("a number");
    assert!((missed - 0.9_f64.powi(3)).abs() < 1e-9, "of 3 races in 2 rounds: {missed}");
    assert_eq!(report["latency"][0]["request"], "create");
    assert_eq!(report["left_behind"], Value::Array(Vec::new()));
}

#[test]
fn the_help_states_the_number_of_requests() {
    let help = crate::bench::tenure(&["probe", "--help"]).out;
    let bench = Bench::new();
    let sent = |rounds: u64| {
        let rounds = rounds.to_string();
        let report = bench.json("probe", &["--rounds", &rounds, "--json"]);
        let requests = report["requests"].as_object().expect("an object");
        requests.values().filter_map(Value::as_u64).sum::<u64>()
    };
    // The number of requests per round varies. Only the first 20 rounds read the object after their
    // writes, and every second round has two races. A probe of more than 20 rounds sends two
    // additional requests, which delete the keys of finished rounds.
    let (twenty, more) = (sent(20), sent(22));
    let a_round = (more - 2 - twenty).div_ceil(2);
    assert!(help.contains(&format!("about {a_round} requests per round")), "{a_round}: {help}");
    let beside = twenty - 20 * a_round;
    assert!(beside.abs_diff(280) < 20 && help.contains("280 more"), "{beside}");
    let thirty = beside + 30 * a_round;
    assert!(thirty.abs_diff(2_400) < 30 && help.contains("about 2,400"), "{thirty}");
}

#[test]
fn races_end_at_the_given_bounds() {
    let bench = Bench::new();
    let bounded = |options: &[&str]| {
        let report = bench.json("probe", &[&["--json"], options].concat());
        report["rounds"].as_u64().expect("a number")
    };
    assert_eq!(
        bounded(&["--rounds", "0", "--for", "1us"]),
        2,
        "there is one example of each shape"
    );
    assert_eq!(bounded(&["--for", "1us"]), 2);
    assert_eq!(bounded(&["--rounds", "3", "--for", "1h"]), 3);
    // The probe runs rounds in batches of 20. So 21 rounds need one full batch and a part of the
    // next batch.
    assert_eq!(bounded(&["--rounds", "21"]), 21);
    assert_eq!(bench.objects(), [""; 0]);
}

#[test]
fn a_signal_ends_endless_races_with_a_report() {
    use nix::sys::signal::{Signal, kill};
    let bench = Bench::new();
    let child =
        crate::bench::spawn(&[], &["probe", "--store", &bench.url(), "--rounds", "0", "--json"]);
    eventually("the probe races", || bench.objects().iter().any(|key| key.contains("-race-")));
    let pid = nix::unistd::Pid::from_raw(i32::try_from(child.id()).expect("a small number"));
    kill(pid, Signal::SIGTERM).expect("the process is alive");
    let said = crate::bench::said(child.wait_with_output().expect("the child can be waited for"));
    assert_eq!(said.code, 0, "{said:?}");
    assert!(said.err.contains("a report follows"), "{said:?}");
    let report: Value = serde_json::from_str(&said.out).expect("JSON");
    assert!(report["rounds"].as_u64() < Some(20), "the signal did not stop the batch: {report}");
    assert_eq!(report["verdict"], "no_fault_seen");
    assert_eq!(bench.objects(), [""; 0]);
}

#[test]
fn a_missing_directory_is_not_created() {
    let bench = Bench::new();
    std::fs::remove_dir(bench.path("store")).expect("the directory is empty");
    bench.run("probe", &[]).fails(69, &["the directory does not exist"]);
    assert_eq!(bench.run("probe", &["--rounds", "10001"]).code, 64);
    assert!(!bench.path("store").exists());
}

#[cfg(feature = "s3")]
mod on_s3 {
    use std::time::Duration;

    use nix::sys::signal::{Signal, kill};
    use nix::unistd::Pid;

    use crate::bench::{Said, command, said, spawn};
    use tenure_testkit::command::output;
    use tenure_testkit::s3_server::*;

    fn probe(server: &S3Server, options: &[&str]) -> Said {
        let line = ["probe", "--store", "s3://tenure-test/app", "--rounds", "3"];
        let mut command = command(&[&line[..], options].concat());
        command.envs(server.env());
        said(command.output().expect("the command runs"))
    }

    fn with(quirks: impl FnOnce(&mut S3Quirks)) -> (S3Server, Said) {
        let server = S3Server::start_blocking();
        server.quirks(quirks);
        let said = probe(&server, &[]);
        assert_eq!(server.keys(), [""; 0], "{}", said.out);
        (server, said)
    }

    fn is_unsafe(said: &Said, words: &[&str]) {
        assert_eq!((said.code, said.err.as_str()), (70, ""), "{said:?}");
        let verdict = said.out.lines().last().expect("a verdict");
        assert!(verdict.starts_with("UNSAFE: "), "{}", said.out);
        for word in words {
            assert!(said.out.contains(word), "{word:?} is not in {}", said.out);
        }
    }

    #[test]
    fn a_server_with_s3s_semantics_is_safe() {
        let (server, said) = with(|_| {});
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
        for line in ["versioning   off", "lifecycle    no rule is for app/lock…", "$0.00"] {
            assert!(said.out.contains(line), "{line:?} is not in {}", said.out);
        }
        // The first request is the deletion of a missing key. The last requests read the settings
        // of the bucket.
        let requests = server.requests();
        assert_eq!(requests.first().map(|seen| seen.op), Some(Op::Delete));
        let sent = requests.len().to_string();
        assert!(said.out.contains(&format!("requests     {sent}: ")), "{sent}: {}", said.out);
        let stray = requests.iter().find(|seen| {
            matches!(seen.op, Op::Put | Op::Get) && !seen.key.starts_with("app/probe-")
        });
        assert!(stray.is_none(), "{stray:?}");
    }

    /// The store of this test checks the condition and then writes the object, in two steps. The
    /// store check and the checks with one writer accept this store. Only a race between writers
    /// shows the error.
    #[test]
    fn conditions_checked_in_two_steps_are_unsafe() {
        let (_, said) = with(|quirks| quirks.two_steps = Some(Duration::from_millis(20)));
        is_unsafe(&said, &["writers received a success"]);
        let broken = said.out.lines().filter(|line| line.contains(" NO "));
        let broken: Vec<_> = broken.map(|line| &line[..18]).collect();
        assert_eq!(broken, ["one of 32 racing c", "one of 32 racing r"], "{}", said.out);
    }

    #[test]
    fn a_rule_that_deletes_the_newest_epoch_is_a_warning() {
        let (_, said) = with(|quirks| {
            let rule = "<LifecycleConfiguration><Rule><ID>tidy</ID><Filter/>\
                        <Status>Enabled</Status><Expiration><Days>30</Days></Expiration></Rule>\
                        </LifecycleConfiguration>";
            let on = "<VersioningConfiguration><Status>Enabled</Status></VersioningConfiguration>";
            quirks.settings.insert("lifecycle", rule.to_owned());
            quirks.settings.insert("versioning", on.to_owned());
        });
        assert_eq!(said.code, 0, "{said:?}");
        for word in [
            "warning: lifecycle: the rule \"tidy\" would delete the newest epoch",
            "to do: exclude app/lock…",
            "warning: versioning: no rule expires old versions",
        ] {
            assert!(said.out.contains(word), "{word:?} is not in {}", said.out);
        }
    }

    /// moto and S3 return the bucket versioning in XML elements with different names. Before the
    /// fix, the probe reported an error for the answer of moto.
    #[test]
    fn regression_another_root_element_of_the_versioning_is_accepted() {
        let (_, said) = with(|quirks| {
            let answer = "<GetBucketVersioningResponse \
                          xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"/>";
            quirks.settings.insert("versioning", answer.to_owned());
        });
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
        assert!(said.out.contains("versioning   not reported by the store"), "{}", said.out);
    }

    #[test]
    fn a_directory_bucket_passes_and_has_separate_prices() {
        let server = S3Server::start_directory_bucket();
        let url = format!("s3://{DIRECTORY_BUCKET}/app");
        let mut command = command(&["probe", "--store", &url, "--rounds", "3", "--json"]);
        let said = said(command.envs(server.env()).output().expect("the command runs"));
        let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!((said.code, report["verdict"].as_str()), (0, Some("no_fault_seen")), "{said:?}");
        let (cost, requests) = (&report["cost_usd"], &report["requests"]);
        let count = |name: &str| requests[name].as_f64().unwrap_or_default();
        let (puts, gets) = (count("writes") + count("lists"), count("reads") + count("settings"));
        let expected = (puts * 1.13 + gets * 0.03) / 1e6;
        let cost = cost.as_f64().expect("a price");
        assert!((cost - expected).abs() < 2e-8, "{cost} {requests}");
    }

    #[test]
    fn a_clock_difference_is_reported() {
        for skew in [90, -90] {
            let server = S3Server::start_blocking();
            server.quirks(|quirks| quirks.clock_skew = skew);
            let said = probe(&server, &["--json"]);
            let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
            let (ahead, within) = (&report["clock"]["ahead_ms"], &report["clock"]["within_ms"]);
            let ahead = ahead.as_f64().expect("a number");
            let within = within.as_f64().expect("a number");
            let off = (ahead - 1e3 * skew as f64).abs();
            assert!(off <= within + 0.2 && within <= 1_000.0, "{}", said.out);
            assert_eq!(report["warnings"][0]["about"], "clock", "{}", said.out);
            // The store dates its answers in whole seconds, so a reported difference of -89.8 s is
            // also correct.
            let text = report["warnings"][0]["what"].as_str().expect("a text");
            let told = text.split("differ by ").nth(1).and_then(|rest| rest.split_once(" s, ± "));
            let told: f64 = told.and_then(|(told, _)| told.parse().ok()).expect("a number");
            assert!((told - ahead / 1e3).abs() < 0.051, "{text}");
        }
    }

    /// Before the fix, if the server refused DELETE, the probe exited with 70 and printed no
    /// result.
    #[test]
    fn regression_a_server_without_delete_is_inconclusive() {
        let server = S3Server::start_blocking();
        server.fault(ServerFault::Answer(405, "MethodNotAllowed")).on(Op::Delete);
        let said = probe(&server, &["--json"]);
        let report: serde_json::Value = serde_json::from_str(&said.out).expect("JSON");
        assert_eq!((said.code, report["verdict"].as_str()), (69, Some("inconclusive")), "{said:?}");
        let why = report["why"].as_str().expect("a text");
        assert!(why.contains("does not delete") && why.contains("405"), "{why}");
        let said = probe(&server, &[]);
        assert!(said.code == 69 && said.out.contains("inconclusive: the store does not delete"));
        assert_eq!(server.keys(), [""; 0], "nothing was written");
    }

    #[test]
    fn denied_access_exits_with_77_and_leaves_no_object() {
        let server = S3Server::start_blocking();
        server.fault(ServerFault::AccessDenied).on(Op::Delete);
        probe(&server, &[]).fails(77, &["s3:DeleteObject"]);
        assert_eq!(server.count(Op::Put), 0, "the probe writes no key that it cannot delete");
        server.clear_faults();
        server.fault(ServerFault::AccessDenied).on(Op::Put).after(30);
        probe(&server, &[]).fails(77, &["s3:PutObject"]);
        assert_eq!(server.keys(), [""; 0]);
    }

    #[test]
    fn a_missing_store_exits_with_69() {
        let server = S3Server::start_blocking();
        let mut command = command(&["probe", "--store", "s3://no-such-bucket/app"]);
        command.envs(server.env());
        said(command.output().expect("the command runs")).fails(69, &["no-such-bucket"]);
        server.fault(ServerFault::ErrorBefore);
        probe(&server, &[]).fails(69, &["probing", "check the connection to the store"]);
    }

    #[test]
    fn a_signal_ends_the_probe_without_leftovers() {
        for (signal, code) in [(Signal::SIGINT, 130), (Signal::SIGTERM, 143)] {
            let server = S3Server::start_blocking();
            // The server does not answer these 32 writes, so a race of the probe lasts until the
            // signal arrives.
            server.fault(ServerFault::Hold).on(Op::Put).key_contains("race").times(32);
            let line = ["probe", "--store", "s3://tenure-test/app", "--rounds", "1000"];
            let child = spawn(&server.env(), &line);
            let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
            runtime.expect("a runtime").block_on(server.until_held(32));
            let pid = Pid::from_raw(i32::try_from(child.id()).expect("a small number"));
            kill(pid, signal).expect("the process is alive");
            server.release();
            let said = said(output(child));
            assert_eq!((said.code, said.out.as_str()), (code, ""), "{said:?}");
            assert!(said.err.contains("all keys of the probe are deleted"), "{said:?}");
            assert_eq!(server.keys(), [""; 0]);
        }
    }
}
