//! The formats of two older sidecars, for applications that ask those: `leader-elector` of
//! Kubernetes' contrib repository (`GET /` gives `name`), and NAV's `nais/elector` (`name` and
//! `last_update`, and the same as events at `/sse`). The first is a part of the second.
//!
//! Their clients compare `name` with their own host's name, and know of no lease.

use std::sync::Arc;

use futures::stream::BoxStream;
use serde::Serialize;
use tenure::Process;

use super::candidacy::Candidacy;
use super::stream::follow;
use super::view::View;
use crate::print::json_line;

/// The leader, or an empty name.
#[derive(Debug, Clone, Serialize)]
pub struct Leader {
    name: String,
    /// When this was true, as far as is known: now of an own leadership, and of another's when the
    /// store last answered.
    last_update: String,
}

pub fn leader_of(candidacy: &Candidacy) -> Leader {
    of(&View::of(candidacy))
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

fn of(view: &View) -> Leader {
    let name = match &view.leader {
        // Another process of this name, such as this candidate before a restart: to the application
        // it would look like its own leadership.
        Some(name) if !view.this_candidate_leads && *name == view.candidate => "",
        Some(name) => name,
        None => "",
    };
    let age = match view.this_candidate_leads {
        true => 0,
        false => view.store_answered_ms_ago.unwrap_or_default(),
    };
    let now = Process::system().now();
    let at = now.minus(std::time::Duration::from_millis(age)).time_of_day();
    Leader { name: name.to_owned(), last_update: at.format("%FT%TZ").to_string() }
}
