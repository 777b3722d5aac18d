//! The store as one process accesses it. The store passes requests to the bucket of the run, and
//! adds latency, lost requests, repeated requests and errors.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::store::{Determinacy, ETag, GetOutcome, Page, PutOutcome, StoreError, StoreErrorKind};
use tenure_model::sim::connection::{Answer, Calls, Reply, Request};
use tenure_model::time::{now, sleep};
use tenure_testkit::write_faults::{WRITE_FAULTS, WriteAnswer, WriteCourse};
use tokio::sync::oneshot;

use super::checks::{self, epoch_of};
use super::plan::Broken;
use super::world::{Who, World};

pub struct SimStore {
    pub world: Arc<World>,
    pub who: Who,
}

/// The delays and the faults of one request.
#[derive(Debug, Clone)]
pub struct Course {
    pub there: Duration,
    pub back: Duration,
    pub again: Option<Duration>,
    pub applied: bool,
    pub answered: Result<bool, Determinacy>,
    /// If this write fault is set, it determines the effect and the answer of the write, instead of
    /// `again`, `applied` and `answered`.
    pub spoiled: Option<WriteCourse>,
}

/// An entry in `State::under_way`, for one request. The entry exists as long as the request may
/// still take effect.
struct UnderWay(Arc<World>, u64);

impl UnderWay {
    fn new(world: &Arc<World>, request: &Request) -> UnderWay {
        let keys = match request {
            Request::Create { key, .. } => vec![key.clone()],
            Request::Delete { keys } => keys.clone(),
            _ => Vec::new(),
        };
        let mut state = world.state();
        let number = state.number();
        state.under_way.insert(number, keys);
        UnderWay(Arc::clone(world), number)
    }
}

impl Drop for UnderWay {
    fn drop(&mut self) {
        self.0.state().under_way.remove(&self.1);
    }
}

impl SimStore {
    fn course(&self, request: &Request) -> Course {
        let plan = &self.world.plan;
        let mut state = self.world.state();
        let half = |rng: &mut fastrand::Rng| (plan.rtt / 2).mul_f64(0.5 + rng.f64());
        let (there, back) = (half(&mut state.rng), half(&mut state.rng));
        let (applied, answered) = (true, Ok(true));
        let mut course = Course { there, back, again: None, applied, answered, spoiled: None };
        for trouble in state.troubles.values() {
            trouble.change(self.who, request, &mut course);
        }
        if !state.faults {
            return course;
        }
        if let Request::Get { key, .. } = request
            && state.must_be_read(key)
        {
            return Course { there, back, answered, spoiled: None, ..course };
        }
        let outage = state.machines[self.who.0].outage;
        let mut chance = |probability: f64| state.rng.f64() < probability;
        if chance(plan.late) {
            course.there += plan.validity.mul_f64(4.0 * state.rng.f64());
            state.count("requests applied late");
        } else if chance(plan.twice) {
            course.again = Some(plan.validity.mul_f64(3.0 * state.rng.f64()));
            state.count("requests applied twice");
        } else if chance(plan.lost) || outage {
            course.answered = Ok(false);
            course.applied = state.rng.bool();
            state.count("answers lost");
        } else if chance(plan.failing) {
            course.applied = state.rng.bool();
            let fate = if course.applied || state.rng.bool() {
                Determinacy::Indeterminate
            } else {
                Determinacy::Determinate
            };
            course.answered = Err(fate);
            state.count("requests failed");
        }
        if request.is_write() && plan.spoiled > 0.0 && state.rng.f64() < plan.spoiled {
            let spoiled = WriteCourse::of(WRITE_FAULTS[state.rng.usize(..WRITE_FAULTS.len())]);
            course.again = spoiled.applied;
            course.spoiled = Some(spoiled);
            state.count("writes spoiled");
        }
        let arrives = now() + course.there + course.again.unwrap_or_default();
        state.held_up_until = state.held_up_until.max(arrives);
        course
    }
}

#[async_trait]
impl Calls for SimStore {
    async fn call(&self, mut request: Request) -> Answer {
        if let Request::List { limit, .. } = &mut request {
            *limit = self.world.plan.page.min(*limit);
        }
        let course = self.course(&request);
        self.world.note(self.who, || format!("-> {}", brief(&request)));
        let (answer, answered) = oneshot::channel();
        let (world, who, sent) = (Arc::clone(&self.world), self.who, request.clone());
        let under_way = UnderWay::new(&world, &request);
        tokio::spawn(carry(world, who, sent, course, answer, under_way));
        match answered.await {
            Ok(answer) => {
                self.world.note(self.who, || format!("<- {}: {answer:.80?}", brief(&request)));
                self.note_seen(&request, &answer);
                self.taken(&request, answer)
            }
            // The request or its answer is lost, so no answer ever arrives.
            Err(_) => std::future::pending().await,
        }
    }
}

