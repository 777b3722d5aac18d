//! Tests of colours, columns and progress, which appear on a terminal, but not in a pipe.

use std::fs::File;
use std::io::Read as _;
use std::process::{Child, Command, Stdio};

use nix::pty::openpty;
use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

use crate::bench::{Bench, command, said};
use tenure_testkit::command::{default_signals, ended, with_deadline};

const HELD: &str = r#"{"expired":false,"validity_ms":30000,"format":1,"candidate":"a\u001b[2J","nonce":
    "0123456789abcdef0123456789abcdef","heartbeat":4}"#;
const SEALED: &str = r#"{"expired":true,"validity_ms":30000}"#;

/// Starts the verb on a new terminal.
fn on_terminal(bench: &Bench, verb: &str, options: &[&str], env: &[(&str, &str)]) -> (Child, File) {
    let pty = openpty(None, None).expect("a terminal");
    let mut command = Command::new(crate::TENURE);
    // Remove the variables that change the colours. For example, `CI` forces colours on every
    // terminal.
    for name in ["NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "CI", "RUST_LOG"] {
        command.env_remove(name);
    }
    command.env("TERM", "xterm").envs(env.iter().copied());
    command.args([verb, "--store", &bench.url()]).args(options).stdin(Stdio::null());
    command.stdout(pty.slave.try_clone().expect("a copy")).stderr(pty.slave);
    default_signals();
    (command.spawn().expect("the process starts"), File::from(pty.master))
}

/// Returns the output on the terminal after the command has succeeded.
fn shown(bench: &Bench, verb: &str, options: &[&str], env: &[(&str, &str)]) -> String {
    let (mut child, mut master) = on_terminal(bench, verb, options, env);
    let mut all = Vec::new();
    // On Linux, a read returns an error after the command has closed its side of the terminal.
    let _ = with_deadline(child.id(), || master.read_to_end(&mut all));
    assert!(ended(&mut child).success());
    String::from_utf8(all).expect("the output is UTF-8").replace("\r\n", "\n")
}

#[test]
fn status_has_colours_only_on_a_terminal() {
    let bench = Bench::new();
    bench.epoch(3, HELD);
    let colourful = shown(&bench, "status", &[], &[]);
    let start = "\u{1b}[2mstate     \u{1b}[0m \u{1b}[32mheld\u{1b}[0m\n\u{1b}[2mleader    \u{1b}[0m \
                 \u{1b}[1ma\\u{1b}[2J\u{1b}[0m\n";
    assert!(colourful.starts_with(start), "{colourful:?}");
    let start = "state      held\nleader     a\\u{1b}[2J\n";
    for env in [&[("NO_COLOR", "1")][..], &[("TERM", "dumb")]] {
        let plain = shown(&bench, "status", &[], env);
        assert!(plain.starts_with(start) && !plain.contains('\u{1b}'), "{env:?}: {plain:?}");
    }
    let piped = bench.run("status", &[]).out;
    assert!(piped.starts_with(start) && !piped.contains('\u{1b}'), "{piped:?}");
    let mut forced = command(&["status", "--store", &bench.url()]);
    let forced = said(forced.env("CLICOLOR_FORCE", "1").output().expect("the command runs")).out;
    assert!(forced.contains("\u{1b}[32mheld\u{1b}[0m"), "{forced:?}");
    let never = shown(&bench, "status", &["--color", "never"], &[("CLICOLOR_FORCE", "1")]);
    assert!(never.starts_with(start) && !never.contains('\u{1b}'), "{never:?}");
    let always = bench.run("status", &["--color", "always"]).out;
    assert!(always.contains("\u{1b}[32mheld\u{1b}[0m"), "{always:?}");
    let history = shown(&bench, "history", &[], &[]);
    for part in ["\u{1b}[32mheld\u{1b}[0m", "\u{1b}[1ma\\u{1b}[2J\u{1b}[0m"] {
        assert!(history.contains(part), "{history:?}");
    }
    let json = shown(&bench, "status", &["--json"], &[]);
    assert!(json.starts_with("{\"state\":\"held\"") && !json.contains('\u{1b}'), "{json:?}");
}

#[test]
fn watch_has_columns_on_a_terminal() {
    let bench = Bench::new();
    bench.epoch(3, HELD);
    for (env, line) in [
        (&[][..], "\u{1b}[32mheld   \u{1b}[0m  epoch          3  \u{1b}[1ma\\u{1b}[2J\u{1b}[0m"),
        (&[("NO_COLOR", "1")], "Z  held     epoch          3  a\\u{1b}[2J"),
    ] {
        let (mut child, mut master) = on_terminal(&bench, "watch", &["--poll", "50ms"], env);
        let mut all = Vec::new();
        let mut some = [0; 256];
        while !all.ends_with(b"\n") {
            let read = with_deadline(child.id(), || master.read(&mut some)).expect("a line");
            all.extend_from_slice(&some[..read]);
        }
        let pid = Pid::from_raw(i32::try_from(child.id()).expect("a small number"));
        kill(pid, Signal::SIGTERM).expect("the command runs");
        assert_eq!(ended(&mut child).code(), Some(0));
        let all = String::from_utf8(all).expect("the output is UTF-8");
        assert!(all.trim_end().ends_with(line), "{all:?}");
    }
}

#[test]
fn compact_on_a_terminal_ends_with_its_report() {
    let bench = Bench::new();
    for epoch in 1..=5 {
        bench.epoch(epoch, SEALED);
    }
    let all = shown(&bench, "compact", &["--keep", "1", "--min-age", "0s"], &[]);
    let last = all.lines().last().unwrap_or_default();
    assert!(last.contains("deleted 4 of 5 epochs"), "{all:?}");
    // On a slow machine, lines about the progress precede the report. No line may overwrite another
    // line.
    assert!(!all.contains(['\r', '\u{1b}']), "{all:?}");
}

#[test]
fn progress_is_a_line_per_second_only_on_a_terminal() {
    let bench = Bench::new();
    let options = ["--rounds", "0", "--for", "1500ms"];
    let all = shown(&bench, "probe", &options, &[]);
    let lines = all.lines().filter(|line| line.starts_with("tenure: probing: "));
    let seconds: Vec<u64> = lines
        .map(|line| {
            let (state, seconds) = line.rsplit_once(", ").expect("the line has a state and a time");
            assert!(state.ends_with(" requests"), "{line:?}");
            seconds.trim_end_matches(" s").parse().expect("whole seconds")
        })
        .collect();
    assert!(seconds.first().is_some_and(|&first| first >= 1), "{all:?}");
    assert!(seconds.is_sorted_by(|one, next| one < next), "{all:?}");
    let piped = bench.run("probe", &options);
    assert_eq!((piped.code, piped.err.as_str()), (0, ""), "{piped:?}");
}
