//! The connection of one process to one simulated store.

use std::fmt;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use tenure::Store;
use tenure::store::{Determinacy, ETag, Entry, PutOutcome, StoreError, StoreErrorKind};
use tenure_model::gate::pass;
use tenure_model::sim::connection::{Answer, Calls, Connection, Reply, Request};
use tenure_model::time::{now, sleep};
use tenure_testkit::write_faults::{WriteAnswer, WriteCourse};
use tokio::sync::oneshot;

use super::bucket::{epoch_of, parse};
use super::checks;
use super::network::{Answered, Course};
use super::plan::Broken;
use super::world::{State, Who, World};

pub struct SimStore {
    world: Arc<World>,
    who: Who,
    store: usize,
}

impl SimStore {
    pub fn new(world: &Arc<World>, who: Who, store: usize) -> Arc<Connection<SimStore>> {
        Arc::new(Connection(SimStore { world: Arc::clone(world), who, store }))
    }
}

/// Returns the connections of a process to all stores.
pub fn all(world: &Arc<World>, who: Who) -> Vec<Arc<dyn Store>> {
    let store = |store| SimStore::new(world, who, store) as _;
    (0..world.plan.stores()).map(store).collect()
}

/// Returns the epoch of a renewal.
fn renewed(request: &Request) -> Option<u64> {
    let Request::Replace { key, bytes, .. } = request else { return None };
    parse(bytes).filter(|body| !body.sealed).and_then(|_| epoch_of(key))
}

#[async_trait]
impl Calls for SimStore {
    async fn call(&self, request: Request) -> Answer {
        let (world, who) = (&self.world, self.who);
        world.sending(who, &request);
        world.stop_here(who).await;
        let course = Course::draw(world, who, self.store, &request);
        world.state().in_flight += u64::from(course.counted);
        world.note(who, || format!("-> {}: {}", self.store, describe(&request)));
        let (sender, receiver) = oneshot::channel();
        let losses = world.state().stores[self.store].losses;
        let world = Arc::clone(world);
        let (store, request) = (self.store, request);
        let carried = Carrier { world, who, store, request: request.clone(), course, losses };
        tokio::spawn(carried.carry(sender));
        let answer = async {
            match receiver.await {
                Ok(answer) => answer,
                // The request is lost, and no answer ever arrives.
                Err(_) => std::future::pending().await,
            }
        };
        let answer = match (self.world.plan.broken, renewed(&request)) {
            (Broken::GreatestLease, Some(epoch)) => self.believe(epoch, answer).await,
            _ => answer.await,
        };
        self.world.stop_here(who).await;
        self.world.note(who, || format!("<- {}: {answer:?}", self.store));
        answer
    }
}

impl SimStore {
    /// Reports a renewal as done if another store has just accepted a renewal of the same epoch.
    async fn believe(&self, epoch: u64, answer: impl Future<Output = Answer>) -> Answer {
        let longest = self.world.plan.validity / 10;
        let answer = tokio::select! {
            biased;
            answer = answer => answer,
            () = sleep(longest) => Err(failed(Determinacy::Indeterminate)),
        };
        let mut state = self.world.state();
        let machine = &mut state.machines[self.who.0];
        if let Ok(Reply::Put(PutOutcome::Done { .. })) = answer {
            machine.renewed = Some((epoch, now()));
            return answer;
        }
        match machine.renewed {
            Some((it, at)) if it == epoch && now() - at < longest * 2 => {
                let etag = Some(ETag::new("\"forged\"".to_owned()));
                Ok(Reply::Put(PutOutcome::Done { etag }))
            }
            _ => answer,
        }
    }
}

impl World {
    fn sending(&self, who: Who, request: &Request) {
        if request.is_write() && self.state().machines[who.0].is_wrong {
            self.fail("order", format!("{who} has a wrong list and sends {}", describe(request)));
        }
    }

    /// Sometimes stops the calling process.
    async fn stop_here(self: &Arc<World>, who: Who) {
        let (gates, duration) = {
            let mut state = self.state();
            let machine = &state.machines[who.0];
            let may = state.faults && !machine.stopped && machine.alive;
            if !may || !state.chance(self.plan.network.stop_here) {
                return;
            }
            state.count("stops at a request");
            state.machines[who.0].stopped = true;
            let duration = state.part(self.plan.longest_validity() * 3);
            (state.machines[who.0].gates.clone(), duration)
        };
        self.note(who, || format!("PAUSED for {duration:.3?}"));
        gates.iter().for_each(|gate| gate.close());
        let (gate, world) = (Arc::clone(&gates[0]), Arc::clone(self));
        tokio::spawn(async move {
            sleep(duration).await;
            world.state().machines[who.0].stopped = false;
            gates.iter().for_each(|gate| gate.open());
            checks::one_leader(&world);
        });
        pass(&gate).await;
    }
}

