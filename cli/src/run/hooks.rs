//! The hooks `--on-elected` and `--on-lost`, and the file of `--epoch-file`.

use std::path::PathBuf;
use std::process::Stdio;
use std::time::Duration;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;
use tenure::Leadership;
use tokio::process::Command;
use tracing::{info, warn};

use crate::args::common::{DAY, positive_up_to};
use crate::exit::{self, Failure};
use crate::guard::{EpochFile, Hook, log_hook_end, prepare_epoch_file, to_stderr};
use crate::output::print::{in_ms, millis, plain};
use crate::process::signals::Signals;
use crate::process::systemd::OWN_VARIABLES;
use crate::process::timer::pause;

#[derive(Debug, Clone, clap::Args)]
#[command(next_help_heading = "Command")]
pub struct HooksArgs {
    /// Run this line with `sh -c` when CMD starts.
    ///
    /// The line has the same variables and the same guard as CMD. CMD does not wait for the line.
    #[arg(long, value_name = "LINE", env = "TENURE_ON_ELECTED", hide_short_help = true)]
    pub on_elected: Option<String>,
    /// Run this line with `sh -c` after the leadership has ended.
    ///
    /// CMD has ended, and another process may already lead. TENURE_LOSS has the reason for the
    /// loss. The line does not run if `tenure` itself is killed.
    #[arg(long, value_name = "LINE", env = "TENURE_ON_LOST", hide_short_help = true)]
    pub on_lost: Option<String>,
    /// Time after which a running hook is killed: at most 24h
    #[arg(long, value_name = "DURATION", default_value = "30s", value_parser = positive_up_to(DAY))]
    #[arg(env = "TENURE_HOOK_TIMEOUT", hide_short_help = true)]
    pub hook_timeout: Duration,
    /// Write the epoch to this file while CMD may run.
    ///
    /// The file is written before CMD starts, and removed when CMD must end, even if `tenure`
    /// itself is killed. Each candidate needs a separate file.
    #[arg(long, value_name = "PATH", env = "TENURE_EPOCH_FILE", hide_short_help = true)]
    pub epoch_file: Option<PathBuf>,
}

impl HooksArgs {
    /// Checks the path of the epoch file, and removes an epoch file that an earlier process has
    /// left behind.
    pub fn prepare(&self) -> Result<(), Failure> {
        let prepared = self.epoch_file.as_deref().map_or(Ok(()), prepare_epoch_file);
        prepared.map_err(|why| Failure::new(exit::USAGE, plain(&format!("--epoch-file: {why}"))))
    }

    pub fn epoch_file(&self, leadership: &Leadership) -> Option<EpochFile> {
        let epoch = leadership.epoch().get();
        self.epoch_file.clone().map(|path| EpochFile { path, epoch })
    }

    /// Returns the hook `--on-elected`, which the guard runs at the same time as CMD.
    pub fn beside_cmd(&self) -> Option<Hook> {
        let limit_ms = millis(self.hook_timeout);
        self.on_elected.clone().map(|line| Hook { line, limit_ms })
    }

    /// Runs the hook `--on-lost`, if it is set. If this process gets a signal, or the time limit
    /// passes, the hook is killed. Returns whether a signal other than SIGHUP arrived while the
    /// hook ran.
    pub async fn run_on_lost(
        &self,
        environment: &[(&str, String)],
        loss: &str,
        signals: &mut Signals,
    ) -> bool {
        let Some(line) = &self.on_lost else { return false };
        let mut command = Command::new("sh");
        command.args(["-c", line]).stdin(Stdio::null()).stdout(to_stderr()).process_group(0);
        for name in OWN_VARIABLES {
            command.env_remove(name);
        }
        command.envs(environment.iter().map(|(name, value)| (name, value)));
        let mut hook = match command.env("TENURE_LOSS", loss).spawn() {
            Ok(hook) => hook,
            Err(error) => {
                warn!(outcome = "hook_failed", "--on-lost cannot be started: {error}");
                return false;
            }
        };
        let group = hook.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw);
        let why = tokio::select! {
            biased;
            status = hook.wait() => {
                if let Ok(status) = status {
                    log_hook_end("--on-lost", status);
                }
                return false;
            }
            signal = signals.next() => Some(signal),
            () = pause(self.hook_timeout) => None,
        };
        // This process has not reaped the hook, so the system has not reused the hook's process
        // number.
        let _ = group.map(|group| killpg(group, Signal::SIGKILL));
        let _ = hook.wait().await;
        let limit = in_ms(self.hook_timeout);
        match why {
            Some(signal) => info!("{signal}: --on-lost was killed (SIGKILL)"),
            None => warn!(
                outcome = "hook_failed",
                "--on-lost did not end within {limit} (--hook-timeout): it was killed (SIGKILL)"
            ),
        }
        why.is_some_and(|signal| signal != Signal::SIGHUP)
    }
}
