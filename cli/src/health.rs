//! `--health-addr`: the state of this candidate, for probes and load balancers.
//!
//! No request to the store is made: the answers are what the campaign and the leadership know.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tenure::{Clock, Election, Epoch, Lease, Process};

use super::lock::lock;
use super::margins::Margins;
use super::print::in_seconds;
use super::serve::{self, Reply, Routes, Sites};
use super::timer::pause;

/// A task that has not run for so long does not come back by itself: it should every second.
const STUCK_AFTER: Duration = Duration::from_secs(30);
const EVERY_TURN: Duration = Duration::from_secs(1);

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct HealthArg {
    /// Answer at http://ADDR: /livez, /readyz, and /leader, which is 200 only while this candidate
    /// leads. For port 0 the log has the
    /// port
    #[arg(long, value_name = "ADDR", value_parser = serve::address)]
    pub health_addr: Option<SocketAddr>,
}

impl HealthArg {
    pub fn add_to(self, sites: &mut Sites, health: &Arc<Health>) {
        if let Some(address) = self.health_addr {
            sites.add(address, "health", health.routes());
        }
    }
}

/// The state of one `tenure run`.
#[derive(Debug)]
pub struct Health {
    candidate: String,
    margins: Margins,
    /// How old the last answer of the store may be.
    recent: Duration,
    clock: Arc<dyn Clock>,
    /// When the task that campaigns and watches over CMD last ran, on the boot clock.
    turned: Mutex<Duration>,
    state: Mutex<State>,
}

#[derive(Debug, Clone)]
struct State {
    /// Once the store is open.
    election: Option<Election>,
    phase: Phase,
}

/// How far this candidate is.
#[derive(Debug, Clone)]
pub enum Phase {
    Starting,
    /// Nobody is known to lead.
    Campaigning,
    Following {
        leader: Option<String>,
        epoch: Epoch,
    },
    /// CMD does not run yet.
    Elected(Lease),
    /// CMD runs.
    Leading(Lease),
    /// CMD has ended, or gets SIGTERM.
    Ending(Lease),
}

/// What `/leader` says.
#[derive(Debug, Clone, Serialize, PartialEq, Eq)]
struct View {
    state: &'static str,
    this_candidate_leads: bool,
    candidate: String,
    /// The holder of the newest epoch that this candidate knows of; null for none, or for a peer
    /// without a name.
    leader: Option<String>,
    epoch: Option<u64>,
    /// Of this candidate's lease.
    lease_remaining_ms: Option<u128>,
    store_answered_ms_ago: Option<u128>,
}

impl Health {
    pub fn new(
        candidate: &str,
        validity: Duration,
        poll: Option<Duration>,
        margins: Margins,
    ) -> Health {
        Health::by(Arc::new(Process::system()), candidate, validity, poll, margins)
    }

    fn by(
        clock: Arc<dyn Clock>,
        candidate: &str,
        validity: Duration,
        poll: Option<Duration>,
        margins: Margins,
    ) -> Health {
        // The longest regular pause between two requests, and two requests' timeouts.
        let between = poll.unwrap_or_default().max(validity / 3);
        let recent = between.saturating_add(validity.saturating_mul(2) / 5);
        let turned = Mutex::new(clock.now().boot);
        let state = Mutex::new(State { election: None, phase: Phase::Starting });
        Health { candidate: candidate.to_owned(), margins, recent, clock, turned, state }
    }

    /// The store is open.
    pub fn opened(&self, election: &Election) {
        lock(&self.state).election = Some(election.clone());
    }

    pub fn enter(&self, phase: Phase) {
        lock(&self.state).phase = phase;
    }

    /// Runs the task, and notes each second that it does.
    pub async fn of<T>(&self, task: impl Future<Output = T>) -> T {
        let mut task = std::pin::pin!(task);
        loop {
            *lock(&self.turned) = self.clock.now().boot;
            tokio::select! {
                biased;
                value = &mut task => return value,
                () = pause(EVERY_TURN) => {}
            }
        }
    }

    fn routes(self: &Arc<Health>) -> Routes {
        let health = Arc::clone(self);
        Arc::new(move |path| match path {
            "/livez" => Some(health.livez()),
            "/readyz" => Some(health.readyz()),
            "/leader" => {
                let view = health.view();
                Some(Reply::json(if view.this_candidate_leads { 200 } else { 503 }, &view))
            }
            _ => None,
        })
    }

    /// Not whether the store answers: a restart fixes no store, and would cost a leader its lease.
    fn livez(&self) -> Reply {
        let stuck = self.clock.now().boot.saturating_sub(*lock(&self.turned));
        if stuck < STUCK_AFTER {
            return Reply::text(200, "ok");
        }
        Reply::text(503, &format!("the main task has not run for {}", in_seconds(stuck)))
    }

    fn readyz(&self) -> Reply {
        let view = self.view();
        let refuse = |why: &str| Reply::text(503, why);
        if let "starting" | "ending" = view.state {
            return refuse(view.state);
        }
        match view.store_answered_ms_ago {
            None => refuse("the store has not answered yet"),
            Some(ago) if ago > self.recent.as_millis() => {
                let ago = Duration::from_millis(u64::try_from(ago).unwrap_or(u64::MAX));
                refuse(&format!("the store has not answered for {}", in_seconds(ago)))
            }
            Some(_) => Reply::text(200, view.state),
        }
    }

    fn view(&self) -> View {
        let State { election, phase } = lock(&self.state).clone();
        let (state, leader, epoch, lease) = match phase {
            Phase::Starting => ("starting", None, None, None),
            Phase::Campaigning => ("campaigning", None, None, None),
            Phase::Following { leader, epoch } => ("following", leader, Some(epoch), None),
            Phase::Elected(lease) => ("elected", None, None, Some(lease)),
            Phase::Leading(lease) => ("leading", None, None, Some(lease)),
            Phase::Ending(lease) => ("ending", None, None, Some(lease)),
        };
        let answered = election.and_then(|election| election.since_last_answer());
        let mut view = View {
            state,
            this_candidate_leads: false,
            candidate: self.candidate.clone(),
            leader,
            epoch: epoch.map(Epoch::get),
            lease_remaining_ms: None,
            store_answered_ms_ago: answered.map(|ago| ago.as_millis()),
        };
        let Some(lease) = lease else { return view };
        if lease.check().is_err() {
            // The main task has not seen it yet.
            view.state = "ending";
            return view;
        }
        let term_at = self.margins.deadlines(lease.ends_at()).term_at;
        if self.clock.now().until(term_at).is_zero() {
            view.state = "ending";
        }
        view.this_candidate_leads = view.state == "leading";
        view.leader = Some(self.candidate.clone());
        view.epoch = Some(lease.epoch().get());
        view.lease_remaining_ms = Some(lease.remaining().as_millis());
        view
    }
}

#[cfg(test)]
#[path = "health/tests.rs"]
mod tests;
