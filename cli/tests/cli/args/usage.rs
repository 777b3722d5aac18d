//! Tests of the help, and of arguments that the command refuses before its first request.

use crate::bench::{Bench, command, said, tenure};

#[test]
fn invalid_arguments_exit_with_64() {
    let store = ["--store", "file:///tmp/tenure-test-none"];
    for line in [
        &[][..],
        &["lead"],
        &["status"],
        &["status", "--store", "tmp/x"],
        &["status", "--store", "ftp://b/p"],
        &["status", "--store", "file:///tmp/x", "extra"],
        &[&["run"][..], &store].concat(),
        &[&["run"][..], &store, &["--validity", "30", "--", "true"]].concat(),
        &[&["run"][..], &store, &["--name", "", "--", "true"]].concat(),
        &[&["watch"][..], &store, &["--poll", "0s"]].concat(),
        &[&["compact"][..], &store, &["--keep", "0"]].concat(),
        &[&["compact"][..], &store, &["--every", "0s"]].concat(),
    ] {
        let said = tenure(line);
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{line:?}: {said:?}");
        assert!(!said.err.is_empty(), "{line:?}");
    }
}

#[test]
fn regression_the_error_of_a_refused_url_has_no_secrets() {
    for url in [
        "s3://b/p?endpoint=https://me:hidden@host",
        "s3://b/p?endpoint=https%3A%2F%2Fme%3Ahidden%40host",
        "s3://b/p?hidden=hidden",
        "gs://me:hidden@b/p",
    ] {
        let several = format!("{url} s3://b/p s3://c/p");
        let election = format!("orders={url}");
        for line in [
            &["status", "--store", url][..],
            &["status", url],
            &["status", "--store", &several],
            &["serve", "--election", &election],
        ] {
            let said = tenure(line);
            let shown = said.err.replace("`?hidden`", "");
            assert!(said.code == 64 && !shown.contains("hidden"), "{line:?}: {said:?}");
        }
        let mut status = command(&["status"]);
        let status = said(status.env("TENURE_STORE", &several).output().expect("it runs"));
        let shown = status.err.replace("`?hidden`", "");
        assert!(status.code == 64 && !shown.contains("hidden"), "{status:?}");
    }
}

#[test]
fn invalid_settings_are_refused_with_their_values() {
    let bench = Bench::new();
    std::fs::remove_dir(bench.path("store")).expect("the directory is empty");
    let run = |options: &[&str]| bench.run("run", &[options, &["--", "true"]].concat());
    run(&["--validity", "1s"]).fails(64, &["validity of 1s", "333ms", "2 × 200ms", "--validity"]);
    run(&["--grace", "10s"]).fails(64, &["validity of 30s", "grace of 10s", "33s 500ms"]);
    run(&["--poll", "1h"]).fails(64, &["--poll must be 10ms to 30s (--validity), got 1h"]);
    run(&["--validity", "25h"]).fails(64, &["--validity must be", "1day", "got 1day 1h"]);
    run(&["--name", "a\nb"]).fails(64, &["name", "control"]);
    run(&["--name", &"x".repeat(257)]).fails(64, &["256 bytes"]);
    assert!(!bench.path("store").exists(), "a refused command creates no file");
    std::fs::create_dir(bench.path("store")).expect("a new directory");
    bench.run("compact", &["--keep", "100001"]).fails(64, &["--keep must be", "100001", "100000"]);
}

#[test]
fn regression_absurd_durations_are_refused_with_their_values() {
    let store = "file:///tmp/tenure-test-none";
    let election = format!("orders={store}");
    let run: &[&str] = &["run", "--store", store];
    let serve: &[&str] = &["serve", "--election", &election];
    let group: &[&str] = &["group", "run", "--store", store, "--partitions", "0..4"];
    let cron: &[&str] = &["run", "--store", store, "--once-per", "1d"];
    let health: &[&str] = &["serve", "--election", &election, "--app-health", "heartbeat"];
    for (line, option, value, bound) in [
        (run, "--grace", "100d", "validity of 30s"),
        (run, "--hook-timeout", "100d", "1day"),
        (run, "--store-clock-margin", "25h", "1day"),
        (run, "--takeover-delay", "25h", "--takeover-delay must be at most 1day, got 1day 1h"),
        (run, "--priority-delay", "25h", "--priority-delay must be at most 1day, got 1day 1h"),
        (run, "--once-per", "36526d", "36525"),
        (cron, "--clock-ahead-max", "25h", "1day"),
        (serve, "--grace", "100d", "1day"),
        (serve, "--store-clock-margin", "25h", "1day"),
        (serve, "--validity", "25h", "1day in whole"),
        (health, "--app-health-deadline", "25h", "1day"),
        (group, "--grace", "100d", "validity of 30s"),
        (group, "--validity", "61m", "at most 1h in a group, got 1h 1m"),
        (group, "--renew", "29s", "a shorter --renew, --request-timeout or --grace"),
        (&["compact", "--store", store], "--keep", "0", "must be at least 1, got 0"),
        (&["history", "--store", store], "--limit", "0", "must be at least 1, got 0"),
        (&["cost"], "--candidates", "0", "must be at least 1, got 0"),
        (&["watch", "--store", store], "--poll", "1", ": the time unit is missing; write a number"),
        (group, "--poll", "lapse", "--poll lapse is for elections"),
        (group, "--rebalance-delay", "61m", "at most 1h, got 1h 1m"),
        (&["compact", "--store", store], "--min-age", "36526d", "36525"),
        (&["compact", "--store", store], "--every", "366d", "365"),
        (&["history", "--store", store], "--since", "36526d", "36525"),
        (&["probe", "--store", store], "--for", "366d", "365"),
        (&["restore", "--store", store, "--epoch", "7"], "--wait", "25h", "--wait must be at"),
        (&["watch", "--store", store], "--poll", "25h", "1day"),
        (&["group", "watch", "--store", store], "--poll", "61m", "1h"),
        (&["cost"], "--validity", "25h", "1day"),
    ] {
        let cmd: &[&str] = if line.contains(&"run") { &["--", "true"] } else { &[] };
        let said = tenure(&[line, &[option, value], cmd].concat());
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{line:?} {option}: {said:?}");
        assert!(said.err.contains(bound), "{line:?} {option} {value}: {said:?}");
    }
}

