//! The formats of two older sidecars, for applications that ask those: `leader-elector` of
//! Kubernetes' contrib repository (`GET /` gives `name`), and NAV's `nais/elector` (`name` and
//! `last_update`, and the same as events at `/sse`). The first is a part of the second.
//!
//! Their clients compare `name` with their own host's name, and know of no lease.

use std::sync::Arc;
use std::time::Duration;

use chrono::DateTime;
use futures::stream::BoxStream;
use serde::Serialize;
use tenure::Process;

use super::candidacy::Candidacy;
use super::stream::follow;
use super::view::ElectionView;
use crate::output::print::json_line;

/// The leader, or an empty name.
#[derive(Debug, Clone, Serialize)]
pub struct Leader {
    name: String,
    /// When this was true, as far as is known: now of an own leadership, and of another's when the
    /// store last answered. Before its first answer the start of the Unix epoch: a time in each
    /// client's format, and so old that nobody takes the empty name for news.
    last_update: String,
}

pub fn leader_of(candidacy: &Candidacy) -> Leader {
    of(&ElectionView::of(candidacy))
}

/// The leader now, and after each change.
pub fn events(candidacy: &Arc<Candidacy>) -> BoxStream<'static, String> {
    let mut told = None;
    follow(candidacy, move |candidacy| {
        let leader = leader_of(candidacy);
        if told.as_ref() == Some(&leader.name) {
            return String::new();
        }
        told = Some(leader.name.clone());
        format!("data: {}\n\n", json_line(&leader))
    })
}

fn of(view: &ElectionView) -> Leader {
    let name = match &view.leader {
        // Another process of this name, such as this candidate before a restart: to the application
        // it would look like its own leadership.
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

    fn view(leads: bool, answered_ms_ago: Option<u64>) -> ElectionView {
        ElectionView {
            at: String::new(),
            election: "orders".to_owned(),
            state: "campaigning",
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
    fn regression_nothing_is_new_while_the_store_has_never_answered() {
        let never = of(&view(false, None));
        assert_eq!((&*never.name, &*never.last_update), ("", "1970-01-01T00:00:00Z"));
        let just_now = of(&view(false, Some(0)));
        let an_hour_ago = of(&view(false, Some(3_600_000)));
        // All are in UTC and of one length, so that they sort by time.
        assert!(never.last_update < an_hour_ago.last_update, "{never:?} {an_hour_ago:?}");
        assert!(an_hour_ago.last_update < just_now.last_update, "{an_hour_ago:?} {just_now:?}");
        assert!(of(&view(true, None)).last_update >= just_now.last_update);
    }
}
