//! What the scripts of CI and of the servers that are not ours share.

use std::fs;
use std::path::Path;
use std::process::{Command, Stdio};

use super::page::root;

fn bash(script: &str, dir: &Path) -> Command {
    let mut bash = Command::new("bash");
    bash.args(["-c", &format!("set -euo pipefail\n{script}")]).current_dir(root());
    bash.env("logs", dir).env("CARGO_TARGET_DIR", dir).stdin(Stdio::null());
    bash
}

/// In a condition bash ignores the failure of all but a function's last command.
#[test]
fn regression_a_step_of_ci_fails_with_each_of_its_commands() {
    let dir = tempfile::tempdir().unwrap();
    let script = ". scripts/steps.sh
        good() { echo 'test result: ok. 3 passed'; }
        bad() { echo 'error: seen'; false; true; }
        step Before\\'s good
        begin 'Beside it' good
        begin 'The bad one' bad
        finish
        echo 'after the end'";
    let output = bash(script, dir.path()).output().unwrap();
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert_eq!(said.matches("test result: ok. 3 passed").count(), 2, "each once: {said}");
    assert!(said.contains("== The bad one: FAILED") && said.contains("error: seen"), "{said}");
    assert!(said.contains("== Beside it: passed") && !said.contains("after the end"), "{said}");
}

#[test]
fn a_step_whose_filter_names_no_test_fails_ci() {
    let dir = tempfile::tempdir().unwrap();
    let ends = |passed: &str| {
        let script = format!(
            ". scripts/steps.sh
            none() {{ echo 'test result: ok. 0 passed; 0 failed'; }}
            some() {{ none; echo 'test result: ok. {passed} passed; 0 failed'; }}
            step None some"
        );
        bash(&script, dir.path()).output().unwrap().status.code()
    };
    assert_eq!((ends("0"), ends("10")), (Some(1), Some(0)));
}

#[test]
fn two_steps_of_one_name_are_refused() {
    let dir = tempfile::tempdir().unwrap();
    let script = ". scripts/steps.sh; begin Twice false; begin Twice true; finish";
    assert_eq!(bash(script, dir.path()).output().unwrap().status.code(), Some(1));
}

/// One removed the folder into which the other was installing.
#[test]
fn regression_two_installations_of_one_server_take_turns() {
    let dir = tempfile::tempdir().unwrap();
    // It takes a moment, and fails where its folder has gone.
    let script = ". scripts/lib.sh
        slowly() { mkdir $folder; sleep 0.5; test -d $folder; echo \"$@\" >>$servers/count; }
        once moto slowly moto==1; test -d $folder";
    let install = || bash(script, dir.path()).spawn().unwrap();
    let (mut first, mut second) = (install(), install());
    assert!(first.wait().unwrap().success() && second.wait().unwrap().success());
    let count = dir.path().join("s3-servers/count");
    assert_eq!(fs::read_to_string(count).unwrap(), "moto==1\n");
}