/// Delivers a request to the bucket, even if the sender has stopped or given up.
#[derive(Clone)]
struct Carrier {
    world: Arc<World>,
    who: Who,
    store: usize,
    request: Request,
    course: Course,
    /// Number of losses of the contents of the store before the request was sent.
    losses: u32,
}

type Sender = oneshot::Sender<Answer>;

impl Carrier {
    async fn carry(mut self, answer: Sender) {
        sleep(self.course.there).await;
        if let Some(spoiled) = self.course.spoiled.take() {
            return self.spoil(spoiled, answer).await;
        }
        let reply = self.course.applied.then(|| self.apply());
        match self.course.again {
            Some(later) => drop(tokio::spawn(self.clone().again(later))),
            None => self.over(),
        }
        sleep(self.course.back).await;
        let reply = match (&self.course.answer, reply) {
            (Answered::Truly, Some(reply)) => Ok(reply),
            (Answered::With(determinacy), _) => Err(failed(*determinacy)),
            _ => return,
        };
        // If the sender has given up, nothing receives the answer.
        let _ = answer.send(reply);
    }

    /// Applies and answers a write with one of the write faults.
    async fn spoil(self, spoiled: WriteCourse, answer: Sender) {
        let mut answer = Some(answer);
        if let WriteAnswer::AtOnce(reply) = &spoiled.answer {
            let _ = answer.take().map(|answer| answer.send(reply.clone().map(Reply::Put)));
        }
        if let Some(delay) = spoiled.applied {
            sleep(delay).await;
            let mut reply = self.apply();
            if let (WriteAnswer::WithoutEtag, Reply::Put(PutOutcome::Done { etag })) =
                (&spoiled.answer, &mut reply)
            {
                *etag = None;
            }
            if let (WriteAnswer::True | WriteAnswer::WithoutEtag, Some(answer)) =
                (&spoiled.answer, answer)
            {
                let _ = answer.send(Ok(reply));
            }
        }
        self.over();
    }

    async fn again(self, later: Duration) {
        sleep(later).await;
        let is_compacted = {
            let state = self.world.state();
            let bucket = &state.stores[self.store].bucket;
            let gone =
                |key: &String| bucket.object(key).is_none() && epoch_of(key) < bucket.newest();
            matches!(&self.request, Request::Create { key, .. } if gone(key))
        };
        // Assumption P1 excludes a create that takes effect again after its epoch was compacted.
        if !is_compacted {
            self.apply();
        }
        self.over();
    }

    fn over(&self) {
        self.world.state().in_flight -= u64::from(self.course.counted);
    }

    /// Applies the request. The request takes effect only during this call.
    fn apply(&self) -> Reply {
        let world = &self.world;
        let reply = {
            let mut state = world.state();
            let place = &mut state.stores[self.store];
            let of_set = |key: &String| key.contains("lock-set-");
            let is_late = place.losses != self.losses;
            let reply = match &self.request {
                // The operator asserts that no write of an earlier replacement is under way.
                Request::Create { key, .. } if is_late && of_set(key) => {
                    Reply::Put(PutOutcome::PreconditionFailed)
                }
                request => {
                    let limit = self.course.page_limit;
                    place.bucket.apply(request, now(), limit, world.plan.broken)
                }
            };
            self.forge(&mut state, reply)
        };
        world.note(self.who, || format!("   {} applied: {}", self.store, describe(&self.request)));
        if let (Reply::Put(PutOutcome::Done { .. }), Request::Create { key, bytes }) =
            (&reply, &self.request)
        {
            world.state().book.created(self.store, key, bytes);
        }
        checks::one_leader(world);
        reply
    }

    /// Adds the lost marker to a listing without a marker, for [`Broken::MarkerForged`].
    fn forge(&self, state: &mut State, reply: Reply) -> Reply {
        let Reply::Page(mut page) = reply else { return reply };
        let lost = &state.stores[self.store];
        let is_forged = self.world.plan.broken == Broken::MarkerForged && lost.is_lost;
        if let Some(key) = lost.marker.clone().filter(|_| is_forged && !page.truncated)
            && page.entries.iter().all(|it| it.key != key)
        {
            page.entries.push(Entry::new(key, 2));
            page.entries.sort_by(|one, other| one.key.cmp(&other.key));
        }
        Reply::Page(page)
    }
}

fn failed(determinacy: Determinacy) -> StoreError {
    StoreError::new(StoreErrorKind::Transient, determinacy, "a simulated failure")
}

pub fn describe(request: &Request) -> String {
    match request {
        Request::List { after, .. } => format!("LIST after {after}"),
        Request::Get { key, .. } => format!("GET {key}"),
        Request::Create { key, bytes } => format!("CREATE {key} {:?}", parse(bytes)),
        Request::Replace { key, bytes, etag } => {
            format!("REPLACE {key} {etag:?} {:?}", parse(bytes))
        }
        Request::Delete { keys } => format!("DELETE {keys:?}"),
    }
}

impl fmt::Debug for SimStore {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "SimStore({}, {})", self.who, self.store)
    }
}
