//! Changes the answers that broken processes receive.

use std::sync::Arc;
use std::time::Duration;

use bytes::Bytes;
use serde_json::{Value, json};
use tenure::store::{Determinacy, ETag, GetOutcome, Page, PutOutcome, StoreError, StoreErrorKind};
use tenure_model::time::now;

use tenure_model::sim::connection::{Reply, Request};

use super::bucket::{Body, parse};
use super::plan::Broken;
use super::store::SimStore;

type SpoiledAnswer = Result<Reply, StoreError>;

impl SimStore {
    /// Returns the answer as a broken process interprets it. `took` is the duration of the request.
    pub fn spoil(&self, request: &Request, answer: SpoiledAnswer, took: Duration) -> SpoiledAnswer {
        let answer = match answer {
            Ok(Reply::Page(page)) if self.world.plan.unordered && self.world.chance(0.2) => {
                Ok(Reply::Page(self.torn(page)))
            }
            answer => answer,
        };
        let clock = || Arc::clone(&self.world.state().members[self.who.0].clock);
        match (self.world.plan.broken, request) {
            (Broken::Nothing, _) => answer,
            (Broken::LeaseFromAnswer, Request::Create { .. } | Request::Replace { .. }) => {
                if let Ok(Reply::Put(PutOutcome::Done { .. })) = answer {
                    clock().read_behind(took);
                }
                answer
            }
            (Broken::TimerFromRequest, Request::Get { .. }) => {
                if answer.is_ok() {
                    clock().read_behind_now(took);
                }
                answer
            }
            (Broken::RefusalIgnored, Request::Replace { bytes, .. }) => {
                ignore_refusal(bytes, |body| !body.sealed, answer)
            }
            (Broken::RefusedSealCounts, Request::Replace { bytes, .. }) => {
                ignore_refusal(bytes, |body| body.ended.as_deref() == Some("resigned"), answer)
            }
            (Broken::DatesStand, Request::Get { key, .. }) => {
                answer.map(|reply| self.with_first_date(key, reply))
            }
            (Broken::DepositionNotWaited, Request::Get { .. }) => answer.map(not_deposed),
            (Broken::LapseNotWaited, Request::Get { .. }) => answer.map(lapsed),
            (Broken::HeldSaysNothing, Request::Get { .. }) => {
                let label = self.world.state().members[self.who.0].label.clone();
                answer.map(|reply| held_says_nothing(reply, &label))
            }
            (Broken::ObserverBehindACache, Request::List { .. } | Request::Get { .. }) => {
                answer.map(|reply| self.cached(request, reply))
            }
            (Broken::WritesDenied, Request::Create { .. } | Request::Delete { .. })
                if now() > self.world.plan.length / 2 =>
            {
                Err(StoreError::new(
                    StoreErrorKind::AccessDenied,
                    Determinacy::Determinate,
                    "403 denied",
                ))
            }
            _ => answer,
        }
    }

    /// Returns a page that took several requests to a store without order. Only a compactor may use
    /// this page. Other processes get a page without keys, which a real store would never return.
    fn torn(&self, mut page: Page) -> Page {
        let compacts = self.world.state().members[self.who.0].label.contains("compactor");
        if !compacts {
            page = Page::new(Vec::new(), false);
        }
        page.torn = self.world.plan.broken != Broken::TornListing;
        page
    }

    /// Returns the reply that an observer gets from its cache. The cache returns each object as the
    /// observer first read it. Half of the listings omit the newest epoch.
    fn cached(&self, request: &Request, reply: Reply) -> Reply {
        let is_observer = self.world.state().members[self.who.0].label.ends_with("/observer");
        match (request, reply) {
            (_, reply) if !is_observer => reply,
            (Request::Get { key, .. }, Reply::Got(GetOutcome::Found(object))) => {
                let mut cache = self.cache.lock().unwrap();
                let cached = cache.entry(key.clone()).or_insert(object);
                Reply::Got(GetOutcome::Found(cached.clone()))
            }
            (_, Reply::Page(mut page)) if self.world.chance(0.5) => {
                page.entries.pop();
                page.truncated = false;
                Reply::Page(page)
            }
            (_, reply) => reply,
        }
    }
}

/// Implements [`Broken::DatesStand`].
impl SimStore {
    fn with_first_date(&self, key: &str, reply: Reply) -> Reply {
        let Reply::Got(GetOutcome::Found(mut object)) = reply else { return reply };
        let mut cache = self.cache.lock().unwrap();
        let first = cache.entry(key.to_owned()).or_insert_with(|| object.clone());
        object.last_modified = first.last_modified;
        Reply::Got(GetOutcome::Found(object))
    }
}

fn ignore_refusal(bytes: &[u8], which: fn(&Body) -> bool, answer: SpoiledAnswer) -> SpoiledAnswer {
    match answer {
        Ok(Reply::Put(PutOutcome::PreconditionFailed | PutOutcome::NotFound))
            if parse(bytes).is_some_and(|body| which(&body)) =>
        {
            Ok(Reply::Put(PutOutcome::Done { etag: Some(ETag::new("\"ignored\"")) }))
        }
        answer => answer,
    }
}

/// Changes the reply so that the single object appears sealed as `lapsed`, as if an operator had
/// declared the holder dead.
fn lapsed(reply: Reply) -> Reply {
    let Reply::Got(GetOutcome::Found(mut object)) = reply else { return reply };
    let mut record: Value = serde_json::from_slice(&object.body).expect("candidates write JSON");
    if record["ended"].is_null() {
        record["expires_at"] = 0.into();
        record["ended"] = "lapsed".into();
        object.body = Bytes::from(record.to_string());
    }
    Reply::Got(GetOutcome::Found(object))
}

fn held_says_nothing(reply: Reply, to: &str) -> Reply {
    let Reply::Got(GetOutcome::Found(mut object)) = reply else { return reply };
    let mut record: Value = serde_json::from_slice(&object.body).expect("candidates write JSON");
    if record["ended"] == "restored" && record["expired"] == false {
        match to {
            to if to.contains("compactor") => record["expired"] = true.into(),
            to if to.contains("operator") => {
                record["data"] = json!({ "restored_above": 0, "wait_ms": 0 })
            }
            _ => {}
        }
        object.body = Bytes::from(record.to_string());
    }
    Reply::Got(GetOutcome::Found(object))
}

fn not_deposed(reply: Reply) -> Reply {
    let Reply::Got(GetOutcome::Found(mut object)) = reply else { return reply };
    object.body = Bytes::from(String::from_utf8_lossy(&object.body).replace("deposed", "lapsed"));
    Reply::Got(GetOutcome::Found(object))
}
