//! What the API says of an election.

use serde::Serialize;
use serde_json::Value;

use super::candidacy::{Candidacy, CandidacyNow};
use crate::output::print::millis;

/// `GET /v1/elections/{name}`, and the data of each event. What does not apply is null.
#[derive(Debug, Clone, Serialize)]
pub struct ElectionView {
    /// When this was true, by the wall clock of this process: an event may be old when it is read.
    pub at: String,
    pub election: String,
    pub state: &'static str,
    /// Why the state is `standby` or `failed`.
    pub reason: Option<&'static str>,
    pub this_candidate_leads: bool,
    pub candidate: String,
    /// The holder of the newest epoch, unless its lease has ended as far as this candidate knows.
    pub leader: Option<String>,
    pub epoch: Option<u64>,
    /// What that leader has proclaimed.
    pub data: Value,
    /// For how long this candidate leads unless it renews.
    pub lease_remaining_ms: Option<u64>,
    /// After how long another's lease has lapsed unless it was or is renewed.
    pub lapses_in_ms: Option<u64>,
    /// How old all that is said of another leader is.
    pub store_answered_ms_ago: Option<u64>,
    pub lost: Option<LostLeadershipView>,
}

/// How the last leadership of this candidate ended.
#[derive(Debug, Clone, Serialize)]
pub struct LostLeadershipView {
    pub epoch: u64,
    pub reason: &'static str,
    pub ms_ago: u64,
}

/// `GET /v1/elections`
#[derive(Serialize)]
pub struct ElectionViews {
    pub elections: Vec<ElectionView>,
}

/// `GET /v1/elections/{name}/token`
#[derive(Serialize)]
pub struct ElectionTokenView {
    pub token: u64,
    pub lease_remaining_ms: u64,
}

impl ElectionView {
    /// What is true at this moment.
    pub fn of(candidacy: &Candidacy) -> ElectionView {
        let CandidacyNow { role, leads, at_risk, data, seen, answered_ago, lost, at } =
            candidacy.now();
        let (state, reason) = role.state(at_risk, "campaigning", "leading");
        let candidate = candidacy.election.name().to_owned();
        let lost = lost.map(|lost| LostLeadershipView {
            epoch: lost.epoch,
            reason: lost.reason,
            ms_ago: millis(at.saturating_sub(lost.at)),
        });
        let mut view = ElectionView {
            at: candidacy.common.time_of_day(),
            election: candidacy.common.name.clone(),
            state,
            reason,
            this_candidate_leads: leads.is_some(),
            candidate,
            leader: None,
            epoch: None,
            data,
            lease_remaining_ms: None,
            lapses_in_ms: None,
            store_answered_ms_ago: answered_ago.map(millis),
            lost,
        };
        if let Some((epoch, left)) = leads {
            view.leader = Some(view.candidate.clone());
            view.epoch = Some(epoch);
            view.lease_remaining_ms = Some(millis(left));
        } else if let Some(seen) = seen.filter(tenure::LastSeen::is_held) {
            if view.state == "campaigning" {
                view.state = "following";
            }
            view.leader = seen.leader.candidate;
            view.epoch = Some(seen.leader.epoch.get());
            view.data = seen.leader.data;
            view.lapses_in_ms = seen.lapses_in.map(millis);
        }
        view
    }
}
