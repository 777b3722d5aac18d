//! Whether anything of a group still lives, once its leader has been reaped.

use std::io;
use std::time::Duration;

use nix::errno::Errno;

use super::id::GroupId;

const FIRST_SCAN_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_SCAN_PAUSE: Duration = Duration::from_secs(2);
/// A scan goes by ascending number, and so misses a process only if its parent ends meanwhile and
/// the numbers wrap around just then. That does not happen twice in a row.
const SCANS_THAT_AGREE: u32 = 2;

/// Watches for the end of what is left.
///
/// The kernel counts zombies as members of the group. They do nothing any more, but some init
/// processes reap them late or never, and the next leader must not wait for that.
#[derive(Debug)]
pub struct Rest {
    group: GroupId,
    pause: Duration,
    next_scan: Duration,
    without_life: u32,
}

impl Rest {
    pub fn of(group: GroupId) -> Rest {
        let (pause, next_scan) = (FIRST_SCAN_PAUSE, Duration::ZERO);
        Rest { group, pause, next_scan, without_life: 0 }
    }

    /// Whether no process of the group lives. `now` is by the boot clock; a look through all
    /// processes is dear, and is taken ever less often while some live.
    pub fn is_gone(&mut self, now: Duration) -> bool {
        if !self.group.exists() {
            return true;
        }
        if now < self.next_scan {
            return false;
        }
        if only_zombies(self.group) {
            self.without_life += 1;
            self.pause = FIRST_SCAN_PAUSE;
        } else {
            self.without_life = 0;
            self.pause = (2 * self.pause).min(LONGEST_SCAN_PAUSE);
        }
        self.next_scan = now + self.pause;
        self.without_life >= SCANS_THAT_AGREE
    }
}

/// Whether the group has processes, and all of them wait to be reaped. False where there is no
/// telling.
fn only_zombies(group: GroupId) -> bool {
    let Ok(processes) = std::fs::read_dir("/proc") else { return false };
    let mut zombies = 0;
    for process in processes {
        let Ok(process) = process else { return false };
        if !process.file_name().as_encoded_bytes().first().is_some_and(u8::is_ascii_digit) {
            continue;
        }
        let stat = match std::fs::read(process.path().join("stat")) {
            Ok(stat) => stat,
            Err(error) if has_ended(&error) => continue,
            Err(_) => return false,
        };
        match Member::parse(&String::from_utf8_lossy(&stat)) {
            Some(member) if member.group != group.leader().as_raw() => {}
            Some(member) if !member.lives => zombies += 1,
            _ => return false,
        }
    }
    zombies > 0
}

/// Whether the error says that the process ended between the listing and the reading.
fn has_ended(error: &io::Error) -> bool {
    error.kind() == io::ErrorKind::NotFound || error.raw_os_error() == Some(Errno::ESRCH as i32)
}

/// A line of /proc/PID/stat, see proc(5).
struct Member {
    group: i32,
    lives: bool,
}

impl Member {
    fn parse(stat: &str) -> Option<Member> {
        // The name in parentheses may hold anything, a parenthesis included.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let [state, group, threads] = [0, 2, 17].map(|field| fields.get(field).copied());
        // A process whose first thread has ended looks like a zombie, but its others run on.
        let threads: u32 = threads?.parse().ok()?;
        let lives = !matches!(state?, "Z" | "X") || threads > 1;
        Some(Member { group: group?.parse().ok()?, lives })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parse(state_and_group: &str, threads: u32) -> Option<(i32, bool)> {
        let line = format!("42 (a) b) {state_and_group} 7 0 -1 4 1 0 0 0 1 1 0 0 20 0 {threads} 0");
        Member::parse(&line).map(|member| (member.group, member.lives))
    }

    #[test]
    fn a_zombie_does_not_live_unless_it_has_threads() {
        assert_eq!(parse("S 1 41", 1), Some((41, true)));
        assert_eq!(parse("D 1 41", 3), Some((41, true)));
        assert_eq!(parse("Z 1 41", 1), Some((41, false)));
        assert_eq!(parse("Z 1 41", 2), Some((41, true)));
        assert_eq!(parse("X 1 41", 1), Some((41, false)));
    }

    #[test]
    fn a_line_cut_short_is_no_member() {
        assert!(Member::parse("").is_none());
        assert!(Member::parse("42 (a) S 1 41 7").is_none());
    }

    #[test]
    fn this_process_lives() {
        let stat = std::fs::read_to_string("/proc/self/stat").unwrap_or_default();
        // Elsewhere than on Linux there is no such file, and nothing is ever taken for a zombie.
        assert!(stat.is_empty() || Member::parse(&stat).is_some_and(|member| member.lives));
    }
}
