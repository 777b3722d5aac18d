//! Tests of `tenure group status` and `tenure group watch` after members have left or died.

use std::fs::File;

use tenure_groups::MembershipEvent;

use super::*;

/// Makes the only member leave, and so ends its session. No other member remains to write an
/// assignment.
fn leave(scene: &mut Scene) {
    let mut membership = scene.membership.take().expect("the member has joined and has not left");
    scene.runtime.block_on(async move {
        membership.leave();
        let mut owned = Vec::new();
        while let Some(event) = membership.next().await {
            match event {
                MembershipEvent::Granted(partition) => owned.push(partition),
                MembershipEvent::Revoked { .. } => owned.drain(..).for_each(|it| it.release()),
                _ => {}
            }
        }
    });
}

/// Sets the modification time of the session's object back by this duration.
fn age_session(scene: &Scene, age: Duration) {
    let status = scene.status();
    let session = status["members"][0]["session"].as_str().expect("text");
    let object = scene.bench.path("store").join("members").join(session).join("lock.json");
    let file = File::options().write(true).open(object).expect("the session");
    let written = file.metadata().and_then(|it| it.modified()).expect("the file has a date");
    file.set_modified(written - age).expect("the file belongs to this user");
}

#[test]
fn regression_a_group_without_members_is_not_healthy() {
    let mut scene = Scene::new("w1", 3);
    assert_eq!(scene.run("status", &["--exit-code"]).code, 0);
    leave(&mut scene);
    let status = scene.status();
    assert_eq!(status["unattended"], 3);
    assert_eq!(status["members"][0]["session_state"], "resigned");
    let said = scene.run("status", &["--exit-code"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("\npartitions 3; none has a live owner\n"), "{said:?}");
    assert!(said.out.contains("  resigned  -    1       -     yes "), "{said:?}");
    let partitions = scene.run("status", &["--partitions"]).out;
    assert_eq!(partitions.matches("  w1 (resigned)  ").count(), 3, "{partitions}");
    assert_eq!(scene.run("status", &["--field", "unattended"]).out, "3\n");
}

#[test]
fn regression_a_group_of_dead_members_is_not_healthy() {
    let mut scene = Scene::new("w1", 2);
    scene.lose_the_member();
    age_session(&scene, Duration::from_secs(20));
    assert_eq!(scene.run("status", &["--exit-code"]).code, 0, "its lease may last");
    age_session(&scene, Duration::from_secs(600));
    let status = scene.status();
    assert_eq!(status["members"][0]["session_state"], "lapsed");
    assert!(status["members"][0]["age_ms"].as_u64().is_some_and(|age| age >= 600_000));
    let said = scene.run("status", &["--exit-code"]);
    assert_eq!(said.code, 1, "{said:?}");
    assert!(said.out.contains("none has a live owner"), "{said:?}");
    assert!(said.out.contains("  lapsed  10m"), "{said:?}");
    // Delete the ended session of the member, as a compactor does.
    std::fs::remove_dir_all(scene.bench.path("store").join("members")).expect("the sessions");
    assert_eq!(scene.status()["members"][0]["session_state"], "missing");
    assert_eq!(scene.run("status", &["--exit-code"]).code, 1);
}

#[test]
fn regression_watch_reports_the_end_of_the_session_of_an_owner() {
    let scene = Scene::with_validity("w1", 1, Duration::from_secs(5));
    let mut child = spawn(&[], &["group", "watch", "--store", &scene.bench.url()]);
    let mut out = BufReader::new(child.stdout.take().expect("the output is a pipe"));
    let id = child.id();
    let mut next = || {
        let mut line = String::new();
        with_deadline(id, || out.read_line(&mut line)).expect("text");
        line
    };
    assert!(next().contains("Z  0  - -> w1  token "));
    assert_eq!(scene.run("depose", &["w1"]).code, 0);
    let gone = next();
    assert!(gone.contains("Z  0  w1 -> -  token ") && gone.ends_with("  deposed\n"), "{gone:?}");
    kill(Pid::from_raw(id.cast_signed()), Signal::SIGTERM).expect("the command runs");
    assert_eq!(ended(&mut child).code(), Some(0));
}
