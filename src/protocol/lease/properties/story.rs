//! What a leader, an observer and an operator do, with clocks that run at rates of their own.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::protocol::message::Seen;

/// By how much chrony slews a clock at most, by default (`maxslewrate`).
const SLEW_PPM: i64 = 83_333;
/// An answer that has travelled for less is not seen by clocks that tell whole nanoseconds.
const LEAST_LATENCY: u64 = 4;

pub(super) fn sighting(heartbeat: u64, ended: Option<EpochEnd>) -> Sighting {
    let seen = Seen { nonce: Some(Nonce::from_bits(7)), heartbeat, ended, reclaimable: false };
    let etag = ETag::new(format!("{heartbeat} {ended:?}"));
    Sighting { epoch: Epoch::FIRST, etag, seen }
}

/// Clocks that start anywhere; they show whole nanoseconds. The raw one runs at the machine's own
/// rate, and a clock daemon slews the two others.
#[derive(Debug, Clone, Copy)]
struct Rate {
    ppm: u64,
    slewed_ppm: u64,
    offset: u64,
}

impl Rate {
    /// What it shows at a real time.
    fn at(self, real: u64) -> Moment {
        let slewed = self.show(real, self.slewed_ppm);
        Moment { boot: slewed, raw: self.show(real, self.ppm), wall: slewed }
    }

    fn show(self, real: u64, ppm: u64) -> Duration {
        let run = u128::from(real) * u128::from(ppm) / PPM;
        Duration::from_nanos(self.offset + u64::try_from(run).expect("a short test"))
    }

    /// Returns the first real time at which either clock has advanced by `by` since `from`.
    fn either_after(self, from: u64, by: Duration) -> u64 {
        self.after(from, by, self.ppm).min(self.after(from, by, self.slewed_ppm))
    }

    /// Returns the first real time at which both clocks have advanced by `by` since `from`.
    fn both_after(self, from: u64, by: Duration) -> u64 {
        self.after(from, by, self.ppm).max(self.after(from, by, self.slewed_ppm))
    }

    fn after(self, from: u64, by: Duration, ppm: u64) -> u64 {
        let target = self.show(from, ppm) + by - Duration::from_nanos(self.offset);
        let real = (target.as_nanos() * PPM).div_ceil(u128::from(ppm));
        u64::try_from(real).expect("a short test").max(from)
    }
}

/// What a leader, an observer and an operator do, in parts of 1,000,000 of the validity.
#[derive(Debug, Clone)]
pub(super) struct Story {
    validity_ms: u64,
    leader: Rate,
    observer: Rate,
    drift: Drift,
    /// Writes that took effect: the pause before each, the way to the store and the way back.
    writes: Vec<(u32, u32, u32)>,
    /// Polls: the pause before each, the way to the store and the way back.
    polls: Vec<(u32, u32, u32)>,
    /// The way of the observer's own write.
    acting: u32,
    /// After which write an operator deposes the leader, and how long after it.
    deposed: Option<(usize, u32)>,
}

pub(super) fn story(beyond_the_drift: bool) -> impl Strategy<Value = Story> {
    // Short ways leave the least room.
    let way = prop_oneof![Just(0), 0..1_000_u32, 0..400_000_u32];
    let rates = (500_000..2_000_000_u64, 0..=MAX_DRIFT_PPM, 0..=1_000_000_u64);
    let rates = rates.prop_map(move |(leader, drift, share)| {
        // Up to the drift faster than the leader's clock, or slower; the edge is drawn often.
        let fastest = leader * (1_000_000 + u64::from(drift)) / 1_000_000;
        let observer = match share {
            _ if beyond_the_drift => fastest + fastest / 10,
            0..500_000 => fastest,
            share => 400_000 + (fastest - 400_000) * share / 1_000_000,
        };
        (leader, observer, Drift::from_ppm(drift))
    });
    let offsets = (0..1_u64 << 60, 0..1_u64 << 60);
    let writes = vec((0..1_000_000_u32, way.clone(), way.clone()), 1..8);
    let polls = vec((0..600_000_u32, way.clone(), way.clone()), 1..12);
    let deposed = prop::option::of((0..8_usize, 0..1_000_000_u32));
    let slew = || prop_oneof![Just(0), -SLEW_PPM..=SLEW_PPM, Just(-SLEW_PPM), Just(SLEW_PPM)];
    let clocks = (rates, (slew(), slew()), offsets);
    (1..=60_000_u64, clocks, writes, polls, way, deposed).prop_map(
        |(validity_ms, (rates, slews, offsets), writes, polls, acting, deposed)| {
            let (leader, observer, drift) = rates;
            Story {
                validity_ms,
                leader: Rate {
                    ppm: leader,
                    slewed_ppm: slewed(leader, slews.0),
                    offset: offsets.0,
                },
                observer: Rate {
                    ppm: observer,
                    slewed_ppm: slewed(observer, slews.1),
                    offset: offsets.1,
                },
                drift,
                writes,
                polls,
                acting,
                deposed,
            }
        },
    )
}

/// The first of these numbers from which on it holds.
fn first(mut from: u64, mut to: u64, holds: impl Fn(u64) -> bool) -> u64 {
    while from < to {
        let middle = from + (to - from) / 2;
        if holds(middle) { to = middle } else { from = middle + 1 }
    }
    from
}

fn slewed(ppm: u64, by: i64) -> u64 {
    (ppm * (1_000_000 + by).unsigned_abs()) / 1_000_000
}

