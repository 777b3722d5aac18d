//! The settings of `run`, in flags, variables and a file, and what `config` says of them.

use std::fs;
use std::time::{Duration, SystemTime};

use nix::sys::signal::Signal;
use serde_json::{Value, json};

use crate::TENURE;
use crate::bench::{Bench, Said, command, said};
use tenure_testkit::command::eventually;
use tenure_testkit::command::scene::Scene;

/// `tenure` with these variables.
fn with(variables: &[(&str, &str)], line: &[&str]) -> Said {
    said(command(line).envs(variables.iter().copied()).output().expect("it runs"))
}

fn in_file(bench: &Bench, text: &str) -> String {
    fs::write(bench.path("tenure.toml"), text).expect("a file");
    bench.path("tenure.toml").display().to_string()
}

/// The value of a setting and where it is from.
fn of(said: &Said, setting: &str) -> (Value, String) {
    let rows = said.out.lines().map(|row| serde_json::from_str::<Value>(row).expect("JSON"));
    let row = rows.into_iter().find(|row| row["setting"] == setting);
    let row = row.unwrap_or_else(|| panic!("no {setting}: {said:?}"));
    (row["value"].clone(), row["source"].as_str().expect("text").to_owned())
}

#[test]
fn a_flag_counts_before_a_variable_and_that_before_the_file() {
    let bench = Bench::new();
    let file = in_file(
        &bench,
        "validity = '40s'\npoll = '4s'\nstore = 'file:///of-the-file'\nrequest-timeout = '1s'\n\
         [run]\nrequest-timeout = '2s'\nclock-drift-max = 0.02\nforever = true\nverify-renewals = false\n",
    );
    let line = ["--config", &file, "config", "--json", "run", "--validity", "60s"];
    let shown = with(&[("TENURE_POLL", "5s"), ("TENURE_VALIDITY", "50s")], &line);
    assert_eq!((shown.code, shown.err.as_str()), (0, ""));
    let expect = |setting: &str, value: Value, source: &str| {
        assert_eq!(of(&shown, setting), (value, source.to_owned()), "{setting}");
    };
    expect("validity", "60s".into(), "flag");
    expect("poll", "5s".into(), "variable");
    expect("store", "file:///of-the-file".into(), "file");
    expect("request-timeout", "2s".into(), "file");
    expect("clock-drift-max", "0.02".into(), "file");
    expect("forever", "true".into(), "file");
    expect("verify-renewals", "false".into(), "file");
    expect("renew", "20s".into(), "default");
    expect("grace", "10s".into(), "default");
    expect("poll-backoff", Value::Null, "default");
    let of_member = with(&[], &["config", "--json", "group", "run", "--validity", "60s"]);
    assert_eq!(of(&of_member, "grace"), ("10s".into(), "default".to_owned()));
    // For people: the name of the variable and of the file.
    let people = with(&[("TENURE_POLL", "5s"), ("TENURE_CONFIG", &file)], &["config"]);
    let has = |words: [&str; 3]| people.out.lines().any(|line| line.split_whitespace().eq(words));
    assert!(has(["poll", "5s", "TENURE_POLL"]), "{people:?}");
    assert!(has(["validity", "40s", &file]), "{people:?}");
}

#[test]
fn what_is_in_force_is_what_run_does() {
    let bench = Bench::new();
    let url = bench.url();
    let file =
        in_file(&bench, &format!("store = '{url}'\nname = 'of-the-file'\ndata = {{ at = 7 }}\n"));
    let script = ["run", "--", "sh", "-c", "tail -n +2 store/lock-0000000001.json"];
    let mut run = command(&script);
    run.env("TENURE_CONFIG", &file).env("TENURE_VALIDITY", "21s").current_dir(bench.path(""));
    let said = said(run.output().expect("it runs"));
    assert_eq!(said.code, 0, "{said:?}");
    let record: Value = serde_json::from_str(&said.out).expect("a record");
    assert_eq!(
        [&record["candidate"], &record["validity_ms"], &record["data"]],
        [&json!("of-the-file"), &json!(21_000), &json!({"at": 7})]
    );
    // An operator's verb has the store from there, too.
    let status = with(&[("TENURE_CONFIG", &file)], &["status", "--json"]);
    assert!(status.out.contains("\"resigned\""), "{status:?}");
    let status = with(&[("TENURE_STORE", &url)], &["status", "--json"]);
    assert!(status.out.contains("\"resigned\""), "{status:?}");
}

