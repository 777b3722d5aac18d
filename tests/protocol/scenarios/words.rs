//! The words of the scenarios for requests and answers.

use std::collections::HashMap;

use tenure::protocol::find::{After, Listing};
use tenure::protocol::message::{Answer, Lost, Nonce, Request, Sighting, Wait};

/// Names of the nonces. For example, `a2` is the second nonce that the participant `a` used.
#[derive(Debug, Default)]
pub struct Names(HashMap<Nonce, String>);

impl Names {
    pub fn fresh(&mut self, participant: &str, count: usize) -> Nonce {
        let name = format!("{participant}{count}");
        let nonce = Nonce::from_bits(self.0.len() as u128 + 1);
        self.0.insert(nonce, name);
        nonce
    }

    fn of(&self, nonce: Option<Nonce>) -> &str {
        nonce.map_or("morling", |nonce| self.0.get(&nonce).map_or("stranger", String::as_str))
    }

    pub fn request(&self, request: &Request) -> String {
        match request {
            Request::List(after) => format!("LIST after {}", place(after)),
            Request::Get { epoch: Some(epoch), unless: None } => format!("GET {epoch}"),
            Request::Get { epoch: Some(epoch), unless: Some(_) } => {
                format!("GET {epoch} if changed")
            }
            Request::Create { epoch, write } => {
                format!("CREATE {epoch} as {}", self.of(Some(write.nonce)))
            }
            Request::Renew { epoch, write, .. } => {
                format!("RENEW {epoch}, heartbeat {}", write.heartbeat)
            }
            Request::Seal { epoch, ended, .. } => format!("SEAL {epoch} {ended}"),
            Request::Get { epoch: None, .. } | Request::Take { .. } => {
                unreachable!("a request of the other layout")
            }
        }
    }

    pub fn answer(&self, answer: &Answer) -> String {
        match answer {
            Answer::Listed(listing) => listed(listing),
            Answer::Found { sighting: Sighting { seen, .. }, touched } => {
                let mut words = self.of(seen.nonce).to_owned();
                if seen.nonce.is_some() {
                    words += &format!(", heartbeat {}", seen.heartbeat);
                }
                if let Some(ended) = seen.ended {
                    words += &format!(", sealed {ended}");
                }
                if seen.reclaimable {
                    words += ", left by a predecessor";
                }
                if *touched {
                    words += ", touched";
                }
                words
            }
            Answer::Done { .. } => "done".to_owned(),
            Answer::NotModified => "not modified".to_owned(),
            other => format!("{other:?}").to_lowercase(),
        }
    }
}

/// Parses an answer that does not match the state of the store.
pub fn made_up(word: &str) -> Option<Answer> {
    Some(match word {
        "unknown" => Answer::Unknown,
        "denied" => Answer::Denied,
        "unsafe" => Answer::Unsafe,
        "refused" => Answer::Refused,
        "missing" => Answer::Missing,
        "unreadable" => Answer::Unreadable,
        "empty" => Answer::Listed(Listing { epochs: None, rest: None }),
        _ => return None,
    })
}

pub fn wait(wait: &Wait) -> &'static str {
    match wait {
        Wait::Follow => "follow",
        Wait::Deposed => "deposed",
        Wait::Takeover => "takeover",
        Wait::NoLeader => "vacant",
        Wait::Lead => "lead",
        Wait::Retry => "retry",
        Wait::Over => "over",
    }
}

pub fn lost(lost: &Lost) -> String {
    match lost {
        Lost::Sealed(ended) => format!("sealed {ended}"),
        Lost::Superseded(by) => format!("superseded by {by}"),
        Lost::LeaseEnded => "lease ended".to_owned(),
        other => format!("{other:?}").to_lowercase(),
    }
}

fn place(after: &After) -> String {
    match after {
        After::Number(number) => number.to_string(),
        After::Key(number) => format!("the foreign key at {number}"),
    }
}

fn listed(Listing { epochs, rest }: &Listing) -> String {
    let mut words = match epochs {
        None => "empty".to_owned(),
        Some((least, greatest)) if least == greatest => least.to_string(),
        Some((least, greatest)) => format!("{least} to {greatest}"),
    };
    if rest.is_some() {
        words = words.replace("empty", "foreign keys") + ", more";
    }
    words
}
