//! The messages between `tenure` and the guard: lines of text on two pipes.
//!
//! Both processes run the same binary, so the messages have no version.

use std::fmt;
use std::str::FromStr;
use std::time::Duration;

use nix::sys::signal::Signal;
use tenure::Moment;

use super::deadlines::Deadlines;
use super::hook::Hook;
use super::process_group::GroupId;
use super::resignation::Resignation;

/// A message from `tenure` to the guard. If the pipe of these messages ends, `tenure` has died.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum GuardOrder {
    /// Watch these deadlines. This is the first order, and it is sent once. The guard answers with
    /// `Watching`.
    Watch(Deadlines),
    /// Resign the epoch after `tenure` has died and no process of CMD is left. The order is sent at
    /// most once, before `Start`. The guard does not answer.
    Resign(Box<Resignation>),
    /// Run this hook at the same time as CMD. The order is sent at most once, before `Start`. The
    /// guard answers with `HookEnded` after the end of the hook.
    OnElected(Box<Hook>),
    /// Start CMD. The order is sent once, before all orders below. The guard answers with `Started`
    /// or `TooLate`.
    Start,
    /// Watch these deadlines in place of all earlier deadlines. The guard answers with `Watching`.
    Lease(Deadlines),
    /// Forward this signal to the process group of CMD. The guard answers with `Signalled`.
    Signal(Signal),
    /// Send SIGTERM to the remaining descendants of CMD. `tenure` sends this order after the end of
    /// CMD.
    EndRest,
    /// `tenure` sends no more orders and closes the pipe, but is alive. So the guard must not
    /// interpret the end of the pipe as the death of `tenure`.
    Leave,
}

/// A message from the guard to `tenure`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GuardReport {
    /// The guard watches the deadlines of the last order.
    Watching,
    /// CMD was not started because the lease had ended.
    TooLate,
    /// CMD was started. The value is its process group.
    Started(GroupId),
    /// Number of `Signal` orders that the guard has carried out since its previous report.
    Signalled(u32),
    /// The deadline for SIGTERM has passed, so CMD got SIGTERM.
    Terminated,
    /// CMD or at least one of its descendants got SIGKILL from the guard.
    Killed,
    /// CMD has ended. The value is the wait status that the system reported.
    Ended(i32),
    /// The hook has ended. The value is the wait status that the system reported.
    HookEnded(i32),
    /// No process of CMD is left. This is the last report.
    Gone,
}

/// Prefix of the JSON of a [`Resignation`]. The JSON contains no line breaks.
const RESIGN: &str = "resign ";
/// Prefix of the JSON of a [`Hook`].
const ON_ELECTED: &str = "on-elected ";

impl fmt::Display for GuardOrder {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardOrder::Watch(deadlines) => write!(f, "watch {deadlines}"),
            GuardOrder::Resign(resignation) => {
                let json = serde_json::to_string(resignation).map_err(|_| fmt::Error)?;
                write!(f, "{RESIGN}{json}")
            }
            GuardOrder::OnElected(hook) => {
                let json = serde_json::to_string(hook).map_err(|_| fmt::Error)?;
                write!(f, "{ON_ELECTED}{json}")
            }
            GuardOrder::Start => f.write_str("start"),
            GuardOrder::Lease(deadlines) => write!(f, "lease {deadlines}"),
            GuardOrder::Signal(signal) => write!(f, "signal {signal}"),
            GuardOrder::EndRest => f.write_str("end-rest"),
            GuardOrder::Leave => f.write_str("leave"),
        }
    }
}

/// Refuses a garbled line. The guard then ends CMD in the same way as after the death of `tenure`.
impl FromStr for GuardOrder {
    type Err = ();

    fn from_str(line: &str) -> Result<GuardOrder, ()> {
        if let Some(json) = line.strip_prefix(RESIGN) {
            return serde_json::from_str(json).map(GuardOrder::Resign).map_err(|_| ());
        }
        if let Some(json) = line.strip_prefix(ON_ELECTED) {
            return serde_json::from_str(json).map(GuardOrder::OnElected).map_err(|_| ());
        }
        let words: Vec<&str> = line.split(' ').collect();
        match words[..] {
            ["watch", ref deadlines @ ..] => parse_deadlines(deadlines).map(GuardOrder::Watch),
            ["start"] => Some(GuardOrder::Start),
            ["lease", ref deadlines @ ..] => parse_deadlines(deadlines).map(GuardOrder::Lease),
            ["signal", signal] => signal.parse().ok().map(GuardOrder::Signal),
            ["end-rest"] => Some(GuardOrder::EndRest),
            ["leave"] => Some(GuardOrder::Leave),
            _ => None,
        }
        .ok_or(())
    }
}

/// Writes the deadline for SIGTERM, and then the deadline for SIGKILL. Each deadline has three
/// numbers: its times on the boot clock, the raw clock and the wall clock, in nanoseconds.
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

/// Converts to nanoseconds. Saturates at 584 years.
fn nanos(since: Duration) -> u64 {
    u64::try_from(since.as_nanos()).unwrap_or(u64::MAX)
}