#[test]
fn wrong_settings_are_refused_with_where_they_stand() {
    let bench = Bench::new();
    let url = bench.url();
    for (text, words) in [
        ("valdity = '3s'", &["tenure.toml", "valdity is no setting", " validity "][..]),
        ("[watch]\nforever = true", &["watch has no setting forever"]),
        ("[rum]\nforever = true", &["rum is no verb"]),
        ("force = true", &["force is no setting"]),
        ("forever = 'yes'", &["forever must be true or false"]),
        ("validity = true", &["validity must be in quotes"]),
        ("validity = '3'", &["tenure.toml", "--validity", "time unit"]),
        ("validity", &["tenure.toml: not TOML"]),
        ("data = '{'", &["tenure.toml", "--data", "not JSON"]),
    ] {
        let file = in_file(&bench, text);
        let run = ["run", "--store", &url, "--config", &file, "--", "true"];
        crate::bench::tenure(&run).fails(64, words);
    }
    let line = ["run", "--store", &url, "--config", "/no/such/file", "--", "true"];
    crate::bench::tenure(&line).fails(64, &["cannot read the settings"]);
    let variable = |name: &str, value: &str, words: &[&str]| {
        with(&[(name, value)], &["run", "--store", &url, "--", "true"]).fails(64, words);
    };
    variable("TENURE_VALIDITY", "3", &["TENURE_VALIDITY: ", "time unit"]);
    variable("TENURE_FOREVER", "perhaps", &["TENURE_FOREVER must be true or false"]);
    assert_eq!(bench.objects(), [""; 0], "nothing was written");
    let off = with(&[("TENURE_FOREVER", "no")], &["run", "--store", &url, "--", "true"]);
    assert_eq!(off.code, 0, "{off:?}");
}

#[test]
fn settings_that_do_not_fit_together_are_refused_with_the_numbers() {
    let bench = Bench::new();
    for (options, words) in [
        (&["--renew", "20s"][..], &["20s until a renewal", "make 38s"][..]),
        (&["--request-timeout", "7s", "--renew", "5s"], &["7s", "to 6s"]),
        (&["--poll-backoff", "31s"], &["31s", "30s"]),
        (&["--poll", "lapse", "--poll-backoff", "20s"], &["poll_backoff"]),
        (&["--poll", "31s"], &["31s", "30s"]),
        (&["--clock-drift-max", "0.6"], &["0.6", "0.5"]),
        (&["--store-clock-margin", "1s"], &["1s", "2s"]),
        (&["--takeover-delay", "25h"], &["90000s", "86400s"]),
        (&["--data", "{"], &["not JSON"]),
        (&["--data", "1", "--data-file", "x"], &["--data or --data-file"]),
        (&["--data-file", "/no/such/file"], &["cannot read the data file"]),
        (&["--unique-name"], &["--name"]),
    ] {
        let said = bench.run("run", &[options, &["--", "true"]].concat());
        assert_eq!(said.code, 64, "{options:?}: {said:?}");
        words.iter().for_each(|word| assert!(said.err.contains(word), "{options:?}: {said:?}"));
        let shown = crate::bench::tenure(&[&["config", "run"][..], options].concat());
        assert_eq!(shown.code, 64, "config {options:?}: {shown:?}");
    }
    assert_eq!(bench.objects(), [""; 0], "nothing was written");
}

