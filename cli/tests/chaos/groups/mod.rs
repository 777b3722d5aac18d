//! Runs five members of a group of 12 partitions, and a `tenure compact --group`, as processes.
//! Processes are killed and suspended (SIGSTOP), and requests, connections and the server fail.
//!
//! ```sh
//! cargo test --test chaos groups -- --nocapture
//! CHAOS_SECONDS=600 cargo test --test chaos groups::server_with_faults -- --nocapture
//! scripts/servers/ministack.sh -- cargo test --test chaos groups::server_of -- --ignored --nocapture
//! ```

use std::collections::BTreeSet;
use std::time::Duration;

use crate::backend::Backend;
use crate::child::{nap, now_ns};
use crate::rampage::{LOOK_EVERY, PATIENCE_NS, Rampage, Run, SECOND_NS, Victims as _};
use crate::stalls::Stalls;
use crate::watch::Seen;
use checker::Story;
use members::{Deed, Members};
use worker::Line;

mod assignments;
mod checker;
mod members;
mod worker;

const MEMBERS: usize = 5;
const PARTITIONS: u64 = 12;
const VALIDITY: Duration = Duration::from_secs(3);
const POLL: Duration = Duration::from_millis(300);
/// Maximum time from the end of the last fault to the time when the members have equal shares and
/// have written to each partition (GS1 in docs/design/groups.md). This time is four validities and
/// twenty poll intervals.
const RECOVERY: Duration = Duration::from_secs(18);

/// Not a test: the program that each member of the group runs.
#[test]
#[ignore = "not a test: other tests start this program with --exact groups::member --ignored"]
fn member() {
    if std::env::var_os(worker::MEMBER).is_some() {
        worker::run();
    }
}

#[test]
fn server_with_faults() {
    chaos(Backend::server(), 25);
}

#[test]
fn directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos(Backend::dir(dir.path()), 25);
}

#[test]
#[ignore = "needs a server: scripts/servers/ministack.sh -- cargo test --test chaos groups::server_of -- --ignored"]
fn server_of_the_environment() {
    chaos(Backend::environment(), 120);
}

/// These workers ignore refusals: they continue to append under a token that a log has refused. The
/// checker must report them as faulty.
#[test]
fn broken_workers_that_do_not_fence_are_caught() {
    let mut backend = Backend::server().of_group(MEMBERS);
    let run = Run::begin(&backend, 0);
    let stalls = Stalls::watch();
    let mut members = Members::start(&run.folder, &backend, true);
    // After a takeover, a suspended owner continues to write only if it wrote before its
    // suspension. So the test first waits until each partition is written to.
    wait_for(&mut members, &mut backend, "no partition is written to", |members| {
        members.share_all(MEMBERS) && all_written_to(members, 0)
    });
    let stopped = members.stop_one().expect("somebody works");
    wait_for(&mut members, &mut backend, "no member takes over", |members| {
        members.share_all(MEMBERS - 1) && !members.owns(&stopped)
    });
    members.calm(&backend);
    wait_for(&mut members, &mut backend, "no zombie appends after its refusal", |members| {
        let after_refusal = |lines: &Vec<Line>| {
            let refused = lines.iter().position(|line| matches!(line, Line::Fenced(..)));
            let rest = refused.map_or(&[][..], |index| &lines[index..]);
            rest.iter().any(|line| matches!(line, Line::Appended(..)))
        };
        members.lines().iter().any(after_refusal)
    });
    let calm = Seen { from_ns: now_ns(), until_ns: now_ns() };
    let why = Story::of(&backend, &members, stalls, calm).check().expect_err("nobody fences");
    assert!(why.contains("is followed by"), "{why}");
    drop(members);
    std::fs::remove_dir_all(run.folder).expect("the logs can be removed");
}

fn chaos(backend: Backend, seconds: u64) {
    let mut backend = backend.of_group(MEMBERS);
    let run = Run::begin(&backend, seconds);
    let stalls = Stalls::watch();
    let mut members = Members::start(&run.folder, &backend, false);
    let mut rampage = Rampage::new(&run, &backend, Deed::of(&backend));
    rampage.go_on(&mut backend, &mut members);
    let met = backend.faults_met();
    let recovery = settle(&mut backend, &mut members);
    let story = Story::of(&backend, &members, stalls, recovery);
    rampage.end(run, &backend, met, story.check());
}

/// Ends all faults, waits until all partitions are owned and written to, and makes all members
/// leave. Returns the interval of the first wait.
fn settle(backend: &mut Backend, members: &mut Members) -> Seen {
    backend.calm();
    members.calm(backend);
    let from_ns = now_ns();
    wait_for(members, backend, "not balanced", |members| members.share_all(MEMBERS));
    wait_for(members, backend, "some partitions are not written to", |members| {
        all_written_to(members, from_ns)
    });
    let recovery = Seen { from_ns, until_ns: now_ns() };
    let give_up_ns = now_ns() + PATIENCE_NS;
    let mut told_ns = 0;
    while !members.ended() {
        assert!(now_ns() < give_up_ns, "a member does not leave");
        if now_ns() > told_ns + SECOND_NS {
            told_ns = now_ns();
            members.tell_to_leave();
        }
        members.assignments.look(backend);
        nap(LOOK_EVERY);
    }
    while !members.assignments.look(backend) {
        assert!(now_ns() < give_up_ns, "the store does not answer");
    }
    recovery
}

/// Returns whether each partition's log got an append that was acknowledged after this moment.
fn all_written_to(members: &Members, from_ns: u64) -> bool {
    let lines = members.lines();
    let appended = lines.iter().flatten().filter_map(|line| match line {
        Line::Appended(at, entry, _) if *at > from_ns => Some(entry.grant.partition),
        _ => None,
    });
    appended.collect::<BTreeSet<_>>().len() as u64 == PARTITIONS
}

/// Waits until the members satisfy `done`. Calls `done` only every 200 ms, because a call may read
/// all logs.
fn wait_for(
    members: &mut Members,
    backend: &mut Backend,
    problem: &str,
    done: impl Fn(&Members) -> bool,
) {
    let give_up_ns = now_ns() + PATIENCE_NS;
    let mut next_ns = now_ns();
    loop {
        assert!(now_ns() < give_up_ns, "after the deadline: {problem}");
        members.tend(backend);
        if now_ns() > next_ns {
            next_ns = now_ns() + SECOND_NS / 5;
            if done(members) {
                return;
            }
        }
        nap(LOOK_EVERY);
    }
}
