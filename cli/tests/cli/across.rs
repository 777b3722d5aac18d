//! Elections across three directories.

use std::fs;

#[cfg(feature = "s3")]
use tenure_testkit::s3_server::{BUCKET, S3Server, SECRET_KEY};

use crate::bench::{Bench, Said, command, said, tenure};

/// Three stores in directories.
struct Set {
    bench: Bench,
}

impl Set {
    fn new() -> Set {
        Set { bench: Bench::new() }
    }

    fn with_markers() -> Set {
        let set = Set::new();
        assert_eq!(set.run("across init", &[]).code, 0);
        set
    }

    fn url(&self, store: &str) -> String {
        format!("file://{}", self.bench.path(store).display())
    }

    /// Runs a verb on the stores a, b and c.
    fn run(&self, verb: &str, options: &[&str]) -> Said {
        self.run_on(["a", "b", "c"], verb, options)
    }

    fn run_on(&self, stores: [&str; 3], verb: &str, options: &[&str]) -> Said {
        let urls = stores.map(|store| self.url(store));
        let mut line: Vec<&str> = verb.split(' ').collect();
        line.extend(urls.iter().flat_map(|url| ["--store", url]));
        line.extend(options);
        tenure(&line)
    }

    fn leads(&self, epoch: &str) {
        let run = self.run("run", &["--name", "a", "--", "sh", "-c", "echo $TENURE_EPOCH"]);
        assert_eq!((run.code, run.out.trim()), (0, epoch), "{run:?}");
    }
}

#[test]
fn a_set_is_created_once_and_elects_a_leader() {
    let set = Set::new();
    let early = set.run("run", &["--", "true"]);
    early.fails(64, &["no marker of this election", "tenure across init"]);
    for _ in 0..2 {
        let init = set.run("across init", &[]);
        assert_eq!((init.code, &*init.err), (0, ""), "{init:?}");
    }
    set.leads("1");
    set.leads("2");
    let status = set.run("across status", &["--json"]).json_lines().remove(0);
    assert_eq!(status["state"], "vacant", "{status}");
    // A resignation returns once two stores have the seal. The third store may get it later.
    let mut resigned = 0;
    for (store, number) in status["stores"].as_array().expect("stores").iter().zip(1..) {
        assert_eq!(store["number"], number, "{store}");
        resigned += usize::from(store["epoch"] == 2 && store["ended"] == "resigned");
    }
    assert!(resigned >= 2, "{status}");
    let status = set.run("status", &["--field", "ended"]);
    assert_eq!(status.out, "resigned\n", "{status:?}");
    let compact = set.run("compact", &["--keep", "1", "--min-age", "0s"]);
    assert_eq!((compact.code, compact.out.lines().count()), (0, 3), "{compact:?}");
    assert!(compact.out.matches("deleted 1 ").count() >= 2, "{compact:?}");
}

/// Before the fix, `init` wrote a second marker of store c to store d. Then two majorities, one
/// with store c and one with store d, might share no store.
#[test]
fn regression_init_refuses_stores_that_differ_from_the_set() {
    let set = Set::with_markers();
    for stores in [["a", "b", "d"], ["a", "d", "e"]] {
        let init = set.run_on(stores, "across init", &[]);
        init.fails(64, &["was created for the stores", "Nothing was written"]);
    }
    assert_eq!(set.run("across init", &[]).code, 0);
    let marker = fs::read_dir(set.bench.path("c")).expect("c").flatten().map(|it| it.path());
    let marker = marker.filter(|it| it.is_file()).last().expect("the marker");
    fs::remove_file(&marker).expect("the marker");
    assert_eq!(set.run("across init", &[]).code, 0);
    assert!(marker.exists(), "the set is complete");
}

