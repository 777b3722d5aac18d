//! `/livez` and `/readyz`, and the state for systemd.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, Served};
use super::machine::ServedRole;
use crate::http::health::{Pulse, answered_lately, denied, in_a_line};
use crate::http::{Reply, Routes};
use crate::output::print::in_seconds;
use crate::process::lock::lock;
use crate::process::systemd::ServiceState;

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

/// Returns 200 if all elections and groups are ready. A ready election or group has started, has
/// not failed or ended, and has a recent answer of its store.
fn readyz(served: &Served, recent: Duration) -> Reply {
    let elections = served.elections.iter().map(|candidacy| {
        let now = candidacy.now();
        let reason = &candidacy.common.failure;
        let failure = candidacy.election.last_failure();
        (&candidacy.common.name, now.role, reason, now.answered_ago, failure)
    });
    let groups = served.members.iter().map(|member| {
        let reason = &member.common.failure;
        let (answered_ago, failure) =
            (member.group.since_last_answer(), member.group.last_failure());
        (&member.common.name, member.now().role, reason, answered_ago, failure)
    });
    for (name, role, reason, answered_ago, failure) in elections.chain(groups) {
        let refused = match role {
            ServedRole::Starting => Some(not_ready(name, "starting", "")),
            ServedRole::Ending => Some(not_ready(name, "ending", "")),
            ServedRole::Failed(why) => Some(not_ready(name, why, &lock(reason))),
            _ => denied(failure.as_ref()).or_else(|| answered_lately(answered_ago, recent)),
        };
        if let Some(refused) = refused {
            return refused;
        }
    }
    Reply::text(200, "ok")
}

/// Returns the state of this process for systemd. The state is ready if the stores are open and the
/// API is served.
pub fn service_state(served: Option<&Served>, recent: Duration) -> ServiceState {
    let Some(served) = served else {
        return ServiceState { ready: false, text: "unknown: starting".to_owned() };
    };
    let elections = served.elections.iter().map(|candidacy| {
        let now = candidacy.now();
        let (role, _) = now.role.state(now.at_risk, "campaigning", "leading");
        let line = in_a_line(role, now.leads, &candidacy.election, recent);
        format!("{} {line}", candidacy.common.name)
    });
    let groups = served.members.iter().map(|member| {
        let now = member.now();
        let (role, _) = now.role.state(now.at_risk, "joining", "member");
        let left = now.session.map(|(_, left)| format!(": {} left", in_seconds(left)));
        format!("{} {role}{}", member.common.name, left.unwrap_or_default())
    });
    ServiceState { ready: true, text: elections.chain(groups).collect::<Vec<_>>().join("; ") }
}

fn not_ready(name: &str, why: &str, reason: &str) -> Reply {
    match why {
        "starting" | "ending" | "panicked" => Reply::text(503, &format!("{name}: {why}")),
        why => Reply::text(503, &format!("{name}: {why}: {reason}")),
    }
}
