//! The paths of the HTTP API of a sidecar.

use std::sync::{Arc, OnceLock};

use serde::{Deserialize, Serialize};
use serde_json::{Value, json};
use tenure::internals::check_name;
use tokio::sync::oneshot;

use super::body::{LONGEST_PAUSE, bad_body, body_of, millis_of, only, optional, within};
use super::candidacy::{self, Candidacy, ElectionOrder, ResignOrder};
use super::groups::api as groups;
use super::groups::member::Member;
use super::view::{ElectionTokenView, ElectionView, ElectionViews};
use super::{events, shapes};
use crate::http::access::Access;
use crate::http::refusal::Refusal;
use crate::http::{Answer, HttpRequest, Reply};
use crate::output::print::millis;
use crate::process::app_health::AppHealth;

/// The OpenAPI description of the sidecar's HTTP API.
const OPENAPI: &str = include_str!("../../openapi.json");
/// Maximum length of a request body in bytes. A body with the longest data that a record can
/// contain is shorter.
pub const MOST_BODY: usize = 64 * 1024;

/// The HTTP API of a sidecar: its access rules, the application's health, the elections and the
/// groups.
pub struct Api {
    pub access: Access,
    pub app: Arc<AppHealth>,
    /// The elections and groups of the sidecar. The value is set after all stores are open.
    pub served: OnceLock<Served>,
}

/// The elections and the groups of this process.
pub struct Served {
    pub elections: Vec<Arc<Candidacy>>,
    pub members: Vec<Arc<Member>>,
}

