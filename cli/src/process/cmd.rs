//! Functions that `run` and `group run` share. They look up CMD before its start, and end the
//! descendants that CMD leaves behind.

use std::ffi::{OsStr, OsString};
use std::fmt::Display;
use std::io;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use nix::unistd::{AccessFlags, access};
use tracing::{info, warn};

use super::margins::Margins;
use super::timer::pause;
use crate::args::variables::INSIDE_RUN;
use crate::exit::{self, Failure};
use crate::guard::{Group, Left, NOT_EXECUTABLE, NOT_FOUND, Tenure, own_binary};
use crate::output::columns::fit;
use crate::output::logs;
use crate::output::print::{in_ms, plain};

/// The time from the end of CMD to the SIGTERM for its descendants. In most cases all descendants
/// end within this time.
const UNTIL_TERM: Duration = Duration::from_millis(200);

/// The command that runs as CMD, with its environment and margins.
pub struct Cmd {
    pub tenure: Tenure,
    pub command: Vec<OsString>,
    /// Variables for CMD: the name of this process and the store. CMD also gets the epoch.
    pub environment: [(&'static str, String); 2],
    pub margins: Margins,
}

impl Cmd {
    pub fn new(
        command: &[OsString],
        name: &str,
        store: &impl Display,
        margins: Margins,
    ) -> Result<Cmd, Failure> {
        let tenure = own().map_err(|error| {
            Failure::new(exit::OS, format!("cannot find the executable of this command: {error}"))
        })?;
        let environment = [("TENURE_NAME", name.to_owned()), ("TENURE_STORE", store.to_string())];
        Ok(Cmd { tenure, command: command.to_vec(), environment, margins })
    }
}

/// Returns the variable that makes a `tenure` inside CMD ignore the settings of this process.
pub fn inside_run() -> (&'static str, String) {
    (INSIDE_RUN, "1".to_owned())
}

/// Returns the executable of this process, and the options for the standby, the guard and the gate.
pub fn own() -> io::Result<Tenure> {
    Ok(Tenure { binary: own_binary()?, options: logs::format().options() })
}

/// Refuses a program that cannot be executed now. The failure has the exit code of a shell: 126 or
/// 127. A candidate must not be elected for a command that cannot run.
pub fn look_up(program: &OsStr, path: Option<&OsStr>) -> Result<(), Failure> {
    let name = plain(&program.to_string_lossy());
    let by_path = program.as_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if by_path {
        vec![program.into()]
    } else {
        // If PATH is not set, the system searches a default path. This process does not know that
        // path, so the check is omitted.
        let Some(path) = path else { return Ok(()) };
        std::env::split_paths(path).map(|directory| directory.join(program)).collect()
    };
    if candidates.iter().any(|file| is_executable(file)) {
        return Ok(());
    }
    if let Some(file) = candidates.iter().find(|file| file.is_file() || by_path && file.exists()) {
        let file = plain(&file.to_string_lossy());
        return Err(Failure::new(NOT_EXECUTABLE, format!("CMD cannot be executed: {file}")));
    }
    let place = if by_path { "" } else { " in PATH" };
    Err(Failure::new(NOT_FOUND, format!("CMD was not found{place}: {name}")))
}

fn is_executable(file: &Path) -> bool {
    access(file, AccessFlags::X_OK).is_ok() && !file.is_dir()
}

/// A task that watches CMD and its descendants while it waits for a future.
pub trait GroupWatch<'a> {
    fn group(&self) -> &'a Group;

    /// Returns the time from the SIGTERM for CMD to the SIGKILL.
    fn grace(&self) -> Duration;

    /// Returns whether the leadership or the partition is lost. In `group run`, also returns true
    /// after the signal that kills each CMD.
    fn lost(&self) -> bool;

    /// Waits for the future `what`, and watches CMD and its descendants during the wait.
    async fn until<T>(&mut self, what: impl Future<Output = T>) -> T;

    /// Ends the descendants that CMD left behind. Called after the end of CMD.
    async fn end_descendants(&mut self) -> Left {
        if let Some(left) = self.gone_within(UNTIL_TERM).await {
            return left;
        }
        self.group().end_rest();
        if !self.lost() {
            info!("CMD has ended; the processes that it left behind get SIGTERM");
        }
        let grace = self.grace();
        if let Some(left) = self.gone_within(grace).await {
            return left;
        }
        self.group().kill();
        let grace = in_ms(grace);
        warn!(
            "CMD has ended, and processes that it left behind did not end within {grace}: they are \
             killed"
        );
        let group = self.group();
        self.until(group.gone()).await.1
    }

    async fn gone_within(&mut self, limit: Duration) -> Option<Left> {
        let group = self.group();
        self.until(async {
            tokio::select! {
                biased;
                (_, left) = group.gone() => Some(left),
                () = pause(limit) => None,
            }
        })
        .await
    }
}

/// Returns a command as one line of at most 60 columns.
pub fn shown(command: &[OsString]) -> String {
    let words: Vec<_> = command.iter().map(|word| word.to_string_lossy()).collect();
    fit(&plain(&words.join(" ")), 60)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn code(program: &str, path: Option<&Path>) -> Option<u8> {
        look_up(program.as_ref(), path.map(Path::as_os_str)).err().map(|failure| failure.code)
    }

    #[test]
    fn regression_cmd_is_looked_up_as_in_a_shell() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, mode) in [("runs", 0o755), ("text", 0o644)] {
            let file = dir.path().join(name);
            fs::write(&file, "").expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let path = Some(dir.path());
        assert_eq!(code("runs", path), None);
        assert_eq!(code("text", path), Some(126));
        assert_eq!(code("missing", path), Some(127));
        assert_eq!(code("missing", None), None, "the system has a default PATH");
        let inside = |name: &str| dir.path().join(name).display().to_string();
        assert_eq!(code(&inside("runs"), None), None);
        assert_eq!(code(&inside("text"), None), Some(126));
        assert_eq!(code(&inside("missing"), None), Some(127));
        assert_eq!(code(&inside(""), None), Some(126), "a directory");
        assert_eq!(code("", path), Some(127));
    }
}
