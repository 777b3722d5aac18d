//! The state of this candidate, for probes and load balancers (`--health-addr`) and for systemd.
//!
//! The state describes the campaign and the leadership. A probe sends no request to the store.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tenure::{Clock, Election, Error, LastSeen, Lease, Process};

use crate::election::LeaseState;
use crate::http::health::{Pulse, answered_lately, denied, in_a_line};
use crate::http::{self, Reply, Routes, Sites};
use crate::output::print::millis;
use crate::process::lock::lock;
use crate::process::margins::Margins;
use crate::process::systemd::ServiceState;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct HealthArg {
    /// Answer /livez, /readyz and /leader at http://ADDR.
    ///
    /// /leader is 200 only while this candidate leads. With port 0 the system chooses the port, and
    /// the log shows it.
    #[arg(long, value_name = "ADDR", value_parser = http::address)]
    #[arg(env = "TENURE_HEALTH_ADDR", help_heading = "Health")]
    pub health_addr: Option<SocketAddr>,
}

impl HealthArg {
    pub fn add_to(self, sites: &mut Sites, health: &Arc<ElectionHealth>) {
        if let Some(address) = self.health_addr {
            sites.add(address, "health", health.routes());
        }
    }
}

/// The state of one `tenure run`, as its probes and systemd see it.
#[derive(Debug)]
pub struct ElectionHealth {
    candidate: String,
    margins: Margins,
    /// If the store's last answer is older than this time, the candidate is not ready.
    recent: Duration,
    clock: Arc<dyn Clock>,
    /// Records when the task that campaigns and watches CMD last ran.
    pulse: Pulse,
    state: Mutex<ElectionHealthState>,
}

#[derive(Debug, Clone)]
struct ElectionHealthState {
    /// The election. `None` until the store is open.
    election: Option<Election>,
    phase: CandidatePhase,
    /// The error of the last campaign. The next campaign clears this error when this candidate is
    /// elected, or when the campaign finds another leader.
    failed: Option<Error>,
}

/// The phase of this candidate, from its start to the end of CMD.
#[derive(Debug, Clone)]
pub enum CandidatePhase {
    Starting,
    Campaigning,
    /// The campaign has read the epoch of another leader.
    Following,
    /// Elected, but CMD has not started.
    Elected(Lease),
    /// CMD runs.
    Leading(Lease),
    /// CMD has ended or receives SIGTERM.
    Ending(Lease),
}

/// The body of `/leader`.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
struct ElectionHealthView {
    /// The state of the election, as far as this candidate knows it.
    state: LeaseState,
    /// The role of this candidate.
    role: &'static str,
    this_candidate_leads: bool,
    candidate: String,
    /// The leader of the newest epoch. Null if no lease is known to run, or if the leader has no
    /// name.
    leader: Option<String>,
    epoch: Option<u64>,
    /// Time left of the lease of this candidate.
    lease_remaining_ms: Option<u64>,
    store_answered_ms_ago: Option<u64>,
}

impl ElectionHealth {
    /// Returns the health of a candidate that has not opened its store. If the store's last answer
    /// is older than `recent`, the candidate is not ready.
    pub fn new(candidate: &str, recent: Duration, margins: Margins) -> ElectionHealth {
        ElectionHealth::by(Arc::new(Process::system()), candidate, recent, margins)
    }

    fn by(
        clock: Arc<dyn Clock>,
        candidate: &str,
        recent: Duration,
        margins: Margins,
    ) -> ElectionHealth {
        let pulse = Pulse::new(&clock);
        let state = Mutex::new(ElectionHealthState {
            election: None,
            phase: CandidatePhase::Starting,
            failed: None,
        });
        ElectionHealth { candidate: candidate.to_owned(), margins, recent, clock, pulse, state }
    }

    /// Records that the store is open.
    pub fn opened(&self, election: &Election) {
        lock(&self.state).election = Some(election.clone());
    }

    pub fn enter(&self, phase: CandidatePhase) {
        let mut state = lock(&self.state);
        if !matches!(phase, CandidatePhase::Campaigning) {
            state.failed = None;
        }
        state.phase = phase;
        drop(state);
        self.pulse.change();
    }

