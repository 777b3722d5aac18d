//! The command: its verbs are the library's verbs.

// The run loop and the other verbs are what uses the rest of it.
#![allow(dead_code)]

mod args;
mod exit;
mod group;
mod margins;
mod store_url;

use std::io::{self, IsTerminal, Write as _};
use std::process::ExitCode;

use clap::Parser as _;
use tracing_subscriber::EnvFilter;

use args::{Args, Verb};

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    let args = match Args::try_parse() {
        Ok(args) => args,
        Err(error) => {
            // Nothing is left to tell it to when the terminal is gone.
            let _ = error.print();
            return ExitCode::from(if error.use_stderr() { exit::USAGE } else { 0 });
        }
    };
    match args.verb {
        // These two stay free of threads, logs and a runtime: the guard must not fail for them.
        Verb::Guard => match group::run_guard() {
            Ok(()) => ExitCode::SUCCESS,
            Err(error) => fail(exit::OS, &format!("cannot guard: {error}")),
        },
        Verb::Gate(gate) => {
            let not_run = group::run_gate(gate.fd, &gate.command);
            fail(not_run.exit_code, &not_run.why)
        }
        verb => {
            start_logs(verb.default_log_level());
            fail(exit::UNSAFE, "this verb does not work yet")
        }
    }
}

/// Says on stderr why the command ends, and gives its exit code.
fn fail(code: u8, why: &str) -> ExitCode {
    complain(why);
    ExitCode::from(code)
}

/// Says something on stderr. `eprintln!` would panic where stderr is closed.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "tenure: {what}");
}

fn start_logs(default_level: &str) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            complain(&format!("RUST_LOG={text:?} is ignored: {error}"));
            EnvFilter::new(default_level)
        }),
        _ => EnvFilter::new(default_level),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        // It would panic where stderr is closed, and take the lease along.
        .log_internal_errors(false)
        .init();
}