/// Before the fix, `status` reported the record of a job as unreadable if the first store failed.
#[test]
fn regression_status_of_a_set_does_not_read_the_record_of_a_job() {
    let set = Set::with_markers();
    fs::write(set.bench.path("a").join("once-per.json"), "{").expect("a file");
    set.leads("1");
    let status = set.run("status", &[]);
    assert!(status.code == 0 && !status.out.contains("period"), "{status:?}");
    let history = set.run("history", &[]);
    assert!(history.code == 0 && history.err.is_empty(), "{history:?}");
    set.run("status", &["--last-period-within", "1h"]).fails(64, &["one store"]);
}

#[test]
fn the_epochs_of_a_new_set_continue_above_an_epoch_of_an_old_set() {
    let set = Set::new();
    let init = set.run("across init", &["--epoch", "41", "--wait", "1s", "--json"]);
    assert_eq!((init.code, &init.json_lines()[0]["epoch"]), (0, &41.into()), "{init:?}");
    set.leads("42");
    assert_eq!(set.run("across init", &["--wait", "1s"]).code, 64);
    set.run("across init", &["--epoch", "43"]).fails(64, &["Choose another prefix"]);
}

#[test]
fn the_variable_tenure_store_lists_all_stores_for_cmd() {
    let set = Set::with_markers();
    let script = "test -n \"$TENURE_STORE\" && exec $TENURE status --field leader";
    let mut run = command(&["run", "--name", "one", "--", "sh", "-c", script]);
    let urls = ["a", "b", "c"].map(|store| set.url(store)).join(" ");
    let run =
        said(run.env("TENURE_STORE", urls).env("TENURE", crate::TENURE).output().expect("it runs"));
    assert_eq!((run.code, &*run.out), (0, "one\n"), "{run:?}");
}

#[test]
fn regression_a_wrong_number_of_stores_of_a_set_is_refused() {
    let set = Set::with_markers();
    let (a, b) = (set.url("a"), set.url("b"));
    let one = |verb: &[&str]| tenure(&[verb, &["--store", &a]].concat());
    // Before the fix, a restore of one store of an unused set succeeded. Then the candidates of the
    // set refused the epoch that the restore had created.
    one(&["restore", "--epoch", "9"]).fails(64, &["across stores", "tenure across replace"]);
    set.leads("1");
    tenure(&["run", "--store", &a, "--", "true"]).fails(64, &["across stores", "all its stores"]);
    one(&["status"]).fails(64, &["across stores"]);
    one(&["depose"]).fails(64, &["across stores"]);
    one(&["across", "status"]).fails(64, &["3 or 5 times"]);
    tenure(&["status", "--store", &a, "--store", &b]).fails(64, &["not 2 times"]);
    set.run("restore", &["--epoch", "9"]).fails(64, &["one store"]);
    set.run("run", &["--once-per", "1h", "--", "true"]).fails(64, &["--once-per"]);
    set.run("run", &["--unique-name", "--name", "a", "--", "true"]).fails(64, &["name_is_unique"]);
    set.run_on(["b", "a", "c"], "run", &["--", "true"]).fails(64, &["order of their markers"]);
}

#[test]
fn a_lost_store_is_replaced_and_an_old_store_is_moved() {
    let set = Set::with_markers();
    set.leads("1");
    fs::remove_dir_all(set.bench.path("b")).expect("a directory");
    set.leads("2");
    let status = set.run("across status", &[]);
    assert!(status.code != 0 || status.out.contains("marker"), "{status:?}");
    let undeclared = set.run("across replace", &["--number", "2"]);
    assert!(undeclared.code == 64 && undeclared.err.contains("--old-is-unreachable"));
    let replace =
        set.run("across replace", &["--number", "2", "--validity", "1s", "--old-is-unreachable"]);
    assert_eq!(replace.code, 0, "{replace:?}");
    assert!(replace.out.contains("generation 2, from epoch 2"), "{replace:?}");
    set.leads("3");
    let old = set.url("c");
    let options = ["--number", "3", "--validity", "1s", "--old", &old, "--json"];
    let moved = set.run_on(["a", "b", "d"], "across move", &options);
    assert_eq!(moved.json_lines()[0]["generation"], 2);
    let run = set.run_on(["a", "b", "d"], "run", &["--", "sh", "-c", "echo $TENURE_EPOCH"]);
    assert_eq!((run.code, &*run.out), (0, "4\n"), "{run:?}");
    let status = set.run_on(["a", "b", "d"], "across status", &["--json"]).json_lines().remove(0);
    let generations = status["stores"].as_array().expect("stores").iter();
    let generations: Vec<_> = generations.map(|store| store["generation"].as_u64()).collect();
    assert_eq!(generations, [Some(1), Some(2), Some(2)], "{status}");
}

