//! The living descendants of a process.
//!
//! On Linux this module finds the descendants in /proc, in any process group or session. On other
//! systems it finds only the process group of CMD.

use std::io;
use std::time::Duration;

use nix::sys::signal::{Signal, kill, killpg};
use nix::unistd::Pid;

use super::process_group::GroupId;

/// A process that has not ended. It may be suspended (SIGSTOP), but it is not a zombie.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Living {
    pub pid: Pid,
    pub parent: Pid,
    pub group: Pid,
}

/// Number of consecutive rounds in which this process finds and kills its children.
const LOOKS_AT_CHILDREN: usize = 20;

/// True on systems with support for [`adopt_orphans`].
pub const ADOPTS: bool = cfg!(target_os = "linux");

/// Makes this process the parent of orphans among its descendants.
#[cfg(target_os = "linux")]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(nix::sys::prctl::set_child_subreaper(true)?)
}

#[cfg(not(target_os = "linux"))]
pub fn adopt_orphans() -> io::Result<()> {
    Ok(())
}

/// The pauses between the rounds in which a process sends SIGKILL to its descendants.
///
/// The first pauses are short because a process may fork during a round. A process that survives
/// many rounds waits in the kernel or belongs to another user, so the later pauses are longer.
#[derive(Debug, Default)]
pub struct KillPace {
    rounds: u32,
}

impl KillPace {
    pub fn next(&mut self) -> Duration {
        self.rounds = self.rounds.saturating_add(1);
        Duration::from_millis(match self.rounds {
            ..=100 => 5,
            101..=200 => 100,
            _ => 1_000,
        })
    }
}

/// Sends SIGKILL to all descendants of this process. Returns whether any descendant got the signal.
pub fn kill_own(group: Option<GroupId>) -> bool {
    // A program may fork repeatedly, and end each parent. The newest process is then always an
    // orphan, and therefore a child of this process. A round that lists all processes would be too
    // slow to find this child alive, so each round lists only the children.
    let children = (0..LOOKS_AT_CHILDREN).filter(|_| {
        let children = proc::children();
        children.iter().filter(|child| kill(**child, Signal::SIGKILL).is_ok()).count() > 0
    });
    let any_child = children.count() > 0;
    kill_all(&living(Pid::this(), group), group) || any_child
}

/// Sends SIGKILL to these processes. Returns whether any process got the signal.
///
/// The caller has read the process numbers in `living` immediately before the call. The kernel
/// assigns process numbers in sequence, so it has not reused these numbers. The signal also goes to
/// the whole group, because a process may fork during the call. The group gets the signal only if
/// it has a member in `living`. While a group has a member, the kernel does not reuse the number of
/// the group.
pub fn kill_all(living: &[Living], group: Option<GroupId>) -> bool {
    let group = group.filter(|group| living.iter().any(|one| one.group == group.leader()));
    let by_group = group.is_some_and(|group| killpg(group.leader(), Signal::SIGKILL).is_ok());
    let one_by_one = living.iter().filter(|one| kill(one.pid, Signal::SIGKILL).is_ok()).count();
    by_group || one_by_one > 0
}

/// Returns the living descendants of `ancestor`. If /proc cannot be read, returns only the leader
/// of the group, or nothing if the group does not exist.
///
/// The result may miss a process whose parent ends during the call. An empty result does not prove
/// that no descendant lives.
pub fn living(ancestor: Pid, group: Option<GroupId>) -> Vec<Living> {
    match proc::all() {
        Some(all) => proc::below(ancestor, &all),
        None => {
            let group = group.filter(|group| group.exists()).map(GroupId::leader);
            group
                .map(|leader| Living { pid: leader, parent: ancestor, group: leader })
                .into_iter()
                .collect()
        }
    }
}

#[cfg(not(target_os = "linux"))]
mod proc {
    use super::{Living, Pid};

    pub fn all() -> Option<Vec<Living>> {
        None
    }

    pub fn children() -> Vec<Pid> {
        Vec::new()
    }

    pub fn below(_: Pid, _: &[Living]) -> Vec<Living> {
        Vec::new()
    }
}

#[cfg(target_os = "linux")]
mod proc {
    use std::collections::{HashMap, HashSet};

    use super::{Living, Pid};

    /// Returns all processes except zombies.
    pub fn all() -> Option<Vec<Living>> {
        let processes = std::fs::read_dir("/proc").ok()?.flatten();
        let stat = |process: std::fs::DirEntry| {
            let pid = process.file_name().to_str()?.parse().ok()?;
            // If the read fails, the process has ended after its directory was listed.
            let stat = std::fs::read(process.path().join("stat")).ok()?;
            parse(Pid::from_raw(pid), &String::from_utf8_lossy(&stat))
        };
        Some(processes.filter_map(stat).collect())
    }

