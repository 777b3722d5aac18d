//! Troubles: faults that last for minutes, and affect the requests for one object, or the requests
//! of one process. The store serves all other requests as usual.

use std::sync::Arc;
use std::time::Duration;

use tenure::store::Determinacy;
use tenure_model::sim::connection::Request;
use tenure_model::time::sleep;
use tenure_testkit::fault_store::Fault;
use tenure_testkit::write_faults::{WRITE_FAULTS, WriteCourse};

use super::checks::{assignment_key, epoch_of};
use super::store::Course;
use super::world::{Who, World};

/// The faults that a trouble can have for reads and listings.
const READ_FAULTS: [Fault; 4] = [
    Fault::FailBefore,
    Fault::Hang,
    Fault::Slow(Duration::from_secs(10)),
    Fault::AnswerLate(Duration::from_secs(10)),
];

#[derive(Debug, Clone)]
pub struct Trouble {
    pub whose: Whose,
    pub reads: Option<Fault>,
    pub lists: Option<Fault>,
    pub writes: Option<Fault>,
}

#[derive(Debug, Clone)]
pub enum Whose {
    Key(String),
    Process(Who),
}

impl Trouble {
    /// If the trouble affects this request, adds the trouble's fault to `course`.
    pub fn change(&self, who: Who, request: &Request, course: &mut Course) {
        let met = match &self.whose {
            Whose::Process(process) => *process == who,
            Whose::Key(key) => self::key(request) == Some(key),
        };
        let fault = match request {
            Request::List { .. } => self.lists,
            Request::Get { .. } => self.reads,
            Request::Create { .. } | Request::Replace { .. } => self.writes,
            Request::Delete { .. } => None,
        };
        let Some(fault) = fault.filter(|_| met) else { return };
        if request.is_write() {
            let spoiled = WriteCourse::of(fault);
            course.again = spoiled.applied;
            course.spoiled = Some(spoiled);
            return;
        }
        match fault {
            Fault::FailBefore => course.answered = Err(Determinacy::Determinate),
            Fault::Hang => course.answered = Ok(false),
            Fault::Slow(delay) => course.there += delay,
            Fault::AnswerLate(delay) => course.back += delay,
            other => unreachable!("{other:?} is not a read fault"),
        }
    }
}

/// Begins a trouble. It affects the requests of process `who`, or the requests for a random object.
pub fn begin(world: &Arc<World>, who: Who) {
    let duration = world.part(world.plan.validity * 12);
    let (number, trouble) = {
        let mut state = world.state();
        let of_a_key = state.rng.bool();
        let whose = if of_a_key { Whose::Key(a_key(&mut state)) } else { Whose::Process(who) };
        let kinds = state.rng.u32(1..8);
        let mut some = |kind: u32, faults: &[Fault]| {
            let fault = faults[state.rng.usize(..faults.len())];
            (kinds & kind > 0).then_some(fault)
        };
        let (reads, writes) = (some(1, &READ_FAULTS), some(2, &lasting_write_faults()));
        let lists = some(4, &READ_FAULTS);
        let trouble = Trouble { whose, reads, lists, writes };
        let what = if of_a_key { "faults of a key" } else { "faults of a process" };
        state.count(what);
        (state.add_trouble(trouble.clone()), trouble)
    };
    world.note(who, || format!("TROUBLE for {duration:.3?}: {trouble:?}"));
    let world = Arc::clone(world);
    tokio::spawn(async move {
        sleep(duration).await;
        world.state().troubles.remove(&number);
    });
}

/// Returns the write faults that may last for minutes. The result excludes faults that omit ETags.
/// If they lasted for minutes, the library would refuse the store as unsafe.
fn lasting_write_faults() -> Vec<Fault> {
    let untagged = [Fault::NoEtag, Fault::Swallow];
    WRITE_FAULTS.into_iter().filter(|it| !untagged.contains(it)).collect()
}

/// Returns a random key: the key of a session, of the newest assignment, or of the next assignment.
fn a_key(state: &mut super::world::State) -> String {
    let newest = state.bucket.newest().map_or(0, |newest| newest.get());
    let sessions = state.bucket.objects.keys().filter(|key| epoch_of(key).is_none());
    let mut keys: Vec<String> = sessions.cloned().collect();
    keys.extend([newest.max(1), newest + 1].map(assignment_key));
    keys.swap_remove(state.rng.usize(..keys.len()))
}

fn key(request: &Request) -> Option<&String> {
    match request {
        Request::Get { key, .. } | Request::Create { key, .. } | Request::Replace { key, .. } => {
            Some(key)
        }
        Request::List { .. } | Request::Delete { .. } => None,
    }
}
