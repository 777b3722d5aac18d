use std::io::Read as _;

use super::super::pipes::Pipes;
use super::*;

/// Before the fix, the guard checked the deadline only before it wrote the epoch file. If the disk
/// hung during this write until the lease had ended, CMD nevertheless started.
#[test]
fn regression_cmd_does_not_start_if_its_lease_ends_while_the_epoch_is_written() {
    let now = Process::system().now();
    let kill_at = now.plus(Duration::from_millis(50));
    let (mut reports, reports_in) = io::pipe().expect("a pipe");
    let epoch_file = Some(EpochFile { path: "/nowhere/epoch".into(), epoch: 1 });
    let pipes = Pipes { orders: -1, reports: -1 };
    let args = GuardArgs {
        pipes,
        epoch_file,
        kill_margin_ms: None,
        partition: None,
        command: vec!["true".into()],
    };
    let deadlines = Deadlines { term_at: now.plus(Duration::from_secs(3_600)), kill_at };
    let reports_in = File::from(std::os::fd::OwnedFd::from(reports_in));
    let mut guard = Guard::new(&args, deadlines, reports_in, |_: &'static str, _: &str| {});
    let tenure = Tenure { binary: "/nowhere/tenure".into(), options: &[] };
    let started = guard.start(&tenure, &args, None, |_| {
        while !Process::system().now().until(kill_at).is_zero() {
            std::thread::yield_now();
        }
        Ok(())
    });
    assert!(!started);
    drop(guard);
    let mut reported = String::new();
    reports.read_to_string(&mut reported).expect("text");
    assert_eq!(reported, "too-late\ngone\n");
}
