//! The arguments of the guard and the standby.

use std::ffi::OsString;

use super::super::epoch_file::EpochFile;
use super::super::pipes::Pipes;

#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[command(flatten)]
    pub pipes: Pipes,
    #[command(flatten)]
    pub epoch_file: Option<EpochFile>,
    /// Time from the deadline for SIGKILL to the end of the lease, in milliseconds.
    #[arg(long, value_name = "MS")]
    pub kill_margin_ms: Option<u64>,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

/// Returns the arguments that pass these values to a child.
pub fn arguments(
    pipes: Pipes,
    epoch_file: Option<&EpochFile>,
    kill_margin_ms: Option<u64>,
) -> Vec<OsString> {
    let file = epoch_file.map(EpochFile::arguments).into_iter().flatten();
    let margin = kill_margin_ms.map(|ms| format!("--kill-margin-ms={ms}").into());
    pipes.arguments().map(OsString::from).into_iter().chain(file).chain(margin).collect()
}