    /// Records the error with which a campaign has failed. The campaign is retried.
    pub fn failed(&self, error: &Error) {
        lock(&self.state).failed = Some(error.clone());
    }

    /// Runs the main task until its end. Meanwhile reports at `/livez` and to systemd that the task
    /// is alive.
    pub async fn of<T>(&self, task: impl Future<Output = T>) -> T {
        self.pulse.of(|| self.service_state(), task).await
    }

    /// Returns the state of this process for systemd. The state is ready if `/leader` returns 200.
    fn service_state(&self) -> ServiceState {
        let view = self.view();
        let Some(election) = lock(&self.state).election.clone() else {
            return ServiceState { ready: false, text: "unknown: starting".to_owned() };
        };
        let own = view.epoch.zip(view.lease_remaining_ms.map(Duration::from_millis));
        let text = in_a_line(view.state, view.role, own, &election, self.recent);
        ServiceState { ready: view.this_candidate_leads, text }
    }

    fn routes(self: &Arc<ElectionHealth>) -> Routes {
        let health = Arc::clone(self);
        Arc::new(move |path| match path {
            "/livez" => Some(health.pulse.livez()),
            "/readyz" => Some(health.readyz()),
            "/leader" => {
                let view = health.view();
                Some(Reply::json(if view.this_candidate_leads { 200 } else { 503 }, &view))
            }
            _ => None,
        })
    }

    fn readyz(&self) -> Reply {
        let view = self.view();
        if let "starting" | "ending" = view.role {
            return Reply::text(503, view.role);
        }
        let ElectionHealthState { election, failed, .. } = lock(&self.state).clone();
        let failure = failed.or_else(|| election?.last_failure());
        if let Some(refused) = denied(failure.as_ref()) {
            return refused;
        }
        let ago = view.store_answered_ms_ago.map(Duration::from_millis);
        answered_lately(ago, self.recent).unwrap_or_else(|| Reply::text(200, view.role))
    }

    fn view(&self) -> ElectionHealthView {
        let ElectionHealthState { election, phase, .. } = lock(&self.state).clone();
        let (role, lease) = match phase {
            CandidatePhase::Starting => ("starting", None),
            CandidatePhase::Campaigning | CandidatePhase::Following => ("campaigning", None),
            CandidatePhase::Elected(lease) => ("elected", Some(lease)),
            CandidatePhase::Leading(lease) => ("leading", Some(lease)),
            CandidatePhase::Ending(lease) => ("ending", Some(lease)),
        };
        let answered = election.as_ref().and_then(Election::since_last_answer);
        let mut view = ElectionHealthView {
            state: LeaseState::Unknown,
            role,
            this_candidate_leads: false,
            candidate: self.candidate.clone(),
            leader: None,
            epoch: None,
            lease_remaining_ms: None,
            store_answered_ms_ago: answered.map(millis),
        };
        if let Some(lease) = &lease {
            let term_at = self.margins.deadlines(lease.ends_at()).term_at;
            // The SIGTERM for CMD may be due although the main task has not handled the deadline
            // yet.
            if lease.check().is_err() || self.clock.now().until(term_at).is_zero() {
                view.role = "ending";
            }
        }
        if let Some(lease) = lease.filter(|lease| lease.check().is_ok()) {
            view.this_candidate_leads = view.role == "leading";
            view.leader = Some(self.candidate.clone());
            view.epoch = Some(lease.epoch().get());
            view.lease_remaining_ms = Some(millis(lease.remaining()));
        } else if let Some(seen) = election.and_then(|it| it.last_seen()).filter(LastSeen::is_held)
        {
            if role == "campaigning" {
                view.role = "following";
            }
            view.leader = seen.leader.candidate;
            view.epoch = Some(seen.leader.epoch.get());
        }
        view.state = LeaseState::of_last_seen(view.epoch.is_some(), answered, self.recent);
        view
    }
}

#[cfg(test)]
mod tests;
