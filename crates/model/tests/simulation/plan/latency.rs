//! Latencies of each kind of request. Each phase has different latencies.

use std::time::Duration;

use fastrand::Rng;

use tenure_model::sim::connection::Request;

/// The additional latency of round trips during a phase.
#[derive(Debug, Clone)]
pub struct Phase {
    pub until: Duration,
    /// Additional latencies of LIST, GET, create and replace requests, in this order.
    pub longer: [Duration; 4],
}

/// Returns phases that last between 0.5 and 8.5 validities. In each phase, the round trips of some
/// kinds of requests take longer, by up to `most`.
pub fn phases(rng: &mut Rng, validity: Duration, most: Duration, length: Duration) -> Vec<Phase> {
    let mut phases = Vec::new();
    let mut until = Duration::ZERO;
    while until < length {
        until += validity.mul_f64(0.5 + 8.0 * rng.f64());
        let longer = std::array::from_fn(|_| match rng.u32(0..5) {
            0 => most,
            1 => most.mul_f64(rng.f64()),
            _ => Duration::ZERO,
        });
        phases.push(Phase { until, longer });
    }
    phases
}

impl Phase {
    pub fn longer(&self, request: &Request) -> Duration {
        let [list, get, create, replace] = self.longer;
        match request {
            Request::List { .. } => list,
            Request::Get { .. } => get,
            Request::Create { .. } => create,
            Request::Replace { .. } => replace,
            Request::Delete { .. } => Duration::ZERO,
        }
    }
}
