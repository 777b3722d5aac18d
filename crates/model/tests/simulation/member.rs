//! A process as the world sees it.

use std::sync::Arc;
use std::time::Duration;

use tenure_model::clock::SimClock;
use tenure_model::gate::Gate;

/// A process as the world sees it.
#[derive(Debug, Clone)]
pub struct Member {
    pub label: String,
    /// Its application, and the tasks of the library.
    pub gates: [Arc<Gate>; 2],
    pub clock: Arc<SimClock>,
    pub outage: Option<Outage>,
    pub alive: bool,
    /// Stopped on purpose, so that faults do not pile up.
    pub stopped: bool,
    /// True if its way to the store is short.
    pub near: bool,
    /// Which epoch's leader its observer told of last, if it has one that goes on.
    pub watched: Option<Option<u64>>,
    /// When an answer to it was last lost, in a steady run.
    pub lost_at: Option<Duration>,
    /// Which of the plan's candidates it is.
    pub slot: Option<usize>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Outage {
    RequestsLost,
    AnswersLost,
    Unavailable,
}