/// A resource of the API, as a path identifies it.
enum ApiTarget<'a> {
    OfGroups(groups::GroupTarget<'a>),
    Elections,
    Election(&'a str),
    Token(&'a str),
    Events(&'a str),
    Resign(&'a str),
    Data(&'a str),
    Heartbeat,
    OpenApi,
    /// Paths that this API serves for clients of two older sidecars. The module
    /// [`shapes`](super::shapes) describes the replies.
    Root,
    RootEvents,
}

impl ApiTarget<'_> {
    fn of(path: &str) -> Option<ApiTarget<'_>> {
        match path {
            "/" => return Some(ApiTarget::Root),
            "/sse" => return Some(ApiTarget::RootEvents),
            "/openapi.json" => return Some(ApiTarget::OpenApi),
            "/v1/heartbeat" => return Some(ApiTarget::Heartbeat),
            "/v1/elections" => return Some(ApiTarget::Elections),
            _ => {}
        }
        if path.starts_with("/v1/groups") {
            return groups::GroupTarget::of(path).map(ApiTarget::OfGroups);
        }
        let rest = path.strip_prefix("/v1/elections/")?;
        let (name, part) = rest.split_once('/').map_or((rest, None), |(a, b)| (a, Some(b)));
        match part {
            None => Some(ApiTarget::Election(name)),
            Some("token") => Some(ApiTarget::Token(name)),
            Some("events") => Some(ApiTarget::Events(name)),
            Some("resign") => Some(ApiTarget::Resign(name)),
            Some("data") => Some(ApiTarget::Data(name)),
            Some(_) => None,
        }
    }

    /// Returns the methods of this resource in the format of the header `Allow`.
    fn methods(&self) -> &'static str {
        match self {
            ApiTarget::OfGroups(target) => target.methods(),
            ApiTarget::Resign(_) | ApiTarget::Heartbeat => "POST",
            ApiTarget::Data(_) => "PUT",
            _ => "GET, HEAD",
        }
    }
}

/// The body of `POST …/resign`.
#[derive(Debug, Default, Deserialize)]
#[serde(deny_unknown_fields, expecting = "an object")]
struct ResignBody {
    successor: Option<String>,
    pause_ms: Option<f64>,
}

impl Api {
    pub async fn answer(&self, asked: HttpRequest) -> Answer {
        self.try_answer(asked).await.unwrap_or_else(|refusal| Answer::Whole(refusal.reply()))
    }

    async fn try_answer(&self, asked: HttpRequest) -> Result<Answer, Refusal> {
        self.access.check(&asked.method, &asked.headers)?;
        let target = ApiTarget::of(&asked.path).ok_or(Refusal::NOT_FOUND)?;
        let allowed = target.methods();
        if !allowed.split(", ").any(|method| asked.method.as_str() == method) {
            let why = format!("this path accepts only {allowed}");
            return Err(Refusal::new(405, "method_not_allowed", why).with_header("allow", allowed));
        }
        match target {
            ApiTarget::OfGroups(target) => {
                groups::answer(&self.served()?.members, target, &asked).await
            }
            ApiTarget::OpenApi => {
                Ok(Answer::Whole(Reply::new(200, "application/json", OPENAPI.to_owned())))
            }
            ApiTarget::Heartbeat => self.heartbeat(),
            ApiTarget::Elections => {
                let elections = self.elections()?.iter().map(|one| ElectionView::of(one)).collect();
                whole(&ElectionViews { elections })
            }
            ApiTarget::Election(name) => whole(&ElectionView::of(self.election(name)?)),
            ApiTarget::Token(name) => {
                let (token, left) = self.election(name)?.leadership().ok_or(Refusal::NO_TOKEN)?;
                whole(&ElectionTokenView { token, lease_remaining_ms: millis(left) })
            }
            ApiTarget::Events(name) => {
                Ok(Answer::Events(events::events(self.election(name)?), None))
            }
            ApiTarget::Resign(name) => self.resign(self.election(name)?, &asked).await,
            ApiTarget::Data(name) => self.proclaim(self.election(name)?, &asked).await,
            ApiTarget::Root => whole(&shapes::leader_of(self.only_election()?)),
            ApiTarget::RootEvents => {
                Ok(Answer::Events(shapes::events(self.only_election()?), None))
            }
        }
    }

    fn served(&self) -> Result<&Served, Refusal> {
        self.served.get().ok_or(Refusal::STARTING)
    }

    fn elections(&self) -> Result<&[Arc<Candidacy>], Refusal> {
        Ok(&self.served()?.elections)
    }

    fn election(&self, name: &str) -> Result<&Arc<Candidacy>, Refusal> {
        let named = self.elections()?.iter().find(|one| one.common.name == name);
        named.ok_or(Refusal::NO_ELECTION)
    }

    fn only_election(&self) -> Result<&Arc<Candidacy>, Refusal> {
        match self.elections()? {
            [only] => Ok(only),
            [] => Err(Refusal::fixed(404, "no_such_election", "this process has no election")),
            several => {
                let why = format!(
                    "this path needs a single election, got {}: use /v1/elections",
                    several.len()
                );
                Err(Refusal::new(404, "several_elections", why))
            }
        }
    }

    fn heartbeat(&self) -> Result<Answer, Refusal> {
        if !self.app.heartbeat() {
            let why = "this process does not run with --app-health heartbeat";
            return Err(Refusal::fixed(409, "no_heartbeats", why));
        }
        let deadline = millis(self.app.deadline());
        Ok(Answer::Whole(Reply::json(200, &json!({ "healthy_for_ms": deadline }))))
    }

    async fn resign(&self, candidacy: &Candidacy, asked: &HttpRequest) -> Result<Answer, Refusal> {
        let epoch = only("epoch", &asked.query)?;
        let body: ResignBody = optional(asked)?;
        let pause = millis_of("pause_ms", body.pause_ms, LONGEST_PAUSE)?;
        if body.successor.as_deref().is_some_and(|name| check_name(name).is_err()) {
            let why = "successor must be a name of 1 to 256 bytes without control characters";
            return Err(Refusal::fixed(400, "bad_body", why));
        }
        let order = ResignOrder { successor: body.successor, pause };
        let (reply, outcome) = oneshot::channel();
        candidacy.common.order(ElectionOrder::Resign { order, epoch, reply })?;
        let candidacy::Resigned { epoch, sealed } = within(outcome).await?;
        Ok(Answer::Whole(Reply::json(200, &json!({ "epoch": epoch, "sealed": sealed }))))
    }

    async fn proclaim(
        &self,
        candidacy: &Candidacy,
        asked: &HttpRequest,
    ) -> Result<Answer, Refusal> {
        let epoch = only("epoch", &asked.query)?;
        let data: Value =
            serde_json::from_slice(body_of(asked)?).map_err(|error| bad_body(&error))?;
        let (reply, outcome) = oneshot::channel();
        candidacy.common.order(ElectionOrder::Proclaim { data, epoch, reply })?;
        let epoch = within(outcome).await?;
        Ok(Answer::Whole(Reply::json(200, &json!({ "epoch": epoch }))))
    }
}

fn whole(value: &impl Serialize) -> Result<Answer, Refusal> {
    Ok(Answer::Whole(Reply::json(200, value)))
}
