//! The error replies of the API.

use std::borrow::Cow;

use serde::Serialize;

use crate::http::Reply;

/// An error of the API: a word for programs, and a sentence for people.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    pub status: u16,
    pub code: &'static str,
    pub message: Cow<'static, str>,
    header: Option<(&'static str, &'static str)>,
}

#[derive(Serialize)]
struct RefusalBody<'a> {
    code: &'a str,
    message: &'a str,
}

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

    pub const fn fixed(status: u16, code: &'static str, message: &'static str) -> Refusal {
        Refusal { status, code, message: Cow::Borrowed(message), header: None }
    }

    pub fn new(status: u16, code: &'static str, message: String) -> Refusal {
        Refusal { status, code, message: Cow::Owned(message), header: None }
    }

    pub const fn with_header(self, name: &'static str, value: &'static str) -> Refusal {
        let header = Some((name, value));
        // A constant function cannot move a field out of `self`.
        let mut changed = self;
        changed.header = header;
        changed
    }

    pub fn reply(&self) -> Reply {
        let body = RefusalBody { code: self.code, message: &self.message };
        let reply = Reply::json(self.status, &body);
        match self.header {
            Some((name, value)) => reply.with_header(name, value),
            None => reply,
        }
    }
}
