//! The store as one process reaches it: latency, loss, repetition and errors on the way to the
//! bucket.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use bytes::Bytes;
use tenure::Store;
use tenure::store::{Determinacy, ETag, GetOutcome, Page, PutOutcome, StoreError, StoreErrorKind};
use tenure_model::time::{now, sleep};
use tenure_testkit::write_faults::{WRITE_FAULTS, WriteAnswer, WriteCourse};
use tokio::sync::oneshot;

use super::bucket::{Reply, Request};
use super::checks;
use super::plan::Broken;
use super::world::{Who, World};

pub struct SimStore {
    pub world: Arc<World>,
    pub who: Who,
}

/// What becomes of one request.
#[derive(Debug, Clone)]
struct Course {
    there: Duration,
    back: Duration,
    again: Option<Duration>,
    applied: bool,
    answered: Result<bool, Determinacy>,
    /// In place of all this.
    spoiled: Option<WriteCourse>,
}

impl SimStore {
    fn course(&self, request: &Request) -> Course {
        let plan = &self.world.plan;
        let mut state = self.world.state();
        let half = |rng: &mut fastrand::Rng| (plan.rtt / 2).mul_f64(0.5 + rng.f64());
        let (there, back) = (half(&mut state.rng), half(&mut state.rng));
        let (applied, answered) = (true, Ok(true));
        let mut course = Course { there, back, again: None, applied, answered, spoiled: None };
        if !state.faults {
            return course;
        }
        let outage = state.machines[self.who.0].outage;
        let mut chance = |probability: f64| state.rng.f64() < probability;
        if chance(plan.late) {
            course.there += plan.validity.mul_f64(4.0 * state.rng.f64());
            *state.counts.entry("requests applied late").or_default() += 1;
        } else if chance(plan.twice) {
            course.again = Some(plan.validity.mul_f64(3.0 * state.rng.f64()));
            *state.counts.entry("requests applied twice").or_default() += 1;
        } else if chance(plan.lost) || outage {
            course.answered = Ok(false);
            course.applied = state.rng.bool();
            *state.counts.entry("answers lost").or_default() += 1;
        } else if chance(plan.failing) {
            course.applied = state.rng.bool();
            let fate = if course.applied || state.rng.bool() {
                Determinacy::Indeterminate
            } else {
                Determinacy::Determinate
            };
            course.answered = Err(fate);
            *state.counts.entry("requests failed").or_default() += 1;
        }
        let writes = matches!(request, Request::Create { .. } | Request::Replace { .. });
        if writes && plan.spoiled > 0.0 && state.rng.f64() < plan.spoiled {
            let spoiled = WriteCourse::of(WRITE_FAULTS[state.rng.usize(..WRITE_FAULTS.len())]);
            course.again = spoiled.applied;
            course.spoiled = Some(spoiled);
            *state.counts.entry("writes spoiled").or_default() += 1;
        }
        let arrives = now() + course.there + course.again.unwrap_or_default();
        state.held_up_until = state.held_up_until.max(arrives);
        course
    }

    async fn call(&self, request: Request) -> Result<Reply, StoreError> {
        let course = self.course(&request);
        self.world.note(self.who, || format!("-> {}", brief(&request)));
        let (answer, answered) = oneshot::channel();
        let (world, who, sent) = (Arc::clone(&self.world), self.who, request.clone());
        tokio::spawn(carry(world, who, sent, course, answer));
        match answered.await {
            Ok(answer) => {
                self.world.note(self.who, || format!("<- {}: {answer:.80?}", brief(&request)));
                match answer {
                    Ok(Reply::Put(PutOutcome::Done { etag: None }))
                        if self.world.plan.broken == Broken::EtagNotNeeded =>
                    {
                        let etag = Some(ETag::new("\"none\""));
                        Ok(Reply::Put(PutOutcome::Done { etag }))
                    }
                    answer => answer,
                }
            }
            // Lost on the way: there is no answer, ever.
            Err(_) => std::future::pending().await,
        }
    }
}

/// Takes a request to the bucket, whatever becomes of its sender.
async fn carry(
    world: Arc<World>,
    who: Who,
    request: Request,
    course: Course,
    answer: oneshot::Sender<Result<Reply, StoreError>>,
) {
    sleep(course.there).await;
    if let Some(spoiled) = course.spoiled {
        return spoil(world, who, request, spoiled, answer).await;
    }
    let reply = course.applied.then(|| apply(&world, who, &request));
    if let Some(later) = course.again {
        let (world, request) = (Arc::clone(&world), request.clone());
        tokio::spawn(async move {
            sleep(later).await;
            apply(&world, who, &request);
        });
    }
    sleep(course.back).await;
    let reply = match (course.answered, reply) {
        (Ok(true), Some(reply)) => Ok(reply),
        (Err(fate), _) => Err(StoreError::new(StoreErrorKind::Transient, fate, "503 slow down")),
        _ => return,
    };
    // The sender may have given up.
    let _ = answer.send(reply);
}

