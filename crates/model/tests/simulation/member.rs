//! A process, as the world sees it.

use std::sync::Arc;
use std::time::Duration;

use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;

/// The state of a process that the simulation needs.
#[derive(Debug, Clone)]
pub struct Member {
    pub label: String,
    /// Gates of its application and of the tasks of the library.
    pub gates: [Arc<Gate>; 2],
    pub clock: Arc<SimClock>,
    pub outage: Option<Outage>,
    pub alive: bool,
    /// True while a fault stops the process, so that faults do not accumulate.
    pub stopped: bool,
    /// True if its way to the store is short.
    pub near: bool,
    /// Epoch of the last leader that its observer saw. `None` if it has no lasting observer.
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
