//! Delays and faults of a request and its answer.

use std::time::Duration;

use tenure::store::Determinacy;
use tenure_testkit::write_faults::{WRITE_FAULTS, WriteCourse};

use super::world::{State, Who, World};
use tenure_model::sim::connection::Request;

/// A fault that lasts. It affects the requests of one process to one store, all requests of one
/// process, or all requests to one store.
#[derive(Debug, Clone)]
pub struct Trouble {
    pub who: Option<Who>,
    pub store: Option<usize>,
    pub kind: Kind,
}

#[derive(Debug, Clone)]
pub enum Kind {
    RequestsLost,
    AnswersLost,
    Unavailable,
    Slow(Duration),
    /// Each write has this fault.
    Writes(WriteCourse),
}

/// Delays and faults of one request.
#[derive(Debug, Clone)]
pub struct Course {
    pub there: Duration,
    pub back: Duration,
    /// Delay after which the request is applied again.
    pub again: Option<Duration>,
    pub applied: bool,
    pub answer: Answered,
    /// If set, this write fault applies instead of the other fields.
    pub spoiled: Option<WriteCourse>,
    pub page_limit: usize,
    /// True if the request was sent during the faults. The calm phase begins only after all such
    /// requests have arrived.
    pub counted: bool,
}

#[derive(Debug, Clone)]
pub enum Answered {
    Truly,
    Never,
    With(Determinacy),
}

impl Kind {
    /// Returns a fault that may last for minutes.
    pub fn draw(state: &mut State, validity: Duration) -> Kind {
        match state.rng.u32(0..6) {
            0 | 1 => Kind::RequestsLost,
            2 => Kind::AnswersLost,
            3 => Kind::Unavailable,
            4 => Kind::Slow(state.part(validity / 2)),
            _ => Kind::Writes(spoiled(state)),
        }
    }
}

/// Returns one of the testkit's write faults. Its answers always have ETags, because a store that
/// omits them all the time is refused as unsafe.
fn spoiled(state: &mut State) -> WriteCourse {
    WriteCourse::of(WRITE_FAULTS[state.rng.usize(..WRITE_FAULTS.len())])
}

impl Course {
    pub fn draw(world: &World, who: Who, store: usize, request: &Request) -> Course {
        let (plan, mut state) = (&world.plan, world.state());
        let state = &mut *state;
        let half = plan.rtts[store] / 2;
        let mut course = Course {
            there: half.mul_f64(0.5 + state.rng.f64()),
            back: half.mul_f64(0.5 + state.rng.f64()),
            again: None,
            applied: true,
            answer: Answered::Truly,
            spoiled: None,
            // A listing of many short pages takes longer than the bound of the calm phase.
            page_limit: if state.faults { state.rng.usize(1..=plan.page_max) } else { 1_000 },
            counted: state.faults,
        };
        let is_write = request.is_write();
        if state.faults {
            course.draw_faults(state, world, request, is_write);
        }
        let met = |it: &&Trouble| {
            it.who.is_none_or(|it| it == who) && it.store.is_none_or(|it| it == store)
        };
        for trouble in state.troubles.values().filter(met) {
            match &trouble.kind {
                Kind::RequestsLost => course.fails(Answered::Never),
                Kind::AnswersLost => course.answer = Answered::Never,
                Kind::Unavailable => course.fails(Answered::With(Determinacy::Determinate)),
                Kind::Slow(by) => {
                    course.there += *by / 2;
                    course.back += *by / 2;
                }
                Kind::Writes(spoiled) if is_write => course.spoiled = Some(spoiled.clone()),
                Kind::Writes(_) => {}
            }
        }
        course
    }

    fn fails(&mut self, answer: Answered) {
        (self.applied, self.again, self.spoiled, self.answer) = (false, None, None, answer);
    }

    fn draw_faults(&mut self, state: &mut State, world: &World, request: &Request, writes: bool) {
        let (network, validity) = (&world.plan.network, world.plan.longest_validity());
        if state.chance(network.tail) {
            self.there += state.tail(validity);
        }
        if state.chance(network.tail) {
            self.back += state.tail(validity);
        }
        if state.chance(network.late) {
            self.there += validity / 5 + state.part(validity * 4);
            state.count("requests applied late");
        }
        if state.chance(network.twice) && !matches!(request, Request::Get { .. }) {
            self.again = Some(state.part(validity * 3));
            state.count("requests applied twice");
        }
        if state.chance(network.request_lost) {
            self.fails(Answered::Never);
        } else if state.chance(network.unavailable) {
            self.fails(Answered::With(Determinacy::Determinate));
        } else if state.chance(network.answer_lost) {
            let cut = state.rng.bool();
            self.answer =
                if cut { Answered::With(Determinacy::Indeterminate) } else { Answered::Never };
            state.count("answers lost");
        }
        if writes && state.chance(network.spoiled) {
            self.spoiled = Some(spoiled(state));
            state.count("writes spoiled");
        }
    }
}
