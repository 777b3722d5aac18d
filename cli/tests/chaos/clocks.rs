//! Wall clocks that are stepped by libfaketime. Boot and monotonic clocks do not change.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

pub struct Clocks {
    library: PathBuf,
}

impl Clocks {
    pub fn of_the_environment() -> Clocks {
        let library = std::env::var_os("TENURE_TEST_FAKETIME");
        Clocks { library: library.expect("set by scripts/servers/faketime.sh").into() }
    }

    /// Makes the command and its children read the stepped clock of this candidate.
    pub fn give(&self, command: &mut Command, folder: &Path, candidate: &str) {
        let file = file(folder, candidate);
        if !file.exists() {
            set(folder, candidate, 0);
        }
        command.env("LD_PRELOAD", &self.library).env("FAKETIME_TIMESTAMP_FILE", file);
        command.env("FAKETIME_NO_CACHE", "1").env("FAKETIME_DONT_FAKE_MONOTONIC", "1");
    }

    /// Sets the candidate's wall clock to a random offset of at most `most`, and returns the offset
    /// as text.
    pub fn step(
        &self,
        folder: &Path,
        candidate: &str,
        most: Duration,
        rng: &mut fastrand::Rng,
    ) -> String {
        let most = i64::try_from(most.as_secs()).expect("a short lease");
        let off = rng.i64(-most..=most);
        set(folder, candidate, off);
        format!("{candidate}, {off:+} s")
    }
}

fn set(folder: &Path, candidate: &str, seconds: i64) {
    let aside = folder.join(format!("aside-{candidate}"));
    std::fs::write(&aside, format!("{seconds:+}\n")).expect("a file");
    std::fs::rename(aside, file(folder, candidate)).expect("the two files are on one file system");
}

fn file(folder: &Path, candidate: &str) -> PathBuf {
    folder.join(format!("clock-{candidate}"))
}
