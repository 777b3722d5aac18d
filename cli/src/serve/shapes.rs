//! The reply formats of two older sidecars, for applications that use them: `leader-elector` of the
//! Kubernetes contrib repository (`GET /` returns `name`), and `nais/elector` of NAV (`name` and
//! `last_update`, also as events at `/sse`). The first format is a part of the second.
//!
//! A client of these sidecars considers itself the leader if `name` is the name of its host. The
//! client checks no lease.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use futures::stream::BoxStream;
use serde::Serialize;
use tenure::Process;

use super::candidacy::Candidacy;
use super::event_stream::follow;
use super::view::ElectionView;
use crate::output::print::json_line;

/// The reply of `/`: the name of the leader, or an empty name if no leader is known.
#[derive(Debug, Clone, Serialize)]
pub struct Leader {
    name: String,
    /// The time at which `name` was last known to lead. This is the current time if this candidate
    /// leads, and the time of the store's last answer if another process leads. If the store has
    /// not answered yet, this is the start of the Unix epoch. All clients can parse this time, and
    /// it marks the empty name as old.
    last_update: String,
}

pub fn leader_of(candidacy: &Candidacy) -> Leader {
    of(&ElectionView::of(candidacy))
}

/// Returns a stream of events: the current leader, and then the leader after each change.
pub fn events(candidacy: &Arc<Candidacy>) -> BoxStream<'static, String> {
    let mut sent = None;
    follow(candidacy, move |candidacy| {
        let leader = leader_of(candidacy);
        if sent.as_ref() == Some(&leader.name) {
            return String::new();
        }
        sent = Some(leader.name.clone());
        format!("data: {}\n\n", json_line(&leader))
    })
}

fn of(view: &ElectionView) -> Leader {
    let name = match &view.leader {
        // Another process with the same name leads, such as a predecessor of this process. The
        // reply omits the name, because the application would consider the leadership its own.
        Some(name) if !view.this_candidate_leads && *name == view.candidate => "",
        Some(name) => name,
        None => "",
    };
    let age = match view.this_candidate_leads {
        true => Some(0),
        false => view.store_answered_ms_ago,
    };
    let before = |age| Process::system().now().minus(Duration::from_millis(age)).time_of_day();
    let at = age.map_or(DateTime::UNIX_EPOCH, before);
    Leader { name: name.to_owned(), last_update: at.format("%FT%TZ").to_string() }
}

#[cfg(test)]
mod tests {
    use serde_json::Value;

    use super::*;
    use crate::election::LeaseState;

    fn view(leads: bool, answered_ms_ago: Option<u64>) -> ElectionView {
        ElectionView {
            at: String::new(),
            election: "orders".to_owned(),
            state: LeaseState::held_if(leads),
            role: "campaigning",
            reason: None,
            this_candidate_leads: leads,
            candidate: "a".to_owned(),
            leader: leads.then(|| "a".to_owned()),
            epoch: None,
            data: Value::Null,
            lease_remaining_ms: None,
            lapses_in_ms: None,
            store_answered_ms_ago: answered_ms_ago,
            lost: None,
        }
    }

    #[test]
    fn regression_the_reply_is_old_before_the_first_answer_of_the_store() {
        let never = of(&view(false, None));
        assert_eq!((&*never.name, &*never.last_update), ("", "1970-01-01T00:00:00Z"));
        let just_now = of(&view(false, Some(0)));
        let an_hour_ago = of(&view(false, Some(3_600_000)));
        // All times are in UTC and have the same length, so a comparison of the texts is a
        // comparison of the times.
        assert!(never.last_update < an_hour_ago.last_update, "{never:?} {an_hour_ago:?}");
        assert!(an_hour_ago.last_update < just_now.last_update, "{an_hour_ago:?} {just_now:?}");
        assert!(of(&view(true, None)).last_update >= just_now.last_update);
    }
}