/// Before the fix, the exit code was 0.
#[test]
fn regression_status_of_a_set_without_a_majority_fails() {
    let set = Set::with_markers();
    set.leads("1");
    for (store, code) in [("b", 0), ("c", 69)] {
        fs::remove_dir_all(set.bench.path(store)).expect("a directory");
        fs::create_dir(set.bench.path(store)).expect("a directory");
        let status = set.run("across status", &[]);
        assert_eq!((status.code, status.out.lines().count()), (code, 4), "{status:?}");
    }
    let status = set.run("across status", &["--json"]);
    assert!(status.code == 69 && status.out.contains("\"no_majority\""), "{status:?}");
}

#[test]
fn probe_checks_each_store_and_the_set() {
    let set = Set::new();
    for store in ["a", "b", "c"] {
        fs::create_dir(set.bench.path(store)).expect("a directory");
    }
    let probe = set.run("probe", &["--rounds", "2"]);
    assert_eq!((probe.code, probe.out.matches("no fault seen").count()), (0, 3), "{probe:?}");
    assert!(probe.out.contains("Create the markers once"), "{probe:?}");
    assert_eq!(set.run("across init", &[]).code, 0);
    let probe = set.run("probe", &["--rounds", "2", "--json"]).json_lines();
    assert_eq!((probe.len(), &probe[3]["state"]), (4, &"vacant".into()));
}

