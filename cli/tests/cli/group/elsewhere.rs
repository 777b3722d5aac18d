//! Tests that verbs for elections report a group, and that verbs for groups report an election.

use super::*;

const HELD: &str = r#"{"expired":false,"validity_ms":30000,"format":1,"candidate":"a","nonce":
    "0123456789abcdef0123456789abcdef","heartbeat":4}"#;
const SINGLE: &str = r#"{"expires_at":4000000000.5,"token":7}"#;

#[test]
fn regression_verbs_of_an_election_report_a_group() {
    let scene = Scene::new("w1", 1);
    let words = |command| ["a partition group here, and no election", command];
    for (verb, options, command) in [
        ("status", &["--json"][..], "`tenure group status`"),
        ("status", &["--layout", "single-object"], "`tenure group status`"),
        ("watch", &[], "`tenure group watch`"),
        ("history", &[], "`tenure group history`"),
        ("depose", &[], "`tenure group depose`"),
        ("compact", &[], "`tenure compact --group`"),
        ("compact", &["--every", "1h"], "`tenure compact --group`"),
    ] {
        scene.bench.run(verb, options).fails(64, &words(command));
    }
    // If an election and a group share a prefix, the verbs of both accept this prefix.
    scene.bench.epoch(3, HELD);
    for verb in ["status", "history", "compact", "group status", "group history", "depose"] {
        let said = scene.bench.run(verb, &[]);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{verb}: {said:?}");
    }
    assert_eq!(scene.bench.run("compact", &["--group"]).code, 0);
}

#[test]
fn regression_verbs_of_a_group_report_an_election() {
    for (object, body, option) in
        [("lock-0000000003.json", HELD, ""), ("lock.json", SINGLE, " --layout single-object")]
    {
        let bench = Bench::new();
        bench.object(object, body);
        for (verb, options, command) in [
            ("group status", &["--exit-code"][..], "status"),
            ("group watch", &[], "watch"),
            ("group history", &[], "history"),
            ("group depose", &["w1"], "depose"),
            ("group pause", &["0"], "status"),
            ("group resize", &["--partitions", "0..4"], "status"),
            ("compact", &["--group"], "compact"),
            ("compact", &["--group", "--every", "1h"], "compact"),
        ] {
            let command = format!("use `tenure {command}{option}`");
            bench.run(verb, options).fails(64, &["an election here, and no", &command]);
        }
    }
}

/// Before the fix, `tenure run` led on the prefix of a group, and `tenure group run` joined on the
/// prefix of an election.
#[test]
fn regression_candidates_refuse_a_group_and_members_refuse_an_election() {
    let scene = Scene::new("w1", 1);
    let run = |bench: &Bench, verb: &str, options: &[&str], command: &str| {
        let before = bench.objects();
        let said = match verb {
            "serve" => {
                let named = format!("x={}", bench.url());
                let line = [&["serve", "--listen", "127.0.0.1:0"], options, &[&named]].concat();
                tenure(&line)
            }
            verb => bench.run(verb, options),
        };
        said.fails(64, &[command]);
        assert_eq!(bench.objects(), before);
    };
    run(&scene.bench, "run", &["--forever", "--", "true"], "`tenure group run`");
    run(&scene.bench, "serve", &["--election"], "`tenure serve --group`");
    for (object, body) in [("lock-0000000003.json", HELD), ("lock.json", SINGLE)] {
        let bench = Bench::new();
        bench.object(object, body);
        run(&bench, "group run", &["--partitions", "0..4", "--", "true"], "`tenure run");
        run(&bench, "serve", &["--partitions", "0..4", "--group"], "`tenure serve --election");
    }
}
