//! The error replies of the API for elections, and the error replies that elections and groups
//! share.

use crate::http::refusal::Refusal;

impl Refusal {
    pub const BUSY: Refusal = Refusal::fixed(503, "busy", "too many requests wait; try again");
    pub const ENDING: Refusal =
        Refusal::fixed(503, "ending", "this process is ending; nothing was changed");
    pub const NOT_LEADING: Refusal =
        Refusal::fixed(409, "not_leading", "this candidate does not lead; nothing was changed");
    pub const NO_TOKEN: Refusal =
        Refusal::fixed(503, "not_leading", "this candidate does not lead, so there is no token");
    pub const UNKNOWN_OUTCOME: Refusal = Refusal::fixed(
        504,
        "outcome_unknown",
        "the outcome is unknown: the request may have taken effect, or may do so later; \
         read the state",
    );
    pub const NOT_FOUND: Refusal = Refusal::fixed(404, "not_found", "no resource has this path");
    pub const NO_ELECTION: Refusal =
        Refusal::fixed(404, "no_such_election", "no --election has this name");
    pub const STARTING: Refusal = Refusal::fixed(503, "starting", "the stores are not open yet");
}
