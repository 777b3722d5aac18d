//! Messages shared by `depose`, `restore` and the operator's verbs of a group.

use std::time::Duration;

use humantime::format_duration;
use tenure::Leader;

use crate::exit::Failure;
use crate::output::print::plain;

/// Converts an error of the library to a failure. If the request may have taken effect, adds a
/// remedy.
pub fn unknown(error: tenure::Error) -> Failure {
    let maybe = error.may_have_happened();
    let mut failure = Failure::from(error);
    if maybe {
        failure.why += ". It is unknown whether the request took effect: run the command again to \
                        find out";
    }
    failure
}

/// Returns the name of the leader for a message, escaped for a terminal.
pub fn holder(leader: &Leader) -> String {
    leader.candidate.as_deref().map_or("a candidate without a name".to_owned(), plain)
}

/// Returns a sentence about the maximum time for which a successor must wait before it can lead.
pub fn then(wait: Duration) -> String {
    match up_to_seconds(wait) {
        None => "a successor need not wait".to_owned(),
        Some(wait) => {
            format!("a successor waits up to {} for the old lease to end", format_duration(wait))
        }
    }
}

/// Rounds a wait up to whole seconds. Returns `None` for a wait below 10 ms.
pub fn up_to_seconds(wait: Duration) -> Option<Duration> {
    let waits = wait >= Duration::from_millis(10);
    waits.then(|| Duration::from_secs(wait.as_secs() + u64::from(wait.subsec_nanos() > 0)))
}

/// Returns the error for an epoch without a validity. Only `depose --force` can end such an epoch.
pub fn needs_force(leader: &Leader) -> String {
    format!(
        "the record of epoch {} does not contain the validity of its lease; if its holder is \
         certainly dead, use `tenure depose --epoch {} --force`",
        leader.epoch, leader.epoch
    )
}
