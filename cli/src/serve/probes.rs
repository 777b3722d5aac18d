//! `/livez` and `/readyz`.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, Served};
use super::candidacy;
use super::groups::member;
use crate::http::health::{Pulse, answered_lately, denied};
use crate::http::{Reply, Routes};
use crate::process::lock::lock;

pub fn probes(api: &Arc<Api>, pulse: &Arc<Pulse>, recent: Duration) -> Routes {
    let (api, pulse) = (Arc::clone(api), Arc::clone(pulse));
    Arc::new(move |path| match path {
        "/livez" => Some(pulse.livez()),
        "/readyz" => Some(match api.served.get() {
            Some(served) => readyz(served, recent),
            None => Reply::text(503, "starting"),
        }),
        _ => None,
    })
}

/// Whether each election is campaigned in and each group joined, or about to be, and their stores
/// have answered lately.
fn readyz(served: &Served, recent: Duration) -> Reply {
    let elections = served.elections.iter().map(|candidacy| {
        let now = candidacy.now();
        let why = match now.role {
            candidacy::CandidateRole::Starting => Some("starting"),
            candidacy::CandidateRole::Ending => Some("ending"),
            candidacy::CandidateRole::Failed(why) => Some(why),
            _ => None,
        };
        let why = why.map(|why| (why, &candidacy.failure));
        (&candidacy.name, why, now.answered_ago, candidacy.election.last_failure())
    });
    let groups = served.members.iter().map(|member| {
        let why = match member.now().role {
            member::MemberRole::Starting => Some("starting"),
            member::MemberRole::Ending => Some("ending"),
            member::MemberRole::Failed(why) => Some(why),
            _ => None,
        };
        let why = why.map(|why| (why, &member.failure));
        (&member.name, why, member.group.since_last_answer(), member.group.last_failure())
    });
    for (name, why, answered_ago, failure) in elections.chain(groups) {
        let refused = match why {
            Some((why, reason)) => Some(not_ready(name, why, &lock(reason))),
            None => denied(failure.as_ref()).or_else(|| answered_lately(answered_ago, recent)),
        };
        if let Some(refused) = refused {
            return refused;
        }
    }
    Reply::text(200, "ok")
}

fn not_ready(name: &str, why: &str, reason: &str) -> Reply {
    match why {
        "starting" | "ending" | "panicked" => Reply::text(503, &format!("{name}: {why}")),
        why => Reply::text(503, &format!("{name}: {why}: {reason}")),
    }
}
