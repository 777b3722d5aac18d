//! The simulated store of one process. The store passes requests to a correct bucket, and adds
//! latency, loss, repetition and errors.

use std::collections::BTreeMap;
use std::fmt;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use async_trait::async_trait;
use tenure::store::{Determinacy, GetOutcome, Object, PutOutcome, StoreError, StoreErrorKind};
use tenure_model::sim::connection::{Answer, Calls, Connection, Reply, Request};
use tenure_model::time::{now, sleep};
use tenure_testkit::write_faults::{WriteAnswer, WriteCourse};
use tokio::sync::oneshot;

use super::bucket::{PREFIX, epoch_in, epoch_of, key_of, parse};
use super::checkers::{Event, Seen, Write, WriteId};
use super::network::{Answered, Course};
use super::peers::depose;
use super::plan::Broken;
use super::words::{brief, describe, describe_answer};
use super::world::{Who, World};

tokio::task_local! {
    /// This value is set while a task of a leader runs. So the store recognises the requests of
    /// leaders.
    pub static LEADS: ();
}

/// The connection of a process to the store.
pub struct SimStore {
    pub(super) world: Arc<World>,
    pub(super) who: Who,
    /// Objects as a broken process first read them.
    pub(super) cache: Mutex<BTreeMap<String, Object>>,
}

/// A reply, and the state of the store at the time of the reply.
struct Carried {
    reply: Reply,
    step: u64,
    newest: Option<u64>,
}

impl SimStore {
    pub fn new(world: &Arc<World>, who: Who) -> Arc<Connection<SimStore>> {
        let world = Arc::clone(world);
        Arc::new(Connection(SimStore { world, who, cache: Mutex::default() }))
    }

    /// Waits until a broken leader abandons this request. Never returns for other requests and
    /// other processes.
    async fn gives_up(&self, request: &Request, leads: bool) {
        match (self.world.plan.broken, request) {
            (Broken::ReadsGivenUp, Request::Get { .. }) if leads => {
                sleep(self.world.plan.rtt.mul_f64(1.5)).await;
            }
            _ => std::future::pending().await,
        }
    }

    /// Records a write and the readings of the sender's clocks just before the request is sent.
    fn sending(&self, request: &Request) -> Option<WriteId> {
        let (key, bytes, create) = match request {
            Request::Create { key, bytes } => (key, bytes, true),
            Request::Replace { key, bytes, .. } => (key, bytes, false),
            _ => return None,
        };
        let mut state = self.world.state();
        let sent = state.members[self.who.0].clock.truth();
        let body = parse(bytes)?;
        let epoch = epoch_in(key, Some(&body))?;
        // A candidate acquires the lock of a single object by a replacement. So a replacement with
        // a new nonce counts as a create.
        let takes = body.token.is_some() && !body.sealed && {
            let known = |write: &Write| write.body.nonce == body.nonce;
            !state.book.sent_by(self.who, epoch).any(known)
        };
        let create = create || takes;
        let by_wall = !self.world.plan.never_paused;
        let write = Write { who: self.who, epoch, body, create, sent, by_wall, applied: None };
        self.world.see_in(&mut state, &Event::Sending { write: &write });
        Some(state.book.sent(write))
    }

    fn received(&self, request: &Request, carried: &Carried) {
        if let (Request::Get { key, .. }, Reply::Got(GetOutcome::Found(object))) =
            (request, &carried.reply)
            && self.world.plan.foreign
            && let Some(epoch) = epoch_of(key)
            && parse(&object.body).is_some_and(|body| body.nonce.is_none() && !body.sealed)
        {
            let (etag, modified) = (object.etag.clone(), object.last_modified);
            let event = Event::ReadForeign { who: self.who, epoch, etag, modified };
            self.world.see_in(&mut self.world.state(), &event);
        }
        if let Request::List { after, prefix, .. } = request
            && prefix == PREFIX
        {
            let (step, newest) = (carried.step, carried.newest);
            let page = Seen { who: self.who, after: after.clone(), step, newest };
            self.world.state().book.received(page);
        }
    }
}

#[async_trait]
impl Calls for SimStore {
    async fn call(&self, request: Request) -> Answer {
        let started = now();
        let leads = LEADS.try_with(|()| ()).is_ok();
        if leads {
            let event = Event::LeaderSends { who: self.who };
            self.world.see_in(&mut self.world.state(), &event);
        }
        let write = self.sending(&request);
        self.world.stop_here(self.who, "before sending").await;
        let course = Course::draw(&mut self.world.state(), self.who, &self.world, &request);
        self.world.state().in_flight += u64::from(course.counted);
        self.world.note(self.who, || format!("-> {}", describe(&request)));
        let (sender, receiver) = oneshot::channel();
        let carrier = Carrier {
            world: Arc::clone(&self.world),
            who: self.who,
            request: request.clone(),
            write,
            course,
        };
        tokio::spawn(carrier.carry(sender));
        let answer = async {
            match receiver.await {
                Ok(answer) => answer,
                // The request is lost, and no answer ever arrives.
                Err(_) => std::future::pending().await,
            }
        };
        let given_up = self.gives_up(&request, leads);
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = given_up => Err(given_up_early()),
        };
        self.world.stop_here(self.who, "before reading the answer").await;
        let answer = answer.map(|carried| {
            self.received(&request, &carried);
            carried.reply
        });
        self.world.note(self.who, || format!("<- {}", describe_answer(&request, &answer)));
        self.spoil(&request, answer, now() - started)
    }
}

