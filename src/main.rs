//! The command `tenure`.
#![forbid(unsafe_code)]
#![cfg_attr(not(test), deny(clippy::unchecked_time_subtraction))]

mod cli;

fn main() -> std::process::ExitCode {
    cli::main()
}
