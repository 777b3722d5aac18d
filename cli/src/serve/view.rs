//! The JSON bodies about an election in the replies of a sidecar.

use serde::Serialize;
use serde_json::Value;

use super::candidacy::{Candidacy, CandidacyNow};
use crate::election::LeaseState;
use crate::output::print::millis;

/// The body of `GET /v1/elections/{name}`, and the data of each event. A field that does not apply
/// is null.
#[derive(Debug, Clone, Serialize)]
pub struct ElectionView {
    /// The time of this view by the wall clock of this process. An event may be old when the client
    /// reads it.
    pub at: String,
    pub election: String,
    /// The state of the election.
    pub state: LeaseState,
    /// The role of this candidate in one word.
    pub role: &'static str,
    /// One word for the reason of the role `standby` or `failed`.
    pub reason: Option<&'static str>,
    pub this_candidate_leads: bool,
    pub candidate: String,
    /// The candidate of the newest epoch. Null if this process knows that the lease of the epoch
    /// has ended.
    pub leader: Option<String>,
    pub epoch: Option<u64>,
    /// The data that the leader of the election has proclaimed.
    pub data: Value,
    /// Time for which this candidate still leads if it does not renew its lease.
    pub lease_remaining_ms: Option<u64>,
    /// Time until the lease of another leader lapses if that leader does not renew it.
    pub lapses_in_ms: Option<u64>,
    /// Age of the store's last answer. The fields about another leader were current at the time of
    /// this answer.
    pub store_answered_ms_ago: Option<u64>,
    pub lost: Option<LostLeadershipView>,
}

/// The end of the last leadership of this candidate.
#[derive(Debug, Clone, Serialize)]
pub struct LostLeadershipView {
    pub epoch: u64,
    pub reason: &'static str,
    pub ms_ago: u64,
}

/// The body of `GET /v1/elections`.
#[derive(Serialize)]
pub struct ElectionViews {
    pub elections: Vec<ElectionView>,
}

/// The body of `GET /v1/elections/{name}/token`.
#[derive(Serialize)]
pub struct ElectionTokenView {
    pub token: u64,
    pub lease_remaining_ms: u64,
}

impl ElectionView {
    /// Returns the view of the candidacy at this moment.
    pub fn of(candidacy: &Candidacy) -> ElectionView {
        let CandidacyNow { state, role, leads, at_risk, data, seen, answered_ago, lost, at } =
            candidacy.now();
        let (role, reason) = role.words(at_risk, "campaigning", "leading");
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
            role,
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
            if view.role == "campaigning" {
                view.role = "following";
            }
            view.leader = seen.leader.candidate;
            view.epoch = Some(seen.leader.epoch.get());
            view.data = seen.leader.data;
            view.lapses_in_ms = seen.lapses_in.map(millis);
        }
        view
    }
}
