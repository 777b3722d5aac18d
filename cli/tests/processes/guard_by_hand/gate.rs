//! Tests the gate process, which becomes CMD, and the signals and files that CMD inherits from it.

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::process::{Command, Stdio};

use super::bench::Guard;
use crate::TENURE;
use tenure_testkit::command::{self, number_in};

fn gate(parent: u32, command: &[&str]) -> Option<i32> {
    let mut gate = Command::new(TENURE)
        .args(["__gate", "--parent", &parent.to_string(), "--"])
        .args(command)
        .stderr(Stdio::null())
        .spawn()
        .expect("the gate starts");
    command::ended(&mut gate).code()
}

#[test]
fn a_command_with_a_dead_guard_does_not_run() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("ran");
    let file = file.to_str().expect("the text is UTF-8");
    let touch = ["touch", file];
    assert_eq!(gate(1, &touch), Some(126));
    assert!(!fs::exists(file).expect("the existence of the file can be checked"));
    assert_eq!(gate(std::process::id(), &touch), Some(0));
    assert!(fs::exists(file).expect("the existence of the file can be checked"));
}

#[test]
fn a_command_that_cannot_run_exits_with_the_codes_of_a_shell() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("not-executable");
    fs::write(&file, "x").expect("a file");
    fs::set_permissions(&file, fs::Permissions::from_mode(0o644)).expect("the test owns the file");
    let file = file.to_str().expect("the text is UTF-8");
    for (command, code) in [("tenure-no-such-command", 127), ("/no/such/file", 127), (file, 126)] {
        assert_eq!(gate(std::process::id(), &[command]), Some(code), "{command}");
    }
}

#[test]
fn the_command_leads_its_process_group_and_blocks_no_signal() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let guard = Guard::over(r#"echo $$ > "$1"; exec sleep 1000"#, &file);
    let command = number_in(&file);
    assert_eq!(command, guard.command, "CMD does not lead its process group");
    let read = |name: &str| {
        fs::read_to_string(format!("/proc/{command}/{name}")).expect("the command runs")
    };
    let status = read("status");
    assert!(status.contains("SigBlk:\t0000000000000000\n"), "{status}");
    let group: u32 = read("stat")
        .rsplit_once(") ")
        .expect("the file has the format of proc(5)")
        .1
        .split(' ')
        .nth(2)
        .expect("a group")
        .parse()
        .expect("a number");
    assert_eq!(group, command);
}

#[test]
fn the_command_inherits_no_pipe_of_the_guard() {
    let dir = tempfile::tempdir().expect("a directory");
    let file = dir.path().join("pid");
    let guard = Guard::over(r#"echo $$ > "$1"; exec sleep 1000"#, &file);
    let command = number_in(&file);
    let open_files = fs::read_dir(format!("/proc/{command}/fd")).expect("the command runs");
    for open_file in open_files.flatten() {
        let target = fs::read_link(open_file.path()).unwrap_or_default();
        assert!(!guard.pipes.contains(&target), "inherited as {:?}", open_file.file_name());
    }
}