/// `--unique-name` needs `--name`, and the line alone was looked at: the variables did not count at
/// all.
#[test]
fn regression_a_flag_may_need_one_that_a_variable_or_the_file_gives() {
    let bench = Bench::new();
    let url = bench.url();
    let variables = [("TENURE_STORE", &*url), ("TENURE_NAME", "a")];
    let run = with(&variables, &["run", "--unique-name", "--", "true"]);
    assert_eq!(run.code, 0, "{run:?}");
    let shown = with(&variables, &["config", "--json", "run", "--unique-name"]);
    assert_eq!(of(&shown, "name"), ("a".into(), "variable".to_owned()));
    let file = in_file(&bench, "name = 'b'\n");
    let line = ["--config", &file, "run", "--store", &url, "--unique-name", "--", "true"];
    assert_eq!(with(&[], &line).code, 0);
    // What is missing, or wrong besides, is refused as before.
    let refused = |variables: &[(&str, &str)], line: &[&str], words: &str| {
        let said = with(variables, line);
        assert!(said.code == 64 && said.err.contains(words), "{words:?} is not in {said:?}");
    };
    refused(&[], &["run", "--store", &url, "--unique-name", "--", "true"], "--name <NAME>");
    refused(&[], &["config", "run", "--unique-name"], "--name <NAME>");
    refused(&variables, &["run", "--unique-name", "--valdity", "3s", "--", "true"], "--valdity");
    refused(&variables, &["run", "--unique-name", "--validity", "3", "--", "true"], "time unit");
}

/// With the name of its own leader, unique by promise, it would end that leader's lease.
#[test]
fn a_run_inside_cmd_does_not_pass_for_its_own_leader() {
    let scene = Scene::new(TENURE);
    let tenure = TENURE;
    let inner = format!(
        "TENURE_UNIQUE_NAME=1 {tenure} run --store {url} -- sh -c 'echo inner >inner'; \
         {tenure} config run >shown; echo ended >ended",
        url = scene.url()
    );
    let mut outer = scene.script("a", &["--unique-name", "--validity", "20s"], &inner);
    outer.says("waiting: a leads epoch 1");
    assert!(!scene.exists("inner"), "it leads beside its own leader");
    assert_eq!(scene.status()["candidate"], "a");
    outer.signal(Signal::SIGTERM);
    assert_eq!(outer.code(), 143, "{}", outer.said());
}

#[test]
fn serve_takes_a_list_of_elections_from_a_variable_and_from_the_file() {
    let bench = Bench::new();
    let file = in_file(&bench, "[serve]\nelection = ['a=file:///a', 'b=file:///b']\n");
    let shown = with(&[], &["--config", &file, "config", "--json", "serve"]);
    assert_eq!(of(&shown, "election"), ("a=file:///a b=file:///b".into(), "file".to_owned()));
    let twice = [("TENURE_ELECTION", "a=file:///a  a=file:///b")];
    with(&twice, &["--config", &file, "serve"]).fails(64, &["two elections are called a"]);
    let file = in_file(&bench, "election = [1]\n");
    with(&[], &["--config", &file, "serve"]).fails(64, &["election must be a list"]);
}

