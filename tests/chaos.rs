//! Five `tenure run` on one election, whose children write one manifest, while processes are killed
//! and stopped, and requests and connections go wrong.
//!
//! ```sh
//! CHAOS_SECONDS=600 cargo test --test chaos on_a_server
//! scripts/ceph.sh -- cargo test --test chaos on_a_server_that_is_not_ours -- --ignored --nocapture
//! ```
//!
//! `CHAOS_SEED` chooses what is done to them; when, the machine decides too.
#![cfg(all(feature = "cli", feature = "s3", target_os = "linux"))]

use std::collections::{BTreeMap, BTreeSet};
use std::path::Path;
use std::time::Duration;

use child::{Entry, Line, nap, now_ns};
use history::{Call, Op, Ret};
use place::Place;
use troop::{ChildOf, Troop};
use watch::Watch;

#[path = "chaos/child.rs"]
mod child;
#[path = "servers/harm.rs"]
mod harm;
#[path = "chaos/history.rs"]
mod history;
#[path = "chaos/place.rs"]
mod place;
mod support;
#[path = "chaos/troop.rs"]
mod troop;
#[path = "chaos/watch.rs"]
mod watch;

const VALIDITY: Duration = Duration::from_secs(3);
const LOOK_EVERY: Duration = Duration::from_millis(15);
/// Far longer than anything here takes, even on a busy machine.
const PATIENCE_NS: u64 = 120_000_000_000;

/// Not a test: what the candidates run.
#[test]
#[ignore = "run by the candidates of the tests"]
fn child() {
    if std::env::var_os(child::FOLDER).is_some() {
        child::run();
    }
}

#[test]
fn on_a_server_with_faults() {
    chaos(Place::server(), 25);
}

#[test]
fn on_a_directory() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    chaos(Place::dir(dir.path()), 15);
}

/// On Ceph, OSDs and gateways are killed as well.
#[test]
#[ignore = "needs a server: scripts/ceph.sh -- cargo test --test chaos that_is_not_ours"]
fn on_a_server_that_is_not_ours() {
    chaos(Place::environment(), 120);
}

fn chaos(place: Place, seconds: u64) {
    let number = |name: &str| std::env::var(name).ok().map(|text| text.parse().expect("a number"));
    let seconds = number("CHAOS_SECONDS").unwrap_or(seconds);
    let seed = number("CHAOS_SEED").unwrap_or_else(now_ns);
    println!("CHAOS_SEED={seed} CHAOS_SECONDS={seconds} on {}", place.url());
    let folder = tempfile::tempdir().expect("a temporary directory");
    // Kept if the test fails, as the logs say why.
    let path = folder.keep();
    println!("logs in {}", path.display());
    let mut rng = fastrand::Rng::with_seed(seed);
    let mut troop = Troop::start(5, &path, &place, VALIDITY);
    let mut watch = Watch::default();
    rampage(&place, &mut troop, &mut watch, seconds, &mut rng);
    settle(&place, &mut troop, &mut watch);
    let said = judge(&place, &troop, watch);
    println!("{said}");
    std::fs::remove_dir_all(path).expect("the logs can be removed");
}

fn rampage(
    place: &Place,
    troop: &mut Troop,
    watch: &mut Watch,
    seconds: u64,
    rng: &mut fastrand::Rng,
) {
    let start_ns = now_ns();
    let end_ns = start_ns + seconds * 1_000_000_000;
    let mut parts = std::env::var_os("TENURE_TEST_PIDS").map(|_| harm::Harm::new());
    let mut parts = parts.as_mut().filter(|_| place.is_of_the_environment());
    let (mut next_ns, mut next_part_ns) = (start_ns + 2_000_000_000, start_ns + 8_000_000_000);
    while now_ns() < end_ns {
        troop.tend(place);
        watch.look(place, troop, VALIDITY);
        let mut said = Vec::new();
        if now_ns() > next_ns {
            next_ns = now_ns() + rng.u64(300_000_000..1_500_000_000);
            let away = Duration::from_millis(rng.u64(50..1_500));
            said.extend(place.harm(rng, away));
            if rng.bool() {
                said.extend(troop.harm(rng));
            }
        }
        if let Some(parts) = parts.as_mut().filter(|_| now_ns() > next_part_ns) {
            next_part_ns = now_ns() + 9_000_000_000;
            said.push(format!("SIGKILL to {}", parts.kill_the_next()));
        }
        for said in said {
            println!("{:7.3} s: {said}", (now_ns() - start_ns) as f64 / 1e9);
        }
        nap(LOOK_EVERY);
    }
}

/// Once nothing goes wrong any more somebody leads and writes; then all are told to end.
fn settle(place: &Place, troop: &mut Troop, watch: &mut Watch) {
    place.calm();
    troop.calm();
    let give_up_ns = now_ns() + PATIENCE_NS;
    let calm_ns = now_ns();
    let written = |troop: &Troop| {
        let newest = troop.children().pop();
        newest.is_some_and(|child| {
            let appended = |line: &Line| matches!(line, Line::Appended(at, ..) if *at > calm_ns);
            lines(&child).iter().filter(|line| appended(line)).count() >= 5
        })
    };
    while !written(troop) {
        assert!(now_ns() < give_up_ns, "nobody writes, although nothing goes wrong any more");
        troop.tend(place);
        watch.look(place, troop, VALIDITY);
        nap(LOOK_EVERY);
    }
    while !troop.ended() {
        assert!(now_ns() < give_up_ns, "a candidate does not end");
        watch.look(place, troop, VALIDITY);
        nap(Duration::from_millis(100));
    }
}

