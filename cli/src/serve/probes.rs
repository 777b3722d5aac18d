//! The replies of `/livez` and `/readyz` of a sidecar, and its state for systemd.

use std::sync::Arc;
use std::time::Duration;

use super::api::{Api, Served};
use tenure::Error;

use super::machine::{Common, ServedRole};
use crate::http::health::{Pulse, answered_lately, denied, in_a_line};
use crate::http::{Reply, Routes};
use crate::output::print::in_seconds;
use crate::process::lock::lock;
use crate::process::systemd::ServiceState;

pub fn probes(api: &Arc<Api>, pulse: &Arc<Pulse>) -> Routes {
    let (api, pulse) = (Arc::clone(api), Arc::clone(pulse));
    Arc::new(move |path| match path {
        "/livez" => Some(pulse.livez()),
        "/readyz" => Some(match api.served.get() {
            Some(served) => readyz(served),
            None => Reply::text(503, "starting"),
        }),
        _ => None,
    })
}

/// Returns 200 if all elections and groups are ready. A ready election or group has started, has
/// not failed or ended, and has a recent answer of its store.
fn readyz(served: &Served) -> Reply {
    let elections = served.elections.iter().map(|candidacy| {
        let (now, failure) = (candidacy.now(), candidacy.election.last_failure());
        refused(&candidacy.common, now.role, now.answered_ago, failure)
    });
    let groups = served.members.iter().map(|member| {
        let (answered_ago, failure) =
            (member.group.since_last_answer(), member.group.last_failure());
        refused(&member.common, member.now().role, answered_ago, failure)
    });
    elections.chain(groups).flatten().next().unwrap_or_else(|| Reply::text(200, "ok"))
}

fn refused<O>(
    common: &Common<O>,
    role: ServedRole,
    answered_ago: Option<Duration>,
    failure: Option<Error>,
) -> Option<Reply> {
    let name = &common.name;
    match role {
        ServedRole::Starting => Some(Reply::text(503, &format!("{name}: starting"))),
        ServedRole::Ending => Some(Reply::text(503, &format!("{name}: ending"))),
        ServedRole::Failed("panicked") => Some(Reply::text(503, &format!("{name}: panicked"))),
        ServedRole::Failed(why) => {
            Some(Reply::text(503, &format!("{name}: {why}: {}", lock(&common.failure))))
        }
        _ => {
            denied(failure.as_ref()).or_else(|| answered_lately(answered_ago, common.times.recent))
        }
    }
}

/// Returns the state of this process for systemd. The state is ready if the stores are open and the
/// API is served.
pub fn service_state(served: Option<&Served>) -> ServiceState {
    let Some(served) = served else {
        return ServiceState { ready: false, text: "unknown: starting".to_owned() };
    };
    let elections = served.elections.iter().map(|candidacy| {
        let now = candidacy.now();
        let (role, _) = now.role.words(now.at_risk, "campaigning", "leading");
        let recent = candidacy.common.times.recent;
        let line = in_a_line(now.state, role, now.leads, &candidacy.election, recent);
        format!("{} {line}", candidacy.common.name)
    });
    let groups = served.members.iter().map(|member| {
        let now = member.now();
        let (role, _) = now.role.words(now.at_risk, "joining", "member");
        let left = now.session.map(|(_, left)| format!(": {} left", in_seconds(left)));
        format!("{} {role}{}", member.common.name, left.unwrap_or_default())
    });
    ServiceState { ready: true, text: elections.chain(groups).collect::<Vec<_>>().join("; ") }
}
