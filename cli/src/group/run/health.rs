//! Reports the partitions of this member to probes and scrapers (`--health-addr`), and the state of
//! this member to systemd.
//!
//! The replies come from the memory of this process. They cause no request to the store.

use std::net::SocketAddr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tenure::{Clock, Epoch, Process};
use tenure_groups::{Group, Partition};

use super::Running;
use crate::http::health::{Pulse, answered_lately, denied};
use crate::http::{self, Reply, Routes, Sites};
use crate::output::print::{in_seconds, millis, plain};
use crate::process::lock::lock;
use crate::process::systemd::ServiceState;

#[derive(Debug, Clone, Copy, clap::Args)]
pub struct GroupHealthArg {
    /// Answer /livez, /readyz and /partitions at http://ADDR.
    ///
    /// /partitions shows the partitions of this member. With port 0 the system chooses the port,
    /// and the log shows it.
    #[arg(long, value_name = "ADDR", value_parser = http::address)]
    #[arg(env = "TENURE_HEALTH_ADDR", help_heading = "Health")]
    health_addr: Option<SocketAddr>,
}

impl GroupHealthArg {
    pub fn add_to(self, sites: &mut Sites, health: &Arc<GroupHealth>) {
        if let Some(address) = self.health_addr {
            sites.add(address, "health", health.routes());
        }
    }
}

/// The state of one `tenure group run`, as its probes and systemd see it.
#[derive(Debug)]
pub struct GroupHealth {
    member: String,
    /// If the store's last answer is older than this time, the member is not ready.
    recent: Duration,
    pulse: Pulse,
    state: Mutex<GroupHealthState>,
}

#[derive(Debug, Default)]
struct GroupHealthState {
    /// `None` until the store is open.
    group: Option<Group>,
    leaving: bool,
    running: Running<Arc<Partition>>,
}

/// The body of `/partitions`.
#[derive(Debug, Serialize)]
struct GroupHealthView {
    role: &'static str,
    member: String,
    partitions: Vec<OwnedView>,
    store_answered_ms_ago: Option<u64>,
}

/// One element of the body of `/partitions`: a partition with a running CMD.
#[derive(Debug, Serialize)]
struct OwnedView {
    partition: String,
    number: u32,
    token: u64,
    /// True if this member owns the partition now, and has not asked the CMD of the partition to
    /// end.
    owned: bool,
    lease_remaining_ms: u64,
}

impl GroupHealth {
    /// Returns the health of a member that has not opened its store. The member is ready only if
    /// the store's last answer is not older than `recent`.
    pub fn new(member: &str, recent: Duration) -> GroupHealth {
        let clock: Arc<dyn Clock> = Arc::new(Process::system());
        let pulse = Pulse::new(&clock);
        GroupHealth { member: member.to_owned(), recent, pulse, state: Mutex::default() }
    }

    /// Records that the store is open.
    pub fn opened(&self, group: &Group) {
        lock(&self.state).group = Some(group.clone());
    }

    pub fn leave(&self) {
        lock(&self.state).leaving = true;
        self.pulse.change();
    }

    /// Records that the CMD of the partition runs or is about to start.
    pub fn begin(&self, partition: &Arc<Partition>) {
        lock(&self.state).running.insert(partition.number().0, Arc::clone(partition));
    }

    /// Records that no process of the partition's CMD is left.
    pub fn end(&self, partition: &Partition) {
        lock(&self.state).running.remove(&partition.number().0);
    }

    pub fn is_idle(&self) -> bool {
        lock(&self.state).running.is_empty()
    }

    /// Runs the main task until its end. Meanwhile reports at `/livez` and to systemd that the task
    /// runs.
    pub async fn of<T>(&self, task: impl Future<Output = T>) -> T {
        self.pulse.of(|| self.service_state(), task).await
    }

    /// Returns the state of this process for systemd. The state is ready if this member has joined.
    fn service_state(&self) -> ServiceState {
        let state = lock(&self.state);
        let role = state.role();
        let lease = state.group.as_ref().filter(|group| group.is_member()).and_then(Group::lease);
        let text = match &lease {
            Some(lease) => {
                let (count, left) = (state.running.len(), in_seconds(lease.remaining()));
                format!("{role}: {count} partitions, {left} left")
            }
            None if role == "member" => "joining".to_owned(),
            None => role.to_owned(),
        };
        ServiceState { ready: lease.is_some(), text }
    }

    fn routes(self: &Arc<GroupHealth>) -> Routes {
        let health = Arc::clone(self);
        Arc::new(move |path| match path {
            "/livez" => Some(health.pulse.livez()),
            "/readyz" => Some(health.readyz()),
            "/partitions" => Some(Reply::json(200, &health.view())),
            _ => None,
        })
    }

    fn readyz(&self) -> Reply {
        let state = lock(&self.state);
        let role = state.role();
        match (&state.group, state.leaving) {
            (Some(group), false) => {
                let failure = group.last_failure();
                // `since_last_answer` ignores answers to the requests of a join. After a failed
                // join, the reply therefore contains the error of the join, and not a text about a
                // silent store.
                let because = |refused| match &failure {
                    Some(error) => Reply::text(503, &plain(&error.to_string())),
                    None => refused,
                };
                denied(failure.as_ref())
                    .or_else(|| {
                        answered_lately(group.since_last_answer(), self.recent).map(because)
                    })
                    .unwrap_or_else(|| Reply::text(200, role))
            }
            _ => Reply::text(503, role),
        }
    }

    fn view(&self) -> GroupHealthView {
        let state = lock(&self.state);
        let answered = state.group.as_ref().and_then(Group::since_last_answer);
        let view = |it: &Arc<Partition>| OwnedView {
            partition: it.name().to_owned(),
            number: it.number().0,
            token: Epoch::get(it.token()),
            owned: it.check().is_ok() && !it.revoked().is_cancelled(),
            lease_remaining_ms: millis(it.remaining()),
        };
        GroupHealthView {
            role: state.role(),
            member: self.member.clone(),
            partitions: state.running.values().map(view).collect(),
            store_answered_ms_ago: answered.map(millis),
        }
    }
}

impl GroupHealthState {
    fn role(&self) -> &'static str {
        match self.group {
            None => "starting",
            Some(_) if self.leaving => "leaving",
            Some(_) => "member",
        }
    }
}