/// Applies and answers a write as one of the faults of writes has it.
async fn spoil(
    world: Arc<World>,
    who: Who,
    request: Request,
    spoiled: WriteCourse,
    answer: oneshot::Sender<Result<Reply, StoreError>>,
) {
    let later = async |delay: Duration| {
        sleep(delay).await;
        apply(&world, who, &request)
    };
    let reply = match (spoiled.answer, spoiled.applied) {
        (WriteAnswer::AtOnce(reply), applied) => {
            let _ = answer.send(reply.map(Reply::Put));
            if let Some(delay) = applied {
                later(delay).await;
            }
            return;
        }
        (_, None) => return,
        (WriteAnswer::Never, Some(delay)) => return drop(later(delay).await),
        (WriteAnswer::True, Some(delay)) => later(delay).await,
        (WriteAnswer::WithoutEtag, Some(delay)) => match later(delay).await {
            Reply::Put(PutOutcome::Done { .. }) => Reply::Put(PutOutcome::Done { etag: None }),
            reply => reply,
        },
    };
    let _ = answer.send(Ok(reply));
}

/// The one moment at which a request takes effect.
fn apply(world: &Arc<World>, who: Who, request: &Request) -> Reply {
    let broken = world.plan.broken;
    if let (Request::Replace { body, .. }, Broken::SealsRefused) = (request, broken) {
        let text = String::from_utf8_lossy(body);
        if text.contains("\"ended\": \"lapsed\"") {
            return Reply::Put(PutOutcome::PreconditionFailed);
        }
    }
    if let Request::Delete { keys } = request {
        checks::deleting(world, keys);
    }
    let reply = world.state().bucket.apply(request, world.plan.tagless, broken);
    world.note(who, || format!("   applied {}: {reply:.60?}", brief(request)));
    if let (
        Reply::Put(PutOutcome::Done { .. }),
        Request::Create { key, body } | Request::Replace { key, body, .. },
    ) = (&reply, request)
    {
        checks::written(world, who, key, body);
    }
    reply
}

fn brief(request: &Request) -> String {
    match request {
        Request::List { prefix, after, .. } => format!("LIST {prefix} after {after}"),
        Request::Get { key, .. } => format!("GET {key}"),
        Request::Create { key, body } => {
            format!("CREATE {key} {}", String::from_utf8_lossy(body).trim_end())
        }
        Request::Replace { key, etag, .. } => format!("REPLACE {key} of {etag:?}"),
        Request::Delete { keys } => format!("DELETE {keys:?}"),
    }
}

#[async_trait]
impl Store for SimStore {
    async fn list(&self, prefix: &str, after: &str, limit: usize) -> Result<Page, StoreError> {
        let (prefix, after) = (prefix.to_owned(), after.to_owned());
        let limit = limit.min(self.world.plan.page);
        match self.call(Request::List { prefix, after, limit }).await? {
            Reply::Listed(page) => Ok(page),
            reply => unreachable!("a LIST is answered by a page, not by {reply:?}"),
        }
    }

    async fn get(
        &self,
        key: &str,
        unless: Option<ETag>,
        _: usize,
    ) -> Result<GetOutcome, StoreError> {
        match self.call(Request::Get { key: key.to_owned(), unless }).await? {
            Reply::Got(outcome) => Ok(outcome),
            reply => unreachable!("a GET is not answered by {reply:?}"),
        }
    }

    async fn create(&self, key: &str, body: Bytes) -> Result<PutOutcome, StoreError> {
        match self.call(Request::Create { key: key.to_owned(), body }).await? {
            Reply::Put(outcome) => Ok(outcome),
            reply => unreachable!("a PUT is not answered by {reply:?}"),
        }
    }

    async fn replace(&self, key: &str, body: Bytes, etag: ETag) -> Result<PutOutcome, StoreError> {
        match self.call(Request::Replace { key: key.to_owned(), body, etag }).await? {
            Reply::Put(outcome) => Ok(outcome),
            reply => unreachable!("a PUT is not answered by {reply:?}"),
        }
    }

    async fn delete(&self, keys: Vec<String>) -> Result<Vec<(String, StoreError)>, StoreError> {
        self.call(Request::Delete { keys }).await?;
        Ok(Vec::new())
    }

    fn describe(&self) -> String {
        "sim://".to_owned()
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.who)
    }
}
