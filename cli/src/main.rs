//! The command `tenure`.
#![forbid(unsafe_code)]

fn main() -> std::process::ExitCode {
    tenure_cli::main()
}
