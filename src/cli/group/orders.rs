//! What `tenure` and its guard say to each other: lines of text on two pipes.
//!
//! Both are one binary started by the other, so there are no versions.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use tenure::Moment;

use super::id::GroupId;
use super::vigil::Deadlines;

/// From `tenure` to the guard. Each but `Done` is answered, in order.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Order {
    /// Watch over this group, with these deadlines. The first order, given once.
    Watch(GroupId, Deadlines),
    /// New deadlines.
    Lease(Deadlines),
    /// Say what has happened up to now.
    Ping,
    /// The group is gone; leave. The pipe ending without it means that `tenure` has died.
    Done,
}

/// From the guard to `tenure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Report {
    /// The deadlines are watched.
    Watching,
    /// The answer to a ping.
    Pong,
    /// The group was sent SIGTERM.
    Terminated,
    /// The group was sent SIGKILL.
    Killed,
}

/// A line that makes no sense. The guard then kills the group, as if `tenure` had died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Garbled(String);

impl fmt::Display for Order {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Order::Watch(group, deadlines) => write!(f, "watch {group} {deadlines}"),
            Order::Lease(deadlines) => write!(f, "lease {deadlines}"),
            Order::Ping => f.write_str("ping"),
            Order::Done => f.write_str("done"),
        }
    }
}

impl FromStr for Order {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Order, Garbled> {
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["watch", group, ref deadlines @ ..] => {
                { group.parse().ok().and_then(GroupId::new).zip(parse_deadlines(deadlines)) }
                    .map(|(group, deadlines)| Order::Watch(group, deadlines))
            }
            ["lease", ref deadlines @ ..] => parse_deadlines(deadlines).map(Order::Lease),
            ["ping"] => Some(Order::Ping),
            ["done"] => Some(Order::Done),
            _ => None,
        }
        .ok_or_else(|| Garbled(line.to_owned()))
    }
}

/// Nanoseconds by the boot, the raw and the wall clock, first for SIGTERM, then for SIGKILL.
impl fmt::Display for Deadlines {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let [term_boot, term_raw, term_wall] = clocks(self.term_at);
        let [kill_boot, kill_raw, kill_wall] = clocks(self.kill_at);
        write!(f, "{term_boot} {term_raw} {term_wall} {kill_boot} {kill_raw} {kill_wall}")
    }
}

fn clocks(moment: Moment) -> [u64; 3] {
    [moment.boot, moment.raw, moment.wall].map(nanos)
}

/// What lies more than 584 years ahead may as well come then.
fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn parse_deadlines(words: &[&str]) -> Option<Deadlines> {
    let nanos = |word: &str| word.parse().ok().map(Duration::from_nanos);
    let moment = |words: &[&str]| match *words {
        [boot, raw, wall] => {
            Some(Moment { boot: nanos(boot)?, raw: nanos(raw)?, wall: nanos(wall)? })
        }
        _ => None,
    };
    let (term, kill) = words.split_at_checked(3)?;
    Some(Deadlines { term_at: moment(term)?, kill_at: moment(kill)? })
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Report::Watching => "watching",
            Report::Pong => "pong",
            Report::Terminated => "terminated",
            Report::Killed => "killed",
        })
    }
}

impl FromStr for Report {
    type Err = Garbled;

    fn from_str(line: &str) -> Result<Report, Garbled> {
        match line {
            "watching" => Ok(Report::Watching),
            "pong" => Ok(Report::Pong),
            "terminated" => Ok(Report::Terminated),
            "killed" => Ok(Report::Killed),
            _ => Err(Garbled(line.to_owned())),
        }
    }
}

impl fmt::Display for Garbled {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "a line that makes no sense: {:?}", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlines() -> Deadlines {
        let moment = |boot, wall| {
            let [boot, wall] = [Duration::new(boot, 1), Duration::new(wall, 2)];
            Moment { boot, raw: boot, wall }
        };
        Deadlines { term_at: moment(10, 1_800_000_000), kill_at: moment(20, 1_800_000_010) }
    }

    #[test]
    fn orders_survive_the_pipe() {
        let group = GroupId::new(4711).expect("a process number above 1");
        for order in
            [Order::Watch(group, deadlines()), Order::Lease(deadlines()), Order::Ping, Order::Done]
        {
            assert_eq!(order.to_string().parse(), Ok(order));
        }
        assert_eq!(
            Order::Lease(deadlines()).to_string(),
            "lease 10000000001 10000000001 1800000000000000002 \
             20000000001 20000000001 1800000010000000002"
        );
    }

    #[test]
    fn reports_survive_the_pipe() {
        for report in [Report::Watching, Report::Pong, Report::Terminated, Report::Killed] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[test]
    fn a_line_cut_short_is_garbled() {
        let whole = Order::Lease(deadlines()).to_string();
        let cut = whole.rsplit_once(' ').expect("it has spaces").0;
        for line in
            [cut, "", "don", "lease", "lease 1 2 3 4 5 -6", "lease 1 2 3 4 5 6 7", "watch 7"]
        {
            assert!(line.parse::<Order>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn no_order_can_name_every_process_or_the_guards_own_group() {
        for group in [-7, -1, 0, 1] {
            assert!(format!("watch {group} 1 2 3 4 5 6").parse::<Order>().is_err(), "{group}");
        }
        assert!("watch 2 1 2 3 4 5 6".parse::<Order>().is_ok());
    }
}
