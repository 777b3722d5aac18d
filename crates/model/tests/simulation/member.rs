//! The state that the simulation keeps for each process.

use std::sync::Arc;
use std::time::Duration;

use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;

/// The state that the simulation keeps for each process.
#[derive(Debug, Clone)]
pub struct Member {
    pub label: String,
    /// Gates that stop the tasks of the process: the first for its application, the second for the
    /// library.
    pub gates: [Arc<Gate>; 2],
    pub clock: Arc<SimClock>,
    pub outage: Option<Outage>,
    pub alive: bool,
    /// True while a fault stops the process. During this time, no other fault stops the process.
    pub stopped: bool,
    /// True if the process has short round trips to the store.
    pub near: bool,
    /// Epoch of the last leader that the process's observer saw. `None` if the process has no
    /// observer that runs as long as the process.
    pub watched: Option<Option<u64>>,
    /// Time of the last lost answer, in a steady run.
    pub lost_at: Option<Duration>,
    /// Index of the candidate in the plan.
    pub slot: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    RequestsLost,
    AnswersLost,
    Unavailable,
}
