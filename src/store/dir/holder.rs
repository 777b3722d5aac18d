//! Finds the process that holds the lock of a file, for messages.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use nix::sys::stat::{major, minor};

/// A process that holds the lock.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Holder {
    pub(super) pid: u32,
    pub(super) name: String,
    /// True if `SIGSTOP` or a debugger has suspended the process.
    pub(super) stopped: bool,
}

/// Returns the first holder of the lock on the file at this path. Returns `None` if the holder
/// cannot be found, for example because it runs in another container, or the system is not Linux.
pub(super) fn of(path: &Path) -> Option<Holder> {
    let file = fs::metadata(path).ok()?;
    let file = format!("{:02x}:{:02x}:{}", major(file.dev()), minor(file.dev()), file.ino());
    let pid = pid_in(&fs::read_to_string("/proc/locks").ok()?, &file)?;
    process_of(pid, &fs::read_to_string(format!("/proc/{pid}/stat")).ok()?)
}

/// Parses `/proc/locks`, with lines like `1: FLOCK ADVISORY WRITE 1234 08:01:5678 0 EOF`. The line
/// of a waiting process has an arrow.
fn pid_in(locks: &str, file: &str) -> Option<u32> {
    locks.lines().find_map(|line| {
        let mut words = line.split_ascii_whitespace().skip(1);
        let held = words.next() == Some("FLOCK");
        let (pid, of) = (words.nth(2)?, words.next()?);
        pid.parse().ok().filter(|pid| held && of == file && *pid > 0)
    })
}

/// Parses the text of `/proc/PID/stat`, such as `1234 (name) S …`. The
/// name may contain parentheses and spaces.
fn process_of(pid: u32, stat: &str) -> Option<Holder> {
    let (start, rest) = stat.rsplit_once(')')?;
    let name = start.split_once('(')?.1.to_owned();
    let stopped = matches!(rest.trim_start().chars().next(), Some('T' | 't'));
    Some(Holder { pid, name, stopped })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_holder_of_a_file_is_found_among_all_locks() {
        let locks = "1: FLOCK  ADVISORY  WRITE 9484 fe:00:10019072 0 EOF\n\
                     2: POSIX  ADVISORY  WRITE 12 fe:00:77 0 EOF\n\
                     3: FLOCK  ADVISORY  WRITE 34 fe:00:77 0 EOF\n\
                     3: -> FLOCK  ADVISORY  WRITE 56 fe:00:88 0 EOF\n\
                     4: FLOCK  ADVISORY  READ  0 fe:00:99 0 EOF\n5: FLOCK\n";
        assert_eq!(pid_in(locks, "fe:00:77"), Some(34));
        for file in ["fe:00:7", "fe:01:77", "fe:00:88", "fe:00:99"] {
            assert_eq!(pid_in(locks, file), None, "{file}");
        }
    }

    #[test]
    fn the_state_of_a_process_shows_whether_it_is_stopped() {
        for (state, stopped) in [("T", true), ("t", true), ("S", false), ("D", false)] {
            let holder = process_of(7, &format!("7 (a (b) c) {state} 1 7 7 0"));
            let name = "a (b) c".to_owned();
            assert_eq!(holder, Some(Holder { pid: 7, name, stopped }));
        }
        assert_eq!(process_of(7, ""), None);
    }
}
