//! The state of an election or a partition, with the same word in all output.

use std::fmt::{Display, Formatter, Result};
use std::time::Duration;

use anstyle::Style;
use serde::Serialize;
use tenure::Observation;

use crate::output::print::{ATTENTION, GOOD};

/// State of an election or a partition. The word of a state is part of JSON, of variables and of
/// text.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, clap::ValueEnum)]
#[serde(rename_all = "lowercase")]
pub enum LeaseState {
    /// A process leads
    Held,
    /// No record exists, or the newest lease has ended or lapsed.
    #[default]
    #[value(help = "No process leads")]
    Vacant,
    /// The store does not answer.
    #[value(skip)]
    Unknown,
}

impl LeaseState {
    pub fn of(observation: &Observation) -> LeaseState {
        match observation {
            Observation::Leader(_) => LeaseState::Held,
            Observation::NoLeader => LeaseState::Vacant,
            _ => LeaseState::Unknown,
        }
    }

    /// Returns the state that a candidate knows from its own requests. If no lease is held, the
    /// state is vacant if the store has answered within the time `recent`, and otherwise unknown.
    pub fn of_last_seen(
        is_held: bool,
        answered_ago: Option<Duration>,
        recent: Duration,
    ) -> LeaseState {
        match answered_ago {
            _ if is_held => LeaseState::Held,
            Some(ago) if ago <= recent => LeaseState::Vacant,
            _ => LeaseState::Unknown,
        }
    }

    pub fn held_if(held: bool) -> LeaseState {
        if held { LeaseState::Held } else { LeaseState::Vacant }
    }

    pub fn word(self) -> &'static str {
        match self {
            LeaseState::Held => "held",
            LeaseState::Vacant => "vacant",
            LeaseState::Unknown => "unknown",
        }
    }

    pub fn style(self) -> Style {
        if self == LeaseState::Held { GOOD } else { ATTENTION }
    }
}

impl Display for LeaseState {
    fn fmt(&self, f: &mut Formatter<'_>) -> Result {
        f.pad(self.word())
    }
}