impl SimStore {
    /// If the process learns of an assignment from this answer, records the assignment's epoch.
    fn note_seen(&self, request: &Request, answer: &Answer) {
        let seen = match (request, answer) {
            (Request::Get { key, .. }, Ok(Reply::Got(GetOutcome::Found(_))))
            | (Request::Create { key, .. }, Ok(Reply::Put(PutOutcome::Done { etag: Some(_) }))) => {
                epoch_of(key)
            }
            _ => None,
        };
        let machine = &mut self.world.state().machines[self.who.0];
        machine.seen = machine.seen.max(seen);
    }

    /// Returns the answer that the process acts on. In a broken variant, this answer can differ
    /// from the store's answer.
    fn taken(&self, request: &Request, answer: Answer) -> Answer {
        match (self.world.plan.broken, request, answer) {
            (Broken::EtagNotNeeded, _, Ok(Reply::Put(PutOutcome::Done { etag: None }))) => {
                let etag = Some(ETag::new("\"none\""));
                Ok(Reply::Put(PutOutcome::Done { etag }))
            }
            (Broken::FailedReadFindsNothing, Request::Get { key, .. }, Err(_))
                if epoch_of(key).is_none() && self.is_member() =>
            {
                Ok(Reply::Got(GetOutcome::NotFound))
            }
            (Broken::FailedListIsEmpty, Request::List { .. }, Err(_)) => {
                Ok(Reply::Page(Page::new(Vec::new(), false)))
            }
            (Broken::UnreadStopsRound, Request::List { prefix, .. }, _)
                if prefix.ends_with("members/") && self.is_in_trouble() =>
            {
                let fate = Determinacy::Determinate;
                Err(StoreError::new(StoreErrorKind::Transient, fate, "503 slow down"))
            }
            (_, _, answer) => answer,
        }
    }

    fn is_member(&self) -> bool {
        self.world.state().machines[self.who.0].is_member
    }

    fn is_in_trouble(&self) -> bool {
        let state = self.world.state();
        !state.faults && !state.troubles.is_empty()
    }
}

/// Delivers a request to the bucket, even if its sender is stopped or no longer waits for the
/// answer.
async fn carry(
    world: Arc<World>,
    who: Who,
    request: Request,
    course: Course,
    answer: oneshot::Sender<Answer>,
    under_way: UnderWay,
) {
    sleep(course.there).await;
    if let Some(spoiled) = course.spoiled {
        spoil(world, who, request, spoiled, answer).await;
        return drop(under_way);
    }
    let reply = course.applied.then(|| apply(&world, who, &request));
    if let Some(later) = course.again {
        let (world, request) = (Arc::clone(&world), request.clone());
        tokio::spawn(async move {
            sleep(later).await;
            apply(&world, who, &request);
            drop(under_way);
        });
    } else {
        drop(under_way);
    }
    sleep(course.back).await;
    let reply = match (course.answered, reply) {
        (Ok(true), Some(reply)) => Ok(reply),
        (Err(fate), _) => Err(StoreError::new(StoreErrorKind::Transient, fate, "503 slow down")),
        _ => return,
    };
    // This send fails if the sender of the request no longer waits for the answer.
    let _ = answer.send(reply);
}

/// Applies and answers a write as the write fault `spoiled` determines.
async fn spoil(
    world: Arc<World>,
    who: Who,
    request: Request,
    spoiled: WriteCourse,
    answer: oneshot::Sender<Answer>,
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

/// Applies a request to the bucket, and checks its effect. The request takes effect during this
/// call, in one step.
fn apply(world: &Arc<World>, who: Who, request: &Request) -> Reply {
    let forgets = world.plan.broken == Broken::SealsForget;
    let request = &if forgets { without_the_greatest_assignment(request) } else { request.clone() };
    let broken = world.plan.broken;
    if let (Request::Replace { bytes, .. }, Broken::SealsRefused) = (request, broken) {
        let text = String::from_utf8_lossy(bytes);
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
        Request::Create { key, bytes: body } | Request::Replace { key, bytes: body, .. },
    ) = (&reply, request)
    {
        checks::written(world, who, key, body);
    }
    reply
}

/// Returns the request of a process that breaks rule D1. If the request seals a session, its body
/// lacks the session's data. So the seal does not show the greatest assignment that the member has
/// seen.
fn without_the_greatest_assignment(request: &Request) -> Request {
    let mut request = request.clone();
    if let Request::Replace { bytes, .. } = &mut request
        && let Ok(mut record) = serde_json::from_slice::<serde_json::Value>(bytes)
        && record["ended"].is_string()
    {
        record["data"] = serde_json::Value::Null;
        *bytes = record.to_string().into();
    }
    request
}

fn brief(request: &Request) -> String {
    match request {
        Request::List { prefix, after, .. } => format!("LIST {prefix} after {after}"),
        Request::Get { key, .. } => format!("GET {key}"),
        Request::Create { key, bytes } => {
            format!("CREATE {key} {}", String::from_utf8_lossy(bytes).trim_end())
        }
        Request::Replace { key, etag, .. } => format!("REPLACE {key} of {etag:?}"),
        Request::Delete { keys } => format!("DELETE {keys:?}"),
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.who)
    }
}