/// `[group]` is the table of the verb `group`, and `compact --group` is no setting.
#[test]
fn serve_takes_groups_and_their_partitions_from_variables_and_from_the_file() {
    let bench = Bench::new();
    let text = "poll = '2s'\n[serve]\ngroup = ['a=file:///a', 'b=file:///b']\n\
                partitions = ['a=0..2', 'b=x,y']\nleave-for = '1m'\n[group.run]\nweight = 3\n";
    let file = in_file(&bench, text);
    let shown = with(&[], &["--config", &file, "config", "--json", "serve"]);
    assert_eq!(of(&shown, "group"), ("a=file:///a b=file:///b".into(), "file".to_owned()));
    assert_eq!(of(&shown, "partitions"), ("a=0..2 b=x,y".into(), "file".to_owned()));
    assert_eq!(of(&shown, "leave-for"), ("1m".into(), "file".to_owned()));
    let member = with(&[], &["--config", &file, "config", "--json", "group", "run"]);
    assert_eq!(of(&member, "weight"), ("3".into(), "file".to_owned()));
    // A file whose group is that of the verb alone.
    let verb = in_file(&bench, "[group.run]\nweight = 3\n");
    let shown = with(&[], &["--config", &verb, "config", "--json", "serve"]);
    assert_eq!(of(&shown, "group"), (Value::Null, "default".to_owned()));
    let variables = [("TENURE_GROUP", "a=file:///a b=file:///b"), ("TENURE_PARTITIONS", "a=0..2")];
    with(&variables, &["serve"]).fails(64, &["the group b has no partitions", "b=0..64"]);
    // It acts on a group, and takes its store from elsewhere.
    let compact = with(&variables, &["config", "--json", "compact"]);
    assert!(compact.code == 0 && !compact.out.contains("\"group\""), "{compact:?}");
}

#[test]
fn a_restart_under_a_unique_name_waits_for_the_old_cmd_alone() {
    let scene = Scene::new(TENURE);
    // Its lapse would take longer than the test waits.
    let options = ["--validity", "4m", "--grace", "1s", "--unique-name"];
    let mut old =
        scene.script("a", &options, "trap '' TERM; echo $$ >old; while :; do sleep 1; done");
    let cmd = scene.number("old");
    old.signal(Signal::SIGKILL);
    assert_eq!(old.code(), 137);
    let script = format!("kill -0 {cmd} 2>/dev/null && echo beside >new || echo alone >new");
    let mut new = scene.script("a", &options, &script);
    assert_eq!(scene.wait_for_file("new"), "alone\n");
    assert_eq!(new.code(), 0, "{}", new.said());
    assert_eq!(scene.status()["epoch"], 2);
}

/// Dead for long by the store's own dates, it need not be watched for its validity.
#[test]
fn a_long_dead_leader_is_succeeded_at_once_by_the_stores_clock() {
    let bench = Bench::new();
    bench.epoch(1, r#"{"expired":false,"validity_ms":7200000,"candidate":"a","nonce":"a530ea12f742f371bcbcb23b4f9a616c"}"#);
    let file = fs::File::options().append(true).open(bench.path("store/lock-0000000001.json"));
    let long_ago = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    file.and_then(|file| file.set_modified(long_ago)).expect("an older date");
    let options = ["--store-clock-margin", "2s", "--", "sh", "-c", "echo $TENURE_EPOCH"];
    let said = bench.run("run", &options);
    assert_eq!((said.code, said.out.as_str()), (0, "2\n"), "{said:?}");
}

#[test]
fn the_record_follows_the_data_file() {
    let scene = Scene::new(TENURE);
    let file = scene.path("data.json");
    fs::write(&file, r#"{"at": "10.0.0.7"}"#).expect("a file");
    let options = ["--data-file", file.to_str().expect("text"), "--validity", "30s"];
    let mut leader = scene.script("a", &options, "echo runs >runs; sleep 300");
    scene.wait_for_file("runs");
    assert_eq!(scene.status()["data"], json!({"at": "10.0.0.7"}));
    fs::write(&file, r#"{"at": "#).expect("a file");
    leader.says("is not JSON");
    fs::write(&file, r#"{"at": "10.0.0.8"}"#).expect("a file");
    eventually("the record has the new data", || {
        scene.status()["data"] == json!({"at": "10.0.0.8"})
    });
    leader.signal(Signal::SIGTERM);
    assert_eq!(leader.code(), 143, "{}", leader.said());
    assert_eq!(leader.said().matches("is not JSON").count(), 1, "{}", leader.said());
}