#[test]
fn the_history_has_the_epochs_of_all_stores() {
    let set = Set::with_markers();
    set.leads("1");
    set.leads("2");
    // Prepare epoch 3: an attempt created it at one store only.
    let key =
        |store: &str, epoch: u32| set.bench.path(store).join(format!("lock-{epoch:010}.json"));
    // A resignation returns once two stores have the seal.
    let records = ["a", "b", "c"].map(|store| fs::read_to_string(key(store, 2)).expect("epoch 2"));
    let sealed = records.iter().find(|record| record.contains("resigned")).expect("a seal");
    fs::write(key("a", 2), sealed).expect("epoch 2");
    fs::write(key("b", 2), sealed).expect("epoch 2");
    fs::write(key("a", 3), sealed.replace("resigned", "abandoned")).expect("epoch 3");
    fs::remove_file(key("c", 2)).expect("epoch 2");
    let history = set.run("history", &["--json"]);
    let lines = history.json_lines();
    let stores: Vec<String> = lines.iter().map(|line| line["stores"].to_string()).collect();
    assert_eq!(stores[0], r#"["held","held","held"]"#, "{history:?}");
    assert_eq!(stores[1], r#"["held","held","absent"]"#, "{history:?}");
    assert_eq!(lines[1]["granted"], true);
    assert_eq!((&lines[2]["granted"], &lines[2]["end"]), (&false.into(), &"given_up".into()));
    let history = set.run("history", &[]);
    assert!(history.out.contains("resigned; absent at 3"), "{history:?}");
    assert!(history.out.contains("no majority: absent at 2, 3"), "{history:?}");
}

#[cfg(feature = "s3")]
#[test]
fn the_history_names_a_store_that_does_not_answer() {
    let set = Set::with_markers();
    set.leads("1");
    let down = "s3://down?region=eu-west-1&endpoint=http://127.0.0.1:1";
    let mut history = command(&["history"]);
    history.env("TENURE_STORE", format!("{} {} {down}", set.url("a"), set.url("b")));
    history.env("AWS_ACCESS_KEY_ID", "KEY").env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
    let history = said(history.output().expect("it runs"));
    assert!(history.code == 0 && history.err.contains("s3://down"), "{history:?}");
    assert!(history.out.contains("unknown at 3"), "{history:?}");
}

#[test]
fn depose_seals_a_majority() {
    let set = Set::with_markers();
    let script = "$TENURE depose --reason test >&2; sleep 60";
    let urls = ["a", "b", "c"].map(|store| set.url(store)).join(" ");
    let mut run = command(&["run", "--validity", "3s", "--", "sh", "-c", script]);
    let run =
        said(run.env("TENURE_STORE", urls).env("TENURE", crate::TENURE).output().expect("it runs"));
    assert_eq!(run.code, 75, "{run:?}");
    let status = set.run("status", &["--json"]).json_lines().remove(0);
    assert_eq!(
        (&status["state"], &status["reason"]),
        (&"vacant".into(), &"test".into()),
        "{status}"
    );
}

/// The environment names other keys, another region and a server that does not exist.
#[cfg(feature = "s3")]
#[test]
fn each_url_has_its_region_endpoint_and_profile() {
    let bench = Bench::new();
    let servers = [(); 3].map(|()| S3Server::start_blocking());
    let (mut profiles, mut urls) = (String::new(), Vec::new());
    for (server, n) in servers.iter().zip(1..) {
        server.add_user(&format!("KEY{n}"), SECRET_KEY, &[]);
        let (region, endpoint) = (format!("eu-west-{n}"), server.endpoint());
        profiles += &format!(
            "[profile team@{n}]\naws_access_key_id = KEY{n}\naws_secret_access_key = {SECRET_KEY}\n"
        );
        let mut options = format!("?profile=team%40{n}");
        // The third store takes its region and its endpoint from the profile, the others from the
        // URL.
        match n {
            3 => profiles += &format!("region = {region}\nendpoint_url = {endpoint}\n"),
            _ => options += &format!("&region={region}&endpoint={endpoint}"),
        }
        urls.push(format!("s3://{BUCKET}/app{options}"));
    }
    let config = bench.path("config");
    fs::write(&config, profiles).expect("a file");
    let run = |verb: &[&str]| {
        let mut run = command(verb);
        run.env("TENURE_STORE", urls.join(" ")).env("AWS_CONFIG_FILE", &config);
        run.env("AWS_ACCESS_KEY_ID", "OTHER").env("AWS_SECRET_ACCESS_KEY", SECRET_KEY);
        run.env("AWS_REGION", "us-east-1").env("AWS_ENDPOINT_URL", "http://127.0.0.1:1");
        said(run.output().expect("it runs"))
    };
    let other = format!("s3://{BUCKET}/app?profile=other&region=eu-west-1");
    run(&["status", "--store", &other]).fails(64, &["profile \"other\" is not in the AWS files"]);
    let init = run(&["across", "init"]);
    assert_eq!(init.code, 0, "{init:?}");
    let elected = run(&["run", "--", "sh", "-c", "echo $TENURE_EPOCH"]);
    assert_eq!((elected.code, &*elected.out), (0, "1\n"), "{elected:?}");
    for (server, n) in servers.iter().zip(1..) {
        let requests = server.requests();
        assert!(!requests.is_empty());
        for request in requests {
            let signed = request.headers["authorization"].to_str().expect("a header");
            let scope = signed.split(['=', ',']).nth(1).expect("a scope");
            assert!(scope.starts_with(&format!("KEY{n}/")), "{signed}");
            assert!(scope.contains(&format!("/eu-west-{n}/")), "{signed}");
        }
    }
}
