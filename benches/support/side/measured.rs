//! Measurements of memory and processor time, each in a process that does nothing else: this
//! program again. It says what it saw in one line of numbers.

use std::process::{Command, Stdio};

/// The argument that makes this program measure one thing.
pub const MEASURE: &str = "--measure";

/// Runs one measurement in a process of its own.
pub fn in_a_process(arguments: &[String]) -> Vec<u64> {
    let program = std::env::current_exe().expect("this program has a path");
    let output = Command::new(program)
        .arg(MEASURE)
        .args(arguments)
        .stderr(Stdio::inherit())
        .output()
        .expect("this program can be started again");
    assert!(output.status.success(), "{arguments:?}: {}", output.status);
    let text = String::from_utf8(output.stdout).expect("numbers");
    text.split_whitespace().map(|number| number.parse().expect("a number")).collect()
}

pub fn say(numbers: &[u64]) {
    let words: Vec<_> = numbers.iter().map(u64::to_string).collect();
    println!("{}", words.join(" "));
}

/// A line of `/proc/self/status`, in KiB or as it is.
pub fn status(name: &str) -> u64 {
    let status = std::fs::read_to_string("/proc/self/status").expect("Linux has it");
    let line = status.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(':'));
    let word = line.and_then(|line| line.split_whitespace().next());
    word.expect("Linux has this line").parse().expect("a number")
}

/// What is resident now, in KiB.
pub fn resident() -> u64 {
    status("VmRSS")
}

/// The most that was ever resident, in KiB.
pub fn peak() -> u64 {
    status("VmHWM")
}

/// Processor time of this thread, in microseconds.
pub fn cpu() -> u64 {
    let text = std::fs::read_to_string("/proc/thread-self/schedstat").expect("Linux has it");
    let nanos: u64 = text.split(' ').next().and_then(|word| word.parse().ok()).expect("a number");
    nanos / 1_000
}
