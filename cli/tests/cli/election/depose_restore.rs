//! Tests of `tenure depose` and `tenure restore`.

use std::io::{BufRead as _, BufReader};
use std::process::Child;

use serde_json::json;

use crate::bench::{Bench, said, spawn};
use tenure_testkit::command::{output, with_deadline};

const LAYOUTS: [&[&str]; 2] = [&[], &["--layout", "single-object"]];
const FOREIGN: &str = r#"{"expired":false,"validity_ms":60000}"#;

fn with<'a>(layout: &[&'a str], options: &[&'a str]) -> Vec<&'a str> {
    [layout, options].concat()
}

/// Starts a leader with a lease of 20 s, and waits until it leads.
fn leader(bench: &Bench, layout: &[&str]) -> Child {
    let url = bench.url();
    let line = ["run", "--store", &url, "--name", "a", "--validity", "20s"];
    let script = ["--", "sh", "-c", "echo leads; exec sleep 300"];
    let mut child = spawn(&[], &[&line[..], layout, &script].concat());
    let id = child.id();
    let out = child.stdout.as_mut().expect("the output is a pipe");
    let mut first = String::new();
    let mut out = BufReader::new(out);
    with_deadline(id, || out.read_line(&mut first)).expect("text");
    assert_eq!(first, "leads\n");
    child
}

#[test]
fn a_deposed_leader_loses_its_lease() {
    for layout in LAYOUTS {
        let bench = Bench::new();
        let child = leader(&bench, layout);
        bench
            .run("depose", &with(layout, &["--epoch", "2"]))
            .fails(73, &["newest epoch is 1, granted to a"]);
        let told =
            bench.json("depose", &with(layout, &["--epoch", "1", "--name", "ann", "--json"]));
        let expected = json!({
            "outcome": "deposed", "epoch": 1, "candidate": "a", "ended": "deposed", "wait_ms": 20200,
        });
        assert_eq!(told, expected);
        let said = said(output(child));
        assert_eq!(said.code, 75, "{said:?}");
        assert!(said.err.contains("lost epoch 1: ann sealed the epoch (deposed)"), "{said:?}");
        let again = bench.run("depose", layout);
        assert_eq!(
            (again.code, again.out.as_str()),
            (0, "epoch 1 of a is sealed already: deposed\n")
        );
        let forced = bench.run("depose", &with(layout, &["--force"]));
        let line = "deposed a from epoch 1; a successor need not wait\n";
        assert_eq!((forced.code, forced.out.as_str()), (0, line));
        let next = bench.run("run", &with(layout, &["--", "sh", "-c", "echo $TENURE_EPOCH"]));
        assert_eq!((next.code, next.out.as_str()), (0, "2\n"), "without a wait: {next:?}");
    }
}

#[test]
fn depose_needs_a_leader_and_a_known_validity() {
    for layout in LAYOUTS {
        let bench = Bench::new();
        bench.run("depose", layout).fails(73, &["vacant"]);
    }
    let bench = Bench::new();
    bench.epoch(3, FOREIGN);
    bench.run("depose", &[]).fails(73, &["epoch 3 does not contain", "--epoch 3 --force"]);
    bench.run("depose", LAYOUTS[1]).fails(64, &["--layout epoch-files"]);
    bench.run("depose", &["--epoch", "0"]).fails_to_parse();
    assert_eq!(bench.run("depose", &["--epoch", "3", "--force"]).code, 0);
    bench.epoch(4, "no record");
    bench.run("depose", &[]).fails(73, &["--epoch 4 --force"]);
    assert_eq!(bench.run("depose", &["--force"]).code, 0);
    let next = bench.run("run", &["--", "sh", "-c", "echo $TENURE_EPOCH"]);
    assert_eq!((next.code, next.out.as_str()), (0, "5\n"), "{next:?}");
}

#[test]
fn a_restored_election_continues_above_the_epoch() {
    for layout in LAYOUTS {
        let bench = Bench::new();
        let told = bench.json("restore", &with(layout, &["--epoch", "41", "--json"]));
        assert_eq!((&told["outcome"], &told["epoch"]), (&json!("restored"), &json!(41)));
        let again = bench.run("restore", &with(layout, &["--epoch", "41"]));
        let line = "epoch 41 was already restored: the next leader gets epoch 42. 41 must be at \
                    least the greatest token that any guarded resource has seen\n";
        assert_eq!((again.code, again.out.as_str()), (0, line));
        let status = bench.run("status", layout);
        assert!(status.out.starts_with("state      vacant: restored by "), "{status:?}");
        let next = bench.run("run", &with(layout, &["--", "sh", "-c", "echo $TENURE_EPOCH"]));
        assert_eq!((next.code, next.out.as_str()), (0, "42\n"), "{next:?}");
        for epoch in ["1", "41", "42"] {
            let words = ["epoch 42 exists", "nothing was changed", "greatest token"];
            bench.run("restore", &with(layout, &["--epoch", epoch])).fails(73, &words);
        }
        let other = LAYOUTS[usize::from(layout.is_empty())];
        bench.run("restore", &with(other, &["--epoch", "50"])).fails(64, &["other layout"]);
        bench.run("restore", &with(layout, &["--epoch", "9999999999"])).fails(70, &["last epoch"]);
    }
}

/// A restore to epoch 20 is unfinished, so no leader can be elected. Before the fix, a restore to
/// epoch 10 nevertheless reported that epochs continue.
#[test]
fn regression_the_error_names_an_unfinished_restore_to_a_greater_epoch() {
    let held = r#"{"expired":false,"nonce":"00000000000000000000000000000001","heartbeat":1,
        "ended":"restored","data":{"restored_above":0,"wait_ms":0}}"#;
    let bench = Bench::new();
    bench.epoch(10, held);
    bench.epoch(20, held);
    let said = bench.run("restore", &["--epoch", "10", "--wait", "90s"]);
    said.fails(73, &["epoch 20 is unfinished", "`tenure restore --epoch 20 --wait 1m30s`"]);
    let said = bench.run("depose", &["--epoch", "10", "--force"]);
    said.fails(73, &["`tenure restore --epoch 20`"]);
    assert_eq!(bench.run("restore", &["--epoch", "20", "--wait", "1m30s"]).code, 0);
    let said = bench.run("restore", &["--epoch", "10", "--wait", "2m"]);
    said.fails(73, &["epoch 20 was already restored", "an epoch above 20"]);
}

