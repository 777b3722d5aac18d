//! Delays and faults of a request and its answer.

use std::time::Duration;

use tenure::store::Determinacy;
use tenure_model::sim::connection::Request;
use tenure_model::time::now;
use tenure_testkit::write_faults::{WRITE_FAULTS, WriteCourse};

use super::world::Outage;
use super::world::{State, Who, World};

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
    pub undeleted: bool,
    /// True if the request was sent during the faults. The calm phase begins only after all such
    /// requests have arrived.
    pub counted: bool,
}

#[derive(Debug, Clone, PartialEq)]
pub enum Answered {
    Truly,
    Never,
    With(&'static str, Determinacy),
}

impl Course {
    pub fn draw(state: &mut State, who: Who, world: &World, request: &Request) -> Course {
        let plan = &world.plan;
        let near = state.members[who.0].near;
        let half = if near { plan.rtt / 20 } else { plan.rtt / 2 };
        let mut course = Course {
            there: half.mul_f64(0.5 + state.rng.f64()),
            back: half.mul_f64(0.5 + state.rng.f64()),
            again: None,
            applied: true,
            answer: Answered::Truly,
            spoiled: None,
            page_limit: state.rng.usize(1..=plan.page_max),
            undeleted: false,
            counted: state.faults,
        };
        if !state.faults {
            return course;
        }
        let phase = plan.phases.iter().find(|phase| now() < phase.until);
        let longer = phase.map(|phase| phase.longer(request)).unwrap_or_default();
        course.there += longer / 2;
        course.back += longer / 2;
        if plan.steady {
            course.lose_one(state, who, plan.longest_validity().mul_f64(1.25));
            return course;
        }
        let (network, validity) = (&plan.network, plan.longest_validity());
        if state.chance(network.tail) {
            course.there += state.tail(validity);
            state.count("slow requests");
        }
        if state.chance(network.tail) {
            course.back += state.tail(validity);
            state.count("slow answers");
        }
        if state.chance(network.late) {
            course.there += validity / 5 + state.part(validity * 4);
            state.count("requests applied late");
        }
        if state.chance(network.twice) && !matches!(request, Request::Get { .. }) {
            course.again = Some(state.part(validity * plan.repeats_within()));
            state.count("requests applied twice");
        }
        let no = |course: &mut Course, answer| {
            (course.applied, course.again, course.answer) = (false, None, answer);
        };
        if state.chance(network.request_lost) {
            no(&mut course, Answered::Never);
            state.count("requests lost");
        } else if state.chance(network.conflict) && request.is_write() {
            no(&mut course, Answered::With("409 conflict", Determinacy::Indeterminate));
            state.count("409");
        } else if state.chance(network.unavailable_before) {
            no(&mut course, Answered::With("503 slow down", Determinacy::Determinate));
            state.count("503");
        } else if state.chance(network.unavailable_after) {
            course.answer = Answered::With("503 after the write", Determinacy::Indeterminate);
            state.count("503 after taking effect");
        } else if state.chance(network.answer_lost) {
            course.answer = Answered::Never;
            state.count("answers lost");
        } else if state.chance(network.cut) {
            course.answer = Answered::With("connection cut", Determinacy::Indeterminate);
            state.count("connections cut");
        }
        match state.members[who.0].outage {
            None => {}
            Some(Outage::RequestsLost) => no(&mut course, Answered::Never),
            Some(Outage::AnswersLost) => course.answer = Answered::Never,
            Some(Outage::Unavailable) => {
                no(&mut course, Answered::With("503 slow down", Determinacy::Determinate));
            }
        }
        course.undeleted = state.chance(network.conflict);
        let reached = state.members[who.0].outage.is_none();
        let written = match request {
            Request::Create { key, .. } | Request::Replace { key, .. } => Some(key),
            _ => None,
        };
        // The write faults do not affect the store check, because the check rejects a store that
        // refuses a write without a reason.
        let spoils = reached && written.is_some_and(|key| !key.contains(".tenure-check-"));
        if spoils && network.spoiled > 0.0 && state.chance(network.spoiled) {
            let fault = WRITE_FAULTS[state.rng.usize(..WRITE_FAULTS.len())];
            course.spoiled = Some(WriteCourse::of(fault));
            state.count("writes spoiled");
        }
        course
    }

    /// Sometimes loses the answer, or the request and the answer. The time between two losses for
    /// the same process is at least `apart`.
    fn lose_one(&mut self, state: &mut State, who: Who, apart: Duration) {
        let last = state.members[who.0].lost_at;
        if last.is_some_and(|at| now() - at < apart) || !state.chance(0.15) {
            return;
        }
        state.members[who.0].lost_at = Some(now());
        self.answer = Answered::Never;
        self.applied = state.rng.f64() < 0.8;
        state.count("answers lost in steady runs");
    }
}
