//! The command `tenure`. Its verbs use the library `tenure`.
//!
//! The public items of this crate are only for its tests.
#![cfg_attr(docsrs, feature(doc_cfg))]
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

#[cfg(not(unix))]
compile_error!("the command tenure runs on Unix only: it needs process groups and signals");

mod across;
mod args;
mod cost;
mod cron;
mod election;
#[doc(hidden)]
pub mod exit;
mod group;
#[doc(hidden)]
pub mod guard;
mod http;
mod output;
mod pages;
mod probe;
mod process;
mod run;
mod serve;
mod store;
mod table;
mod ui;

use std::ffi::OsString;
use std::io;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::process::ExitCode;
use std::sync::RwLock;
use std::thread;

use tokio::runtime;

use args::Verb;
use args::variables::{self, Refused};
use election::{compact, depose, history, restore, status, wait, watch};
use exit::Failure;
use guard::{GuardArgs, Tenure};
use output::logs::{self, LogFormat};
use output::{print, stderr};
use process::{cmd, resign};

/// Runs the command with the arguments of this process.
pub fn main() -> ExitCode {
    let code = run_line();
    stderr::flush();
    ExitCode::from(code)
}

/// Runs the command and returns the exit code.
fn run_line() -> u8 {
    let line: Vec<_> = std::env::args_os().collect();
    let args = match variables::parse(&line) {
        Ok(args) => args,
        Err(refused) => return refuse(refused, &line),
    };
    args.log_format.choose();
    let (levels, quiet) = (args.log_levels(), args.quiet);
    print::choose_colours(args.color);
    let outcome = match args.verb {
        // The standby, the guard and the gate run without logs and without a runtime. A failure of
        // the logs or of the runtime would end these processes.
        Verb::Standby(args) => run_guard(&args, guard::run_standby),
        Verb::Guard(args) => run_guard(&args, guard::run_guard),
        Verb::Gate(gate) => Err(guard::run_gate(gate.parent, &gate.command)),
        Verb::Resign => resign::unblock_signals().and_then(|()| {
            logs::start("off");
            carry_out(Verb::Resign)
        }),
        verb => {
            logs::start(levels);
            if !quiet {
                complain_of_variables();
            }
            // A panic becomes a failure of the command. Tokio panics, for example, if it cannot
            // start a thread.
            let carried_out = catch_unwind(AssertUnwindSafe(|| carry_out(verb)));
            carried_out.unwrap_or_else(|_| Err(Failure::new(exit::OS, "the command panicked")))
        }
    };
    outcome.unwrap_or_else(|failure| {
        logs::complain_of(&failure);
        failure.code
    })
}

/// Prints why the arguments are refused. Also prints a requested help or version, because clap
/// returns it as an error.
fn refuse(refused: Refused, line: &[OsString]) -> u8 {
    match refused {
        Refused::Arguments(error) if !error.use_stderr() => {
            // If the help cannot be printed, the reader of stdout has left, so no error can be
            // reported.
            let _ = error.print();
            0
        }
        refused => {
            variables::log_format(line).choose();
            complain_of_variables();
            let failure = match refused {
                Refused::Settings(failure) => failure,
                Refused::Arguments(error) if logs::format() == LogFormat::Text => {
                    let _ = error.print();
                    return exit::USAGE;
                }
                Refused::Arguments(error) => {
                    Failure::new(exit::USAGE, error.render().to_string().trim_end())
                }
            };
            logs::complain_of(&failure);
            failure.code
        }
    }
}

fn complain_of_variables() {
    variables::without_effect().iter().for_each(|why| logs::complain(why));
}

/// Runs this process as the standby or the guard of one CMD, until all processes of CMD have ended.
fn run_guard(
    args: &GuardArgs,
    run: impl FnOnce(&Tenure, &GuardArgs, guard::Say) -> io::Result<()>,
) -> Result<u8, Failure> {
    let failed = |error| Failure::new(exit::OS, format!("cannot guard CMD: {error}"));
    let tenure = cmd::own().map_err(failed)?;
    let partition = args.partition.as_ref();
    run(&tenure, args, &|outcome, message| logs::say(partition, outcome, message))
        .map_err(failed)?;
    Ok(0)
}

/// Number of threads that run the tasks of the runtime. The process needs at least two more
/// threads: one that waits for disks, and one that writes to stderr.
const WORKERS: usize = 2;

/// Fails if the system cannot start `count` threads at the same time. Without this check, Tokio
/// would panic, and the process would wait forever for the threads that Tokio had already started.
fn find_threads(count: usize) -> io::Result<()> {
    let gate = RwLock::new(());
    thread::scope(|scope| {
        let _closed = gate.write();
        for _ in 0..count {
            thread::Builder::new().spawn_scoped(scope, || drop(gate.read()))?;
        }
        Ok(())
    })
}

fn carry_out(verb: Verb) -> Result<u8, Failure> {
    // Requests to a store in a directory run on blocking threads. The elections of a sidecar share
    // 16 blocking threads, because each thread uses memory.
    let blocking = if matches!(verb, Verb::Serve(_)) { 16 } else { 512 };
    let no_threads = |error| Failure::new(exit::OS, format!("cannot start threads: {error}"));
    find_threads(WORKERS + 2).map_err(no_threads)?;
    let runtime = runtime::Builder::new_multi_thread()
        .worker_threads(WORKERS)
        .max_blocking_threads(blocking)
        .enable_all()
        .build()
        .map_err(no_threads)?;
    let outcome = runtime.block_on(async {
        match verb {
            Verb::Run(args) => run::run(*args).await,
            Verb::Serve(args) => serve::serve(*args).await,
            Verb::Ui(args) => ui::ui(args).await,
            Verb::Status(args) => status::status(args).await,
            Verb::Watch(args) => watch::watch(args).await,
            Verb::Wait(args) => wait::wait(args).await,
            Verb::History(args) => history::history(args).await,
            Verb::Depose(args) => depose::depose(args).await,
            Verb::Restore(args) => restore::restore(args).await,
            Verb::Compact(args) => compact::compact(args).await,
            Verb::Across(args) => across::across(args).await,
            Verb::Group(args) => group::group(args).await,
            Verb::Table(args) => table::table(args).await,
            Verb::Probe(args) => probe::probe(args).await,
            Verb::Cost(args) => cost::cost(&args),
            Verb::Completions(args) => pages::completions(&args, &variables::command()),
            Verb::Resign => resign::resign().await,
            Verb::Man(args) => pages::man(&args, &variables::command()),
            Verb::Standby(_) | Verb::Guard(_) | Verb::Gate(_) => {
                unreachable!("these verbs need no runtime")
            }
        }
    });
    // The runtime does not wait for its threads, because a request to a directory on a hanging disk
    // must not delay the exit.
    runtime.shutdown_background();
    outcome
}