/// Where an implementation can go wrong: each must be seen as an overlap.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    No,
    /// The observer's timer starts when the request was sent.
    TimerFromSending,
    /// The lease counts from the answer.
    LeaseFromAnswer,
    /// The observer goes by its boot clock alone.
    SlewedTimer,
    /// The leader goes by its boot and wall clocks alone.
    SlewedLease,
}

/// What the store holds from a real time on.
#[derive(Debug, Clone)]
struct StoryWrite {
    sent: u64,
    answered: u64,
    sighting: Sighting,
}

impl Story {
    fn nanos(&self, parts: u32) -> u64 {
        self.validity_ms * u64::from(parts)
    }

    fn validity(&self) -> Duration {
        Duration::from_millis(self.validity_ms)
    }

    /// The writes by the time at which they took effect; all but the last are the leader's.
    fn history(&self) -> BTreeMap<u64, StoryWrite> {
        let mut history = BTreeMap::new();
        let (mut now, mut last_sent) = (0, 0);
        for (index, (pause, way, back)) in self.writes.iter().enumerate() {
            let sent = now + self.nanos(*pause);
            if index > 0 && sent >= self.leader.either_after(last_sent, self.validity()) {
                // At the end of its lease the leader sends nothing any more.
                break;
            }
            let applied = sent + self.nanos(*way) + LEAST_LATENCY;
            let answered = applied + self.nanos(*back) + LEAST_LATENCY;
            let heartbeat = index as u64 + 1;
            let written = sighting(heartbeat, None);
            history.insert(applied, StoryWrite { sent, answered, sighting: written });
            (now, last_sent) = (answered, sent);
            if let Some((_, pause)) = self.deposed.filter(|(after, _)| *after == index) {
                let at = applied + self.nanos(pause) + 1;
                let seal = sighting(heartbeat + 1, Some(EpochEnd::Deposed));
                history.insert(at, StoryWrite { sent: at, answered: at, sighting: seal });
                break;
            }
        }
        history
    }

    /// By how much the leader believes in its lease past the moment at which the observer acts; 0
    /// if it does not, or if the observer never acts.
    pub(super) fn overlap(&self, broken: Broken) -> (bool, Duration) {
        let history = self.history();
        let held = |at: u64| history.range(..=at).next_back().map(|(_, written)| written);
        let mut timer = None;
        let mut seen = None;
        let mut now = *history.keys().next().expect("there is one write at least");
        for index in 0..=self.polls.len() {
            // The last poll is followed by silence.
            let poll = self.polls.get(index);
            let next = poll.map_or(u64::MAX, |(pause, ..)| now + self.nanos(*pause));
            if let Some(acted) = self.lapse(timer.as_deref(), now, next, broken) {
                let timer: &LapseTimer = timer.as_deref().expect("it has lapsed");
                let deposed = timer.sealed.is_some();
                let acted = if deposed { acted } else { acted + self.nanos(self.acting) };
                let held = held(acted).map(|held| &held.sighting.etag);
                let unchanged = held.is_some() && held == seen;
                // The seal has the last ETag seen as its condition; a deposed epoch is simply
                // succeeded.
                if deposed || unchanged {
                    return (true, self.belief(&history, acted, broken));
                }
            }
            let Some((_, way, back)) = poll else { break };
            let evaluated = next + self.nanos(*way);
            now = evaluated + self.nanos(*back) + LEAST_LATENCY;
            let Some(written) = held(evaluated) else { continue };
            seen = Some(&written.sighting.etag);
            let received = if broken == Broken::TimerFromSending { next } else { now };
            let reading = Reading {
                sighting: &written.sighting,
                validity: Some(self.validity()),
                last_modified: None,
                store_age: None,
                received: self.observed(received, broken),
            };
            LapseTimer::observe(&mut timer, None, &reading, self.drift);
        }
        (false, Duration::ZERO)
    }

    /// When the timer lapses, if it does before `next`.
    fn lapse(
        &self,
        timer: Option<&LapseTimer>,
        now: u64,
        next: u64,
        broken: Broken,
    ) -> Option<u64> {
        let left = |at| timer?.lapses_in(Duration::ZERO, self.drift, self.observed(at, broken));
        let lapsed = match broken {
            Broken::SlewedTimer => self.observer.after(now, left(now)?, self.observer.slewed_ppm),
            // Both clocks have to pass what is left by the one that says the most, at most.
            _ => {
                let most = self.observer.both_after(now, left(now)?);
                first(now, most, |at| left(at) == Some(Duration::ZERO))
            }
        };
        Some(lapsed).filter(|lapsed| *lapsed < next)
    }

    fn observed(&self, real: u64, broken: Broken) -> Moment {
        let shown = self.observer.at(real);
        match broken {
            Broken::SlewedTimer => Moment { raw: shown.boot, ..shown },
            _ => shown,
        }
    }

    fn led(&self, real: u64, broken: Broken) -> Moment {
        let shown = self.leader.at(real);
        match broken {
            Broken::SlewedLease => Moment { raw: shown.boot, ..shown },
            _ => shown,
        }
    }

    /// What is left, at most, of the lease of the last own write that took effect by `acted`.
    fn belief(&self, history: &BTreeMap<u64, StoryWrite>, acted: u64, broken: Broken) -> Duration {
        let mut lease = OwnLease::new(self.validity());
        let unsealed = |(_, written): &(&u64, &StoryWrite)| written.sighting.seen.ended.is_none();
        let last = history.range(..=acted).rfind(unsealed);
        let (_, written) = last.expect("there was a write before the first poll");
        let from = match broken {
            Broken::LeaseFromAnswer => written.answered,
            _ => written.sent,
        };
        lease.sending(1, self.led(from, broken));
        lease.extended(1);
        lease.remaining(self.led(acted, broken))
    }
}
