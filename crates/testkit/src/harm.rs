//! Kills parts of the Ceph cluster that `scripts/servers/ceph.sh` has started. The script restarts
//! the killed parts.

use std::path::PathBuf;

use nix::sys::signal::{Signal, kill};
use nix::unistd::Pid;

/// Parts of the cluster, in the order in which they are killed. OSDs and gateways alternate.
pub const PARTS: [&str; 5] = ["osd.1", "gateway.0", "osd.2", "gateway.1", "osd.0"];

const FOLDER: &str = "TENURE_TEST_PIDS";

pub struct Harm {
    folder: PathBuf,
    turn: usize,
}

impl Harm {
    /// Returns whether the server is a Ceph cluster that `scripts/servers/ceph.sh` has started.
    pub fn is_possible() -> bool {
        std::env::var_os(FOLDER).is_some()
    }

    pub fn of_the_cluster() -> Harm {
        let folder = std::env::var_os(FOLDER).expect("set by scripts/servers/ceph.sh");
        Harm { folder: folder.into(), turn: 0 }
    }

    /// Kills the next part immediately, and returns its name.
    pub fn kill_the_next(&mut self) -> &'static str {
        let part = PARTS[self.turn % PARTS.len()];
        self.turn += 1;
        let file = self.folder.join(format!("{part}.pid"));
        let pid = std::fs::read_to_string(file).expect("the script writes this file");
        let pid = pid.trim().parse().expect("a number");
        // An error means that the part has ended already.
        let _ = kill(Pid::from_raw(pid), Signal::SIGKILL);
        part
    }
}