#[test]
fn only_run_creates_a_missing_directory() {
    let bench = Bench::new();
    std::fs::remove_dir(bench.path("store")).expect("the directory is empty");
    for verb in ["status", "compact"] {
        bench
            .run(verb, &[])
            .fails(69, &[&bench.url(), "the directory does not exist", "tenure run"]);
        assert!(!bench.path("store").exists(), "{verb} has created the directory");
    }
    assert_eq!(bench.run("run", &["--", "true"]).code, 0);
    assert_eq!(bench.json("status", &["--json"])["epoch"], 1);
}

/// Before the fix, if the store was a symbolic link without a target, the error recommended `tenure
/// run`, which failed as well.
#[test]
fn regression_the_error_of_a_broken_link_does_not_recommend_run() {
    let bench = Bench::new();
    let link = bench.path("link");
    std::os::unix::fs::symlink(bench.path("none"), &link).expect("a new link");
    let url = format!("file://{}/store", link.display());
    for line in [&["status", "--store", &url][..], &["run", "--store", &url, "--", "true"]] {
        let said = tenure(line);
        said.fails(69, &["link", "leads to no directory"]);
        assert!(!said.err.contains("tenure run"), "{said:?}");
    }
}

#[test]
fn a_store_below_a_file_is_refused_with_69() {
    let bench = Bench::new();
    std::fs::write(bench.path("file"), "").expect("a new file");
    let url = format!("file://{}/store", bench.path("file").display());
    for line in [&["status", "--store", &url][..], &["run", "--store", &url, "--", "true"]] {
        tenure(line).fails(69, &[&bench.path("file").display().to_string()]);
    }
}

#[test]
fn the_error_names_the_feature_that_the_build_lacks() {
    let services = [
        ("s3", "s3", cfg!(feature = "s3")),
        ("gs", "gcs", cfg!(feature = "gcs")),
        ("az", "azure", cfg!(feature = "azure")),
        ("dynamodb", "dynamodb", cfg!(feature = "dynamodb")),
    ];
    for (scheme, feature, _) in services.into_iter().filter(|(_, _, built)| !built) {
        let (url, features) = (format!("{scheme}://b/p"), format!("--features {feature}"));
        for line in [&["status", "--store", &url][..], &["run", "--store", &url, "--", "true"]] {
            tenure(line).fails(64, &[&format!("{scheme}://b"), &features]);
        }
    }
}

#[test]
fn an_invalid_log_filter_is_reported_and_ignored() {
    let bench = Bench::new();
    let mut command = crate::bench::command(&["status", "--store", &bench.url()]);
    let said = crate::bench::said(
        command.env("RUST_LOG", "tenure=loud").output().expect("the command runs"),
    );
    assert_eq!(said.code, 0);
    assert!(said.err.contains("RUST_LOG=\"tenure=loud\" is ignored"), "{said:?}");
}

#[test]
fn a_path_is_a_directory_relative_to_the_working_directory() {
    let bench = Bench::new();
    let here = |variables: &[(&str, &str)], line: &[&str]| {
        let mut command = crate::bench::command(line);
        command.current_dir(bench.path("")).envs(variables.iter().copied());
        crate::bench::said(command.output().expect("the command runs"))
    };
    // CMD needs no `--` before it, keeps its own flags, and gets a URL that is valid in every
    // directory.
    let script = "echo $TENURE_STORE $0";
    let run = here(&[], &["run", "--store", "./store", "sh", "-c", script, "--forever"]);
    assert_eq!((run.code, run.out), (0, format!("{} --forever\n", bench.url())));
    let status = here(&[("TENURE_STORE", "store/")], &["status", "--field", "epoch"]);
    assert_eq!((status.code, status.out.as_str()), (0, "1\n"));
    let bare = here(&[], &["status", "--store", "store"]);
    assert!(bare.code == 64 && bare.err.contains("write ./store for a directory"), "{bare:?}");
    let serve = here(&[], &["serve", "--election", "a=./store", "--election", "b=store/"]);
    serve.fails(64, &["a and b are the same election"]);
}

#[test]
fn the_error_of_a_missing_store_names_the_variable() {
    let mut command = command(&["run", "--once-per", "1h", "--", "true"]);
    let said = said(command.env("TENURE_VALIDITY", "4s").output().expect("the command runs"));
    let usage = "\nUsage: tenure run [OPTIONS] --store <URL> <CMD>...\n";
    assert_eq!(said.code, 64, "{said:?}");
    for text in ["  --store <URL> (or TENURE_STORE)\n", usage] {
        assert!(said.err.contains(text), "{said:?}");
    }
}
