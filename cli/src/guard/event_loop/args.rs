//! The arguments of the guard, and of the standby process that takes over from a dead guard.

use std::ffi::OsString;

use super::super::epoch_file::EpochFile;
use super::super::pipes::Pipes;
use crate::output::logs::LoggedPartition;

#[derive(Debug, clap::Args)]
pub struct GuardArgs {
    #[command(flatten)]
    pub pipes: Pipes,
    #[command(flatten)]
    pub epoch_file: Option<EpochFile>,
    /// Time from the deadline for SIGKILL to the end of the lease, in milliseconds.
    #[arg(long, value_name = "MS")]
    pub kill_margin_ms: Option<u64>,
    #[command(flatten)]
    pub partition: Option<LoggedPartition>,
    #[arg(last = true, required = true)]
    pub command: Vec<OsString>,
}

impl GuardArgs {
    /// Returns the arguments with which a child process gets these values, without CMD.
    pub fn arguments(&self) -> Vec<OsString> {
        let file = self.epoch_file.iter().flat_map(EpochFile::arguments);
        let margin = self.kill_margin_ms.map(|ms| format!("--kill-margin-ms={ms}"));
        let partition = self.partition.iter().flat_map(LoggedPartition::arguments);
        let texts = self.pipes.arguments().into_iter().chain(margin).chain(partition);
        texts.map(OsString::from).chain(file).collect()
    }
}
