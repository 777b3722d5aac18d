//! The parts of the health pages that `run`, `group run` and `serve` share.

pub mod pulse;

use std::time::Duration;

use tenure::{Election, Error, ErrorKind, LastSeen};

use crate::election::LeaseState;
use crate::http::Reply;
use crate::output::print::{in_seconds, plain};

pub use pulse::Pulse;

/// Returns the maximum age that the store's last answer may have while a process counts as ready.
/// It is the longest regular pause between two requests, plus the timeouts of two requests.
pub fn recent(longest_pause: Duration, request_timeout: Duration) -> Duration {
    longest_pause.saturating_add(request_timeout.saturating_mul(2))
}

/// Returns the 503 reply of `/readyz` for a failure that an operator must correct. Returns `None`
/// for a temporary failure, because [`answered_lately`] reports temporary failures.
pub fn denied(failure: Option<&Error>) -> Option<Reply> {
    let failure = failure.filter(|error| error.kind() != ErrorKind::Unavailable)?;
    Some(Reply::text(503, &plain(&failure.to_string())))
}

/// Returns the 503 reply of `/readyz` if the store's last answer is older than `recent`. `ago` is
/// the age of this answer, or `None` if the store has not answered.
pub fn answered_lately(ago: Option<Duration>, recent: Duration) -> Option<Reply> {
    silence(ago, recent).map(|silence| Reply::text(503, &silence))
}

fn silence(ago: Option<Duration>, recent: Duration) -> Option<String> {
    match ago {
        None => Some("the store has not answered yet".to_owned()),
        Some(ago) if ago > recent => {
            Some(format!("the store has not answered for {}", in_seconds(ago)))
        }
        Some(_) => None,
    }
}

/// Returns a line about the state of an election, such as `held: leading epoch 7, 42s left`. `role`
/// is the role of this candidate. If this candidate leads, `own` contains its epoch and the time
/// left of its lease.
pub fn in_a_line(
    state: LeaseState,
    role: &str,
    own: Option<(u64, Duration)>,
    election: &Election,
    recent: Duration,
) -> String {
    if let Some((epoch, left)) = own {
        return format!("held: {role} epoch {epoch}, {} left", in_seconds(left));
    }
    if let Some(LastSeen { leader, lapses_in, .. }) = election.last_seen().filter(LastSeen::is_held)
    {
        let left = lapses_in.map(|left| format!(", {} left", in_seconds(left)));
        let (name, left) = (plain(leader.name()), left.unwrap_or_default());
        return format!("held: {name} leads epoch {}{left}", leader.epoch);
    }
    match silence(election.since_last_answer(), recent) {
        Some(silence) if state == LeaseState::Unknown => format!("unknown: {silence}"),
        _ => format!("{state}: {role}"),
    }
}
