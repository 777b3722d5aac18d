//! Describes requests and replies for the timeline.

use bytes::Bytes;
use tenure::store::{GetOutcome, PutOutcome, StoreError};

use tenure_model::sim::connection::{Reply, Request};

use super::bucket::{epoch_of, parse};

pub fn describe(request: &Request) -> String {
    let body = |bytes: &Bytes| match parse(bytes) {
        None => format!("{} bytes", bytes.len()),
        Some(body) => {
            let nonce = body.nonce.unwrap_or_default();
            let nonce = nonce.get(28..).unwrap_or_default();
            let ended = body.ended.map(|word| format!(", {word}")).unwrap_or_default();
            format!("nonce {nonce}, heartbeat {}{ended}", body.heartbeat)
        }
    };
    let short = |key: &str| match epoch_of(key) {
        Some(epoch) => format!("epoch {epoch}"),
        None => key.to_owned(),
    };
    match request {
        Request::List { after, .. } => format!("LIST after {}", short(after)),
        Request::Get { key, unless, .. } => {
            format!("GET {}{}", short(key), if unless.is_some() { " if changed" } else { "" })
        }
        Request::Create { key, bytes } => format!("CREATE {} ({})", short(key), body(bytes)),
        Request::Replace { key, bytes, .. } => format!("REPLACE {} ({})", short(key), body(bytes)),
        Request::Delete { keys } => {
            format!("DELETE {}", keys.iter().map(|k| short(k)).collect::<Vec<_>>().join(", "))
        }
    }
}

pub fn describe_answer(request: &Request, answer: &Result<Reply, StoreError>) -> String {
    let said = match answer {
        Ok(reply) => brief(request, reply),
        Err(error) => error.to_string(),
    };
    format!("{}: {said}", describe(request))
}

pub fn brief(request: &Request, reply: &Reply) -> String {
    match reply {
        Reply::Page(page) => {
            let keys = page.entries.iter().map(|entry| match epoch_of(&entry.key) {
                Some(epoch) => epoch.to_string(),
                None => entry.key.clone(),
            });
            let more = if page.truncated { ", more" } else { "" };
            format!("[{}{more}]", keys.collect::<Vec<_>>().join(" "))
        }
        Reply::Got(GetOutcome::Found(object)) => match request {
            Request::Get { key, .. } => {
                describe(&Request::Create { key: key.clone(), bytes: object.body.clone() })
                    .replace("CREATE", "found")
            }
            _ => String::new(),
        },
        Reply::Got(GetOutcome::NotModified) => "304".to_owned(),
        Reply::Got(GetOutcome::NotFound) => "404".to_owned(),
        Reply::Got(_) => "too large".to_owned(),
        Reply::Put(PutOutcome::Done { .. }) => "done".to_owned(),
        Reply::Put(PutOutcome::PreconditionFailed) => "412".to_owned(),
        Reply::Put(_) => "404".to_owned(),
        Reply::Deleted(deleted) => format!("{deleted} deleted"),
    }
}
