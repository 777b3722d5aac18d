//! The command: its verbs are the library's verbs.

mod args;
mod compact;
mod exit;
mod group;
mod logs;
mod margins;
mod open;
mod print;
mod run;
mod s3_options;
mod signals;
mod status;
mod store_url;
mod table;
mod watch;

use std::io::{self, Write as _};
use std::process::ExitCode;
use std::time::Duration;

use clap::Parser as _;
use tokio::runtime;

use args::{Args, Verb};
use exit::Failure;

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
    let outcome = match args.verb {
        // These two stay free of threads, logs and a runtime: the guard must not fail for them.
        Verb::Guard => group::run_guard()
            .map(|()| 0)
            .map_err(|error| Failure::new(exit::OS, format!("cannot guard: {error}"))),
        Verb::Gate(gate) => {
            let not_run = group::run_gate(gate.fd, &gate.command);
            Err(Failure::new(not_run.exit_code, not_run.why))
        }
        verb => {
            logs::start(verb.default_log_level());
            carry_out(verb)
        }
    };
    ExitCode::from(outcome.unwrap_or_else(|failure| {
        complain(&failure.why);
        failure.code
    }))
}

fn carry_out(verb: Verb) -> Result<u8, Failure> {
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(2)
        .enable_all()
        .build()
        .map_err(|error| Failure::new(exit::OS, format!("cannot start threads: {error}")))?;
    let outcome = runtime.block_on(async {
        match verb {
            Verb::Run(args) => run::run(args).await,
            Verb::Status(args) => status::status(args).await,
            Verb::Watch(args) => watch::watch(args).await,
            Verb::Compact(args) => compact::compact(args).await,
            Verb::Table(args) => table::table(args).await,
            Verb::Guard | Verb::Gate(_) => unreachable!("both need no runtime"),
        }
    });
    // A call to a directory on a disk that hangs must not keep the process from ending.
    runtime.shutdown_background();
    outcome
}

/// Says something on stderr, in one line. `eprintln!` would panic where stderr is closed.
fn complain(what: &str) {
    let _ = writeln!(io::stderr(), "tenure: {}", print::plain(what));
}

#[allow(clippy::disallowed_methods, reason = "the command is not simulated, and has no driver")]
async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}
