//! Tests of `tenure group status --field` and `--exit-code`, and of `tenure group watch --exec`.

use tenure_groups::{MembershipEvent, Partition};

use super::*;

/// Runs the member in the background, so that it releases each partition that is revoked.
fn work(scene: &mut Scene) {
    let mut membership = scene.membership.take().expect("the member has joined and has not left");
    scene.runtime.spawn(async move {
        let mut owned = Vec::new();
        while let Some(event) = membership.next().await {
            match event {
                MembershipEvent::Granted(partition) => owned.push(partition),
                MembershipEvent::Revoked { number, .. } => {
                    let at = owned.iter().position(|it: &Partition| it.number() == number);
                    owned.remove(at.expect("the partition was granted")).release();
                }
                _ => {}
            }
        }
    });
}

#[test]
fn the_exit_code_shows_whether_each_partition_has_an_owner() {
    let none = Bench::new();
    let url = none.url();
    let code = |url: &str| {
        let codes = [&["--exit-code"][..], &["--exit-code", "--json"]].map(|options| {
            let said = tenure(&[&["group", "status", "--store", url], options].concat());
            assert!(!said.out.is_empty() && said.err.is_empty(), "{said:?}");
            assert_eq!(tenure(&["group", "status", "--store", url]).code, 0);
            said.code
        });
        assert_eq!(codes[0], codes[1]);
        codes[0]
    };
    assert_eq!(code(&url), 1, "no group");
    let mut scene = Scene::new("w1", 2);
    work(&mut scene);
    let url = scene.bench.url();
    assert_eq!(code(&url), 0, "the member owns both partitions");
    let now = || scene.run("status", &["--exit-code"]).code;
    assert_eq!(scene.run("pause", &["1"]).code, 0);
    eventually("the member releases the partition", || now() == 1);
    assert_eq!(code(&url), 1, "one partition has no owner");
    assert_eq!(scene.run("resume", &["1"]).code, 0);
    eventually("the member owns both partitions again", || now() == 0);
}

#[test]
fn field_prints_only_the_value() {
    let none = Bench::new();
    assert_eq!(none.run("group status", &["--field", "epoch"]).out, "\n");
    let scene = Scene::new("w\u{202e}1", 2);
    let status = scene.status();
    for name in ["epoch", "partitions", "unattended"] {
        let said = scene.run("status", &["--field", name, "--exit-code"]);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
        let line = said.out.strip_suffix('\n').expect("a line");
        assert!(!line.contains(['\n', '\u{202e}']), "{line:?}");
        assert_eq!(serde_json::from_str::<Value>(line).expect("JSON"), status[name]);
    }
    for (options, word) in [
        (&["--field", "member"][..], "epoch, members, partitions, unattended, unfinished_restore"),
        (&["--field", "epoch", "--json"], "--json"),
        (&["--field", "epoch", "--partitions"], "--partitions"),
    ] {
        let said = scene.run("status", options);
        assert_eq!((said.code, said.out.as_str()), (64, ""), "{said:?}");
        assert!(said.err.contains(word), "{said:?}");
    }
}

fn lines(scene: &Scene) -> Vec<String> {
    let text = std::fs::read_to_string(scene.bench.path("log")).unwrap_or_default();
    text.lines().map(str::to_owned).collect()
}

#[test]
fn cmd_runs_for_the_newest_change_of_each_partition() {
    let mut scene = Scene::new("w\u{202e}1", 3);
    work(&mut scene);
    // The first run of CMD lasts until the file `go` exists. Changes of the group during this run
    // start CMD again only after the run has ended.
    let command = "read -r line; until test -e \"$DIR/go\"; do sleep 0.05; done
        printf '%s|%s|%s|%s|%s\\n' \"$TENURE_STATE\" \"$TENURE_PARTITION\" \"$TENURE_EPOCH\" \
            \"$TENURE_OWNER\" \"$line\" >>\"$DIR/log\"";
    let env = [
        ("DIR", scene.bench.path("").display().to_string()),
        // `tenure group watch` must replace this inherited variable.
        ("TENURE_OWNER", "inherited".to_owned()),
    ];
    let url = scene.bench.url();
    let line = ["group", "watch", "--store", &url, "--poll", "50ms", "--exec", command];
    let mut child = spawn(&env, &line);
    let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let mut next = || {
        let mut text = String::new();
        with_deadline(child.id(), || out.read_line(&mut text)).expect("text");
        text
    };
    for partition in 0..3 {
        let line = next();
        assert!(line.contains(&format!("Z  {partition}  - -> w\\u{{202e}}1  token ")), "{line:?}");
    }
    // While CMD runs for partition 0, partition 1 loses its owner, and partition 2 loses its owner
    // and gets it back.
    assert_eq!(scene.run("pause", &["1,2"]).code, 0);
    let gone = [next(), next()];
    assert!(gone.iter().all(|line| line.contains(" -> -  token ")), "{gone:?}");
    assert_eq!(scene.run("resume", &["2"]).code, 0);
    let back = next();
    assert!(back.contains("Z  2  - -> w"), "{back:?}");
    std::fs::write(scene.bench.path("go"), "").expect("a file");
    eventually("CMD has run for each partition", || lines(&scene).len() == 3);
    let all = lines(&scene);
    let token = |at: usize| scene.status()["partitions"][at]["token"].to_string();
    for (line, (at, state, owner)) in
        all.iter().zip([(0, "held", "w\\u{202e}1"), (1, "vacant", ""), (2, "held", "w\\u{202e}1")])
    {
        let start = format!("{state}|{at}|{}|{owner}|", token(at));
        let json = line
            .strip_prefix(&start)
            .unwrap_or_else(|| panic!("{line:?} does not start with {start:?}"));
        let json: Value = serde_json::from_str(json).expect("each line is one JSON object");
        assert_eq!((&json["number"], json["to"].is_null()), (&json!(at), owner.is_empty()));
    }
    kill(Pid::from_raw(child.id().cast_signed()), Signal::SIGTERM).expect("the command runs");
    assert_eq!(ended(&mut child).code(), Some(0));
    assert_eq!(lines(&scene).len(), 3, "CMD has not run for skipped changes");
}