fn lines(child: &ChildOf) -> Vec<Line> {
    let text = std::fs::read_to_string(&child.log).expect("the log of a child");
    // A child may be killed before its first line is there, but never within one.
    text.lines().map(|line| serde_json::from_str(line).expect("a whole line")).collect()
}

/// Everything that must hold in the end; says how much there was.
fn judge(place: &Place, troop: &Troop, watch: Watch) -> String {
    assert_eq!(troop.unexpected, [""; 0], "candidates ended as they should not");
    assert_eq!(watch.outlived, [""; 0], "children outlived their leases");
    let manifest = place.manifest();
    check_manifest(&manifest);
    let manifest: BTreeMap<u64, Entry> = manifest.into_iter().collect();
    let children = troop.children();
    let epochs: BTreeSet<u64> = children.iter().map(|child| child.epoch).collect();
    assert_eq!(epochs.len(), children.len(), "an epoch had two children: {children:?}");
    check_order(&children, &troop.paused);

    let (mut acknowledged, mut fenced) = (0, 0);
    let mut history = watch.renewals.clone();
    let end_ns = now_ns();
    for child in &children {
        let lines = lines(child);
        let Some(Line::Starts(started_ns)) = lines.first() else { continue };
        history.push(Call {
            thread: format!("grant of {}", child.epoch),
            op: Op::Grant(child.epoch),
            ret: Ret::Granted,
            from_ns: watch.before(child.epoch),
            until_ns: *started_ns,
        });
        for call in calls(child, &lines, &manifest, end_ns) {
            acknowledged += usize::from(call.until_ns < end_ns && call.ret != Ret::Refused);
            fenced += usize::from(call.ret == Ret::Refused);
            history.push(call);
        }
    }
    close(&mut history, end_ns);
    for line in children.iter().flat_map(lines) {
        if let Line::Appended(_, entry, number) = line {
            assert_eq!(manifest.get(&number), Some(&entry), "acknowledged, and not there");
        }
    }
    let renewals = watch.renewals.len();
    let linearizable = match history::check(history) {
        Ok(linearizable) => linearizable,
        Err(why) => panic!("{why}"),
    };
    format!(
        "{} epochs with children, {renewals} renewals seen, {} entries, {acknowledged} \
         acknowledged, {fenced} children fenced off; {linearizable}",
        children.len(),
        manifest.len()
    )
}

/// Numbers are dense, epochs never decrease, and nothing is in there twice.
fn check_manifest(manifest: &[(u64, Entry)]) {
    for (index, (number, _)) in manifest.iter().enumerate() {
        assert_eq!(*number, index as u64 + 1, "a number is missing");
    }
    for pair in manifest.windows(2) {
        let [(_, before), (number, after)] = pair else { unreachable!("windows of two") };
        let grows = (before.epoch, before.sequence) < (after.epoch, after.sequence);
        assert!(grows, "{before:?} is followed by {after:?} as {number}");
    }
}

/// No child has a sign of life after the first one of a greater epoch, unless its guard was
/// stopped as well.
fn check_order(children: &[ChildOf], paused: &[u64]) {
    let mut first_ns = u64::MAX;
    for child in children.iter().rev() {
        let at_ns = |line: &Line| match *line {
            Line::Starts(at) | Line::Beats(at) | Line::Calls(at, _) => at,
            Line::Appended(at, ..) | Line::Fenced(at, ..) => at,
        };
        let times: Vec<_> = lines(child).iter().map(at_ns).collect();
        if let Some(last) = times.iter().max().filter(|_| !paused.contains(&child.epoch)) {
            assert!(*last < first_ns, "{child:?} lived on while a greater epoch was led");
        }
        first_ns = times.first().copied().unwrap_or(u64::MAX).min(first_ns);
    }
}

/// Gives an end to appends that took effect and were never answered: the earliest answer to one of
/// a greater number, which cannot be written before.
fn close(history: &mut [Call], end_ns: u64) {
    let answered = |call: &Call| match call.ret {
        Ret::Appended(number) if call.until_ns < end_ns => Some((number, call.until_ns)),
        _ => None,
    };
    let answered: Vec<_> = history.iter().filter_map(answered).collect();
    for call in history.iter_mut().filter(|call| call.until_ns == end_ns) {
        let Ret::Appended(own) = call.ret else { continue };
        let later = answered.iter().filter(|(number, _)| *number > own);
        call.until_ns = later.map(|(_, until_ns)| *until_ns).min().unwrap_or(end_ns);
    }
}

/// A child's calls. What was never answered counts if the manifest has it.
fn calls(
    child: &ChildOf,
    lines: &[Line],
    manifest: &BTreeMap<u64, Entry>,
    end_ns: u64,
) -> Vec<Call> {
    let mut calls = Vec::new();
    let mut open = None;
    let call = |from_ns, until_ns, ret| Call {
        thread: format!("child of {}", child.epoch),
        op: Op::Append(child.epoch),
        ret,
        from_ns,
        until_ns,
    };
    for line in lines {
        match *line {
            Line::Calls(at, entry) => open = Some((at, entry)),
            Line::Appended(at, entry, number) => {
                let (from_ns, asked) = open.take().expect("a call before its return");
                assert_eq!(asked, entry);
                calls.push(call(from_ns, at, Ret::Appended(number)));
            }
            Line::Fenced(at, ..) => {
                let (from_ns, _) = open.take().expect("a call before its return");
                calls.push(call(from_ns, at, Ret::Refused));
            }
            Line::Starts(_) | Line::Beats(_) => {}
        }
    }
    if let Some((from_ns, asked)) = open {
        let number = manifest.iter().find(|(_, entry)| **entry == asked).map(|(number, _)| *number);
        calls.extend(number.map(|number| call(from_ns, end_ns, Ret::Appended(number))));
    }
    calls
}
