//! The error replies of the servers.

use std::borrow::Cow;

use serde::Serialize;

use super::Reply;

/// An error reply: a word for programs, and a sentence for people.
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
    pub const fn fixed(status: u16, code: &'static str, message: &'static str) -> Refusal {
        Refusal { status, code, message: Cow::Borrowed(message), header: None }
    }

    pub fn new(status: u16, code: &'static str, message: String) -> Refusal {
        Refusal { status, code, message: Cow::Owned(message), header: None }
    }

    pub const fn with_header(self, name: &'static str, value: &'static str) -> Refusal {
        let header = Some((name, value));
        // `Refusal { …, ..self }` is impossible here, because a constant function cannot move a
        // field out of `self`.
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