/// Delivers a request to the bucket, even if the sender has stopped or given up.
struct Carrier {
    world: Arc<World>,
    who: Who,
    request: Request,
    write: Option<WriteId>,
    course: Course,
}

type CarriedAnswer = Result<Carried, StoreError>;

impl Carrier {
    async fn carry(mut self, answer: oneshot::Sender<CarriedAnswer>) {
        sleep(self.course.there).await;
        if let Some(spoiled) = self.course.spoiled.take() {
            return self.spoil(spoiled, answer).await;
        }
        let carried = if self.course.applied { Some(self.apply(false)) } else { None };
        match self.course.again {
            Some(later) => {
                let again = self.again(later);
                tokio::spawn(again);
            }
            None => self.world.state().in_flight -= u64::from(self.course.counted),
        }
        sleep(self.course.back).await;
        let reply = match (&self.course.answer, carried) {
            (Answered::Truly, Some(carried)) => Ok(carried),
            (Answered::With(message, determinacy), _) => {
                Err(StoreError::new(StoreErrorKind::Transient, *determinacy, *message))
            }
            _ => return,
        };
        // If the sender has given up, nothing receives the answer.
        let _ = answer.send(reply);
    }

    /// Applies and answers a write with one of the write faults.
    async fn spoil(self, spoiled: WriteCourse, answer: oneshot::Sender<CarriedAnswer>) {
        let mut answer = Some(answer);
        if let WriteAnswer::AtOnce(reply) = &spoiled.answer {
            let (step, newest) = (0, None);
            let reply = reply.clone().map(|put| Carried { reply: Reply::Put(put), step, newest });
            let _ = answer.take().map(|answer| answer.send(reply));
        }
        if let Some(delay) = spoiled.applied {
            sleep(delay).await;
            let mut carried = self.apply(false);
            if let (WriteAnswer::WithoutEtag, Reply::Put(PutOutcome::Done { etag })) =
                (&spoiled.answer, &mut carried.reply)
            {
                *etag = None;
            }
            if let (WriteAnswer::True | WriteAnswer::WithoutEtag, Some(answer)) =
                (&spoiled.answer, answer)
            {
                let _ = answer.send(Ok(carried));
            }
        }
        self.world.state().in_flight -= u64::from(self.course.counted);
    }

    fn again(&self, later: Duration) -> impl Future<Output = ()> + use<> {
        let Carrier { world, who, request, write, course } = self;
        let carrier = Carrier {
            world: Arc::clone(world),
            who: *who,
            request: request.clone(),
            write: *write,
            course: course.clone(),
        };
        async move {
            sleep(later).await;
            let gone = match &carrier.request {
                Request::Create { key, .. } => carrier.world.state().bucket.object(key).is_none(),
                _ => false,
            };
            if !gone || carrier.world.plan.twice_after_compaction {
                if gone {
                    carrier.world.count("creates repeated after compaction");
                }
                carrier.apply(true);
            }
            carrier.world.state().in_flight -= u64::from(carrier.course.counted);
        }
    }

    /// Applies the request. The request takes effect only during this call.
    fn apply(&self, again: bool) -> Carried {
        let world = &self.world;
        let mut state = world.state();
        state.book.step += 1;
        let mut request = self.request.clone();
        if let Request::Delete { keys } = &mut request
            && self.course.undeleted
        {
            keys.truncate(keys.len() / 2);
        }
        if let (Request::Delete { keys }, Broken::NewestCompacted) =
            (&mut request, world.plan.broken)
        {
            keys.extend(state.bucket.newest().map(key_of));
        }
        let before = match &request {
            Request::Replace { key, .. } => state.bucket.object(key).and_then(|o| o.body.clone()),
            Request::Delete { keys } => {
                for epoch in keys.iter().filter_map(|key| epoch_of(key)) {
                    world.see_in(&mut state, &Event::Deleting { epoch });
                }
                None
            }
            _ => None,
        };
        let reply = state.bucket.apply(&request, now(), self.course.page_limit, world.plan.broken);
        if world.plan.traced {
            let word = if again { "AGAIN" } else { "applied" };
            let what = format!("   {word}: {}: {}", describe(&request), brief(&request, &reply));
            state.note(self.who, &what);
        }
        if let (Reply::Put(PutOutcome::Done { .. }), Some(id)) = (&reply, self.write) {
            state.book.applied(id);
            let write = state.book.writes[id].clone();
            let event = match &before {
                Some(before) => Event::Replaced { write: &write, before },
                None => Event::Created { write: &write },
            };
            world.see_in(&mut state, &event);
            if let (true, Some(operator)) = (write.create, state.lurking.take()) {
                state.count("created epochs deposed immediately");
                drop(state);
                depose(world, operator);
                state = world.state();
            }
        }
        Carried { reply, step: state.book.step, newest: state.bucket.newest() }
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({})", self.who)
    }
}

/// Implements [`Broken::ReadsGivenUp`].
fn given_up_early() -> StoreError {
    StoreError::new(StoreErrorKind::Transient, Determinacy::Indeterminate, "given up early")
}
