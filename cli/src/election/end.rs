//! Describes the end of an epoch in words for people.

use tenure::{EpochEnd, Snapshot};
use tenure_history::LeadershipSpan;

use super::status::VALUE;
use crate::output::columns::fit;
use crate::output::print::plain;

/// The fields of an epoch that describe its end.
pub struct EndFields<'a> {
    end: Option<EpochEnd>,
    lapsed: bool,
    candidate: Option<&'a str>,
    sealed_by: Option<&'a str>,
    forced_by: Option<&'a str>,
    reason: Option<&'a str>,
}

impl<'a> EndFields<'a> {
    pub fn of_newest(newest: &'a Snapshot) -> EndFields<'a> {
        EndFields {
            end: newest.end,
            lapsed: newest.lapsed,
            candidate: newest.leader.as_ref().and_then(|leader| leader.candidate.as_deref()),
            sealed_by: newest.sealed_by.as_deref(),
            forced_by: newest.forced_by.as_deref(),
            reason: newest.reason.as_deref(),
        }
    }

    pub fn of_span(span: &'a LeadershipSpan) -> EndFields<'a> {
        EndFields {
            end: span.end,
            lapsed: span.lapsed,
            candidate: span.candidate.as_deref(),
            sealed_by: span.sealed_by.as_deref(),
            forced_by: span.forced_by.as_deref(),
            reason: span.reason.as_deref(),
        }
    }

    /// Returns a text such as `deposed by anna (disk drill)`, or `None` if the epoch is held.
    pub fn text(&self) -> Option<String> {
        let by = match (self.forced_by, self.sealed_by) {
            (Some(by), _) => format!(" by {}", plain(by)),
            (None, Some(by)) if Some(by) != self.candidate => format!(" by {}", plain(by)),
            (None, Some(_)) if self.end == Some(EpochEnd::Lapsed) => " by its leader".to_owned(),
            _ => String::new(),
        };
        let why = self.reason.map(|reason| format!(" ({})", fit(&plain(reason), VALUE)));
        let why = why.unwrap_or_default();
        Some(match self.end {
            None if self.lapsed => "lapsed; not sealed".to_owned(),
            None => return None,
            Some(EpochEnd::Lapsed) => format!("lapsed; sealed{by}"),
            Some(EpochEnd::GivenUp) => "given up before its candidate led".to_owned(),
            Some(EpochEnd::Superseded) => "superseded without a seal".to_owned(),
            Some(EpochEnd::Unknown) => format!("sealed{by}, no reason given"),
            Some(EpochEnd::DeposedDead) => format!("deposed as dead{by}{why}"),
            Some(end) => format!("{end}{by}{why}"),
        })
    }
}