    /// Returns the living children of the first thread of this process. The first thread adopts the
    /// orphans. Returns an empty list if the kernel was built without lists of children.
    pub fn children() -> Vec<Pid> {
        let list = format!("/proc/self/task/{}/children", Pid::this());
        let list = std::fs::read_to_string(list).unwrap_or_default();
        let numbers = list.split_whitespace().filter_map(|number| number.parse().ok());
        numbers.map(Pid::from_raw).filter(|child| lives(*child)).collect()
    }

    fn lives(pid: Pid) -> bool {
        let stat = std::fs::read(format!("/proc/{pid}/stat")).unwrap_or_default();
        parse(pid, &String::from_utf8_lossy(&stat)).is_some()
    }

    pub fn below(ancestor: Pid, all: &[Living]) -> Vec<Living> {
        let mut children: HashMap<Pid, Vec<Living>> = HashMap::new();
        for one in all {
            children.entry(one.parent).or_default().push(*one);
        }
        let mut below: Vec<Living> = Vec::new();
        let mut seen = HashSet::from([ancestor]);
        let mut next = vec![ancestor];
        while let Some(parent) = next.pop() {
            for one in children.get(&parent).into_iter().flatten() {
                // The parents of different processes were read at different times, so a chain of
                // parents may contain a cycle.
                if seen.insert(one.pid) {
                    below.push(*one);
                    next.push(one.pid);
                }
            }
        }
        below
    }

    /// Parses a line of /proc/PID/stat, see proc(5). Returns `None` if the process is a zombie.
    fn parse(pid: Pid, stat: &str) -> Option<Living> {
        // The name in parentheses may contain any character, including a parenthesis.
        let fields: Vec<&str> = stat.rsplit_once(") ")?.1.split(' ').collect();
        let [state, parent, group, threads] = [0, 1, 2, 17].map(|field| fields.get(field).copied());
        // After the end of its first thread, a process has the state of a zombie, but its other
        // threads may still run.
        let threads: u32 = threads?.parse().ok()?;
        let lives = !matches!(state?, "Z" | "X") || threads > 1;
        let number = |field: Option<&str>| Some(Pid::from_raw(field?.parse().ok()?));
        lives.then_some(Living { pid, parent: number(parent)?, group: number(group)? })
    }

    #[cfg(test)]
    mod tests {
        use super::*;

        fn parsed(state: &str, threads: u32) -> Option<Living> {
            let line = format!("42 (a) b) {state} 7 41 0 0 -1 4 1 0 0 0 1 1 0 0 20 0 {threads} 0");
            parse(Pid::from_raw(42), &line)
        }

        fn one(pid: i32, parent: i32) -> Living {
            let [pid, parent, group] = [pid, parent, 1].map(Pid::from_raw);
            Living { pid, parent, group }
        }

        #[test]
        fn a_zombie_counts_as_living_only_if_it_has_other_threads() {
            let [pid, parent, group] = [42, 7, 41].map(Pid::from_raw);
            for (state, threads) in [("S", 1), ("D", 3), ("Z", 2)] {
                assert_eq!(parsed(state, threads), Some(Living { pid, parent, group }));
            }
            assert_eq!(parsed("Z", 1), None);
            assert_eq!(parsed("X", 1), None);
        }

        #[test]
        fn a_truncated_line_is_refused() {
            assert_eq!(parse(Pid::from_raw(42), ""), None);
            assert_eq!(parse(Pid::from_raw(42), "42 (a) S 1 41 7"), None);
        }

        #[test]
        fn descendants_are_found_at_any_depth() {
            let all = [one(5, 4), one(4, 3), one(3, 2), one(9, 1), one(2, 1), one(8, 3)];
            let mut found: Vec<i32> =
                below(Pid::from_raw(2), &all).iter().map(|one| one.pid.as_raw()).collect();
            found.sort_unstable();
            assert_eq!(found, [3, 4, 5, 8]);
        }

        #[test]
        fn a_cycle_of_parents_ends_the_search() {
            let all = [one(3, 4), one(4, 3), one(3, 2)];
            assert_eq!(below(Pid::from_raw(2), &all).len(), 2);
        }

        #[test]
        fn all_processes_include_this_process() {
            let own = Pid::this();
            let all = all().expect("Linux has a /proc");
            assert!(all.iter().any(|one| one.pid == own));
        }
    }
}