impl crate::bench::Said {
    fn fails_to_parse(&self) {
        assert_eq!((self.code, self.out.as_str()), (64, ""), "{self:?}");
    }
}

/// Before the fix, the error for a lock without a token gave the remedy `depose --force`, but this
/// command failed with the same error.
#[test]
fn regression_the_error_of_a_lock_without_a_token_names_the_remedy() {
    let bench = Bench::new();
    bench.lock(r#"{"expires_at": 1740151473.2}"#);
    let single = LAYOUTS[1];
    for verb in ["status", "depose", "history"] {
        let said = bench.run(verb, single);
        said.fails(70, &["lock.json", "`token` is missing", "tenure restore --epoch"]);
    }
    let said = bench.run("restore", &with(single, &["--epoch", "41"]));
    said.fails(73, &["lock.json cannot be read", "nothing was changed", "`--wait 1ms`"]);
    let restored = bench.run("restore", &with(single, &["--epoch", "41", "--wait", "1ms"]));
    assert_eq!(restored.code, 0, "{restored:?}");
    let next = bench.run("run", &with(single, &["--", "sh", "-c", "echo $TENURE_EPOCH"]));
    assert_eq!((next.code, next.out.as_str()), (0, "42\n"), "{next:?}");
}

/// Before the fix, a forced deposition of an already deposed epoch recorded a lapse. So the record
/// no longer showed the deposition, its time and the name of the operator.
#[test]
fn regression_a_forced_deposition_is_recorded_as_a_deposition() {
    let held = r#"{"expired":false,"validity_ms":600000,"format":1,"candidate":"a","nonce":
        "0123456789abcdef0123456789abcdef","heartbeat":4}"#;
    let record = |bench: &Bench| {
        let text = std::fs::read_to_string(bench.path("store/lock-0000000003.json"));
        let text = text.expect("the epoch");
        // The directory store prepends a line to each file, so the record begins after the first
        // line.
        let (_, record) = text.split_once('\n').expect("the file has at least two lines");
        serde_json::from_str::<serde_json::Value>(record).expect("a record")
    };
    let bench = Bench::new();
    bench.epoch(3, held);
    let reason = ["--name", "ann", "--reason", "disk\u{202e} drill"];
    assert_eq!(bench.run("depose", &reason).code, 0);
    let first = record(&bench);
    assert_eq!((&first["ended"], &first["sealed_by"]), (&json!("deposed"), &json!("ann")));
    let status = bench.run("status", &[]).out;
    let line = "state      vacant: deposed by ann (disk\\u{202e} drill)\n";
    assert!(status.starts_with(line), "{status}");
    assert_eq!(bench.run("depose", &["--force", "--name", "bob"]).code, 0);
    // The record has `lapsed` in `ended`, because candidates of earlier versions of tenure then
    // take over without a wait.
    let second = record(&bench);
    for (field, value) in [
        ("ended", json!("lapsed")),
        ("forced_by", json!("bob")),
        ("sealed_by", json!("ann")),
        ("sealed_at", first["sealed_at"].clone()),
        ("reason", first["reason"].clone()),
    ] {
        assert_eq!(second[field], value, "{field}");
    }
    let status = bench.run("status", &[]).out;
    let line = "state      vacant: deposed as dead by bob (disk\\u{202e} drill)\n";
    assert!(status.starts_with(line), "{status}");
    let status = bench.json("status", &["--json"]);
    let fields = ["ended", "sealed_by", "forced_by", "reason"].map(|field| status[field].as_str());
    let expected = ["deposed_dead", "ann", "bob", "disk\u{202e} drill"].map(Some);
    assert_eq!(fields, expected);
    let history = bench.run("history", &[]).out;
    assert!(history.contains("  deposed as dead by bob (disk"), "{history}");
    let epoch = bench.run("history", &["--json"]).out;
    assert!(epoch.contains(r#""reason":"disk\u202e drill""#), "{epoch}");
    let again = bench.run("depose", &["--force"]);
    assert_eq!(again.out, "epoch 3 of a is sealed already: deposed_dead\n");
    let long = "r".repeat(1_001);
    bench.run("depose", &["--reason", &long]).fails(64, &["at most 1000 bytes, got 1001"]);
    let next = bench.run("run", &["--", "sh", "-c", "echo $TENURE_EPOCH"]);
    assert_eq!((next.code, next.out.as_str()), (0, "4\n"), "{next:?}");
}