fn parse_deadlines(words: &[&str]) -> Option<Deadlines> {
    let nanos = |word: &str| word.parse().ok().map(Duration::from_nanos);
    let moment = |words: &[&str]| match *words {
        [boot, raw, wall] => Some(Moment::new(nanos(boot)?, nanos(raw)?, nanos(wall)?)),
        _ => None,
    };
    let (term, kill) = words.split_at_checked(3)?;
    Some(Deadlines { term_at: moment(term)?, kill_at: moment(kill)? })
}

impl fmt::Display for GuardReport {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            GuardReport::Watching => f.write_str("watching"),
            GuardReport::TooLate => f.write_str("too-late"),
            GuardReport::Started(group) => write!(f, "started {group}"),
            GuardReport::Signalled(orders) => write!(f, "signalled {orders}"),
            GuardReport::Terminated => f.write_str("terminated"),
            GuardReport::Killed => f.write_str("killed"),
            GuardReport::Ended(status) => write!(f, "ended {status}"),
            GuardReport::HookEnded(status) => write!(f, "hook-ended {status}"),
            GuardReport::Gone => f.write_str("gone"),
        }
    }
}

impl FromStr for GuardReport {
    type Err = ();

    fn from_str(line: &str) -> Result<GuardReport, ()> {
        match line.split_once(' ').unwrap_or((line, "")) {
            ("watching", "") => Some(GuardReport::Watching),
            ("too-late", "") => Some(GuardReport::TooLate),
            ("started", group) => {
                group.parse().ok().and_then(GroupId::new).map(GuardReport::Started)
            }
            ("signalled", orders) => orders.parse().ok().map(GuardReport::Signalled),
            ("terminated", "") => Some(GuardReport::Terminated),
            ("killed", "") => Some(GuardReport::Killed),
            ("ended", status) => status.parse().ok().map(GuardReport::Ended),
            ("hook-ended", status) => status.parse().ok().map(GuardReport::HookEnded),
            ("gone", "") => Some(GuardReport::Gone),
            _ => None,
        }
        .ok_or(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn deadlines() -> Deadlines {
        let moment = |boot, wall| {
            let [boot, wall] = [Duration::new(boot, 1), Duration::new(wall, 2)];
            Moment::new(boot, boot, wall)
        };
        Deadlines { term_at: moment(10, 1_800_000_000), kill_at: moment(20, 1_800_000_010) }
    }

    fn resignation() -> Resignation {
        Resignation {
            store: "s3://b/a \"b\"\n".to_owned(),
            layout: "epoch-files".to_owned(),
            candidate: "größe\nstart".to_owned(),
            validity_ms: 30_000,
            request_timeout_ms: 6_000,
            key: "7-5f0c".to_owned(),
            successor: Some("lease 1".to_owned()),
            kill_margin_ms: 1_500,
        }
    }

    #[test]
    fn orders_round_trip_through_the_pipe() {
        for order in [
            GuardOrder::Watch(deadlines()),
            GuardOrder::Resign(Box::new(resignation())),
            GuardOrder::OnElected(Box::new(Hook { line: "a 'b'\n".to_owned(), limit_ms: 7 })),
            GuardOrder::Start,
            GuardOrder::Lease(deadlines()),
            GuardOrder::Signal(Signal::SIGHUP),
            GuardOrder::EndRest,
            GuardOrder::Leave,
        ] {
            let line = order.to_string();
            assert!(!line.contains('\n'), "{line}");
            assert_eq!(line.parse(), Ok(order));
        }
        assert_eq!(
            GuardOrder::Lease(deadlines()).to_string(),
            "lease 10000000001 10000000001 1800000000000000002 \
             20000000001 20000000001 1800000010000000002"
        );
    }

    #[test]
    fn reports_round_trip_through_the_pipe() {
        let group = GroupId::new(4711).expect("a process number above 1");
        for report in [
            GuardReport::Watching,
            GuardReport::TooLate,
            GuardReport::Started(group),
            GuardReport::Signalled(7),
            GuardReport::Terminated,
            GuardReport::Killed,
            GuardReport::Ended(256),
            GuardReport::HookEnded(9),
            GuardReport::Gone,
        ] {
            assert_eq!(report.to_string().parse(), Ok(report));
        }
    }

    #[test]
    fn a_truncated_line_is_refused() {
        let whole = GuardOrder::Lease(deadlines()).to_string();
        let cut = whole.rsplit_once(' ').expect("it has spaces").0;
        for line in [
            cut,
            "",
            "star",
            "start 7",
            "lease",
            "lease 1 2 3 4 5 -6",
            "lease 1 2 3 4 5 6 7",
            "signal 15",
            "leave now",
            "resign {}",
            r#"resign {"store":"file:///x","la"#,
        ] {
            assert!(line.parse::<GuardOrder>().is_err(), "{line:?}");
        }
        for line in ["", "started", "ended", "ended x", "gone 1"] {
            assert!(line.parse::<GuardReport>().is_err(), "{line:?}");
        }
    }

    #[test]
    fn a_group_number_below_2_is_refused() {
        for group in [-7, -1, 0, 1] {
            assert!(format!("started {group}").parse::<GuardReport>().is_err(), "{group}");
        }
        assert!("started 2".parse::<GuardReport>().is_ok());
    }
}
