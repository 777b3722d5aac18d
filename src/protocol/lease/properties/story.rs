//! Random stories of a leader, an observer and an operator. Their clocks run at different rates.

use std::collections::BTreeMap;

use proptest::collection::vec;
use proptest::prelude::*;

use super::*;
use crate::protocol::message::Seen;

/// The greatest change, in ppm, that chrony makes to the rate of a clock by default
/// (`maxslewrate`).
const SLEW_PPM: i64 = 83_333;
/// The least latency, in nanoseconds. Clocks with whole nanoseconds cannot measure a lower latency.
const LEAST_LATENCY: u64 = 4;

pub(super) fn sighting(heartbeat: u64, ended: Option<EpochEnd>) -> Sighting {
    let seen = Seen { nonce: Some(Nonce::from_bits(7)), heartbeat, ended, reclaimable: false };
    let etag = ETag::new(format!("{heartbeat} {ended:?}"));
    Sighting { epoch: Epoch::FIRST, etag, seen }
}

/// The clocks of one machine, in whole nanoseconds. The raw clock runs at the rate `ppm`. The boot
/// clock and the wall clock run at `slewed_ppm`, because a clock daemon slews them.
#[derive(Debug, Clone, Copy)]
struct Rate {
    ppm: u64,
    slewed_ppm: u64,
    offset: u64,
}

impl Rate {
    /// Returns the readings of this machine's clocks at the real time `real`.
    fn at(self, real: u64) -> Moment {
        let slewed = self.show(real, self.slewed_ppm);
        Moment { boot: slewed, raw: self.show(real, self.ppm), wall: slewed }
    }

    fn show(self, real: u64, ppm: u64) -> Duration {
        let run = u128::from(real) * u128::from(ppm) / PPM;
        Duration::from_nanos(
            self.offset + u64::try_from(run).expect("a story is shorter than 2^64 ns"),
        )
    }

    /// Returns the first real time at which the raw clock or the slewed clocks have advanced by
    /// `by` since `from`.
    fn either_after(self, from: u64, by: Duration) -> u64 {
        self.after(from, by, self.ppm).min(self.after(from, by, self.slewed_ppm))
    }

    /// Returns the first real time at which the raw clock and the slewed clocks have advanced by
    /// `by` since `from`.
    fn both_after(self, from: u64, by: Duration) -> u64 {
        self.after(from, by, self.ppm).max(self.after(from, by, self.slewed_ppm))
    }

    fn after(self, from: u64, by: Duration, ppm: u64) -> u64 {
        let target = self.show(from, ppm) + by - Duration::from_nanos(self.offset);
        let real = (target.as_nanos() * PPM).div_ceil(u128::from(ppm));
        u64::try_from(real).expect("a story is shorter than 2^64 ns").max(from)
    }
}

/// A random story: the actions of a leader, an observer and an operator. All `u32` durations are in
/// millionths of the validity.
#[derive(Debug, Clone)]
pub(super) struct Story {
    validity_ms: u64,
    leader: Rate,
    observer: Rate,
    drift: Drift,
    /// For each write of the leader: the pause before it, its latency to the store, and the latency
    /// of its answer.
    writes: Vec<(u32, u32, u32)>,
    /// For each poll of the observer: the pause before it, its latency to the store, and the
    /// latency of its answer.
    polls: Vec<(u32, u32, u32)>,
    /// The latency of the observer's own write to the store.
    acting: u32,
    /// The index of the write after which an operator deposes the leader, and the pause between
    /// this write and the deposition.
    deposed: Option<(usize, u32)>,
}

pub(super) fn story(beyond_the_drift: bool) -> impl Strategy<Value = Story> {
    // Short latencies are the hardest case, because the observer's timer then starts soon after the
    // leader's lease.
    let way = prop_oneof![Just(0), 0..1_000_u32, 0..400_000_u32];
    let rates = (500_000..2_000_000_u64, 0..=MAX_DRIFT_PPM, 0..=1_000_000_u64);
    let rates = rates.prop_map(move |(leader, drift, share)| {
        // Unless `beyond_the_drift` is true, the observer's clock runs faster than the leader's
        // clock by at most the drift. In half of these stories, the observer's clock has the
        // greatest rate that the drift allows.
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

/// Returns the least number between `from` and `to` at which `holds` is true. `holds` must be
/// monotone.
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

/// A defect that the test adds to the implementation. With each defect, two leases must overlap in
/// some story.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Broken {
    No,
    /// The observer's timer starts when the observer sends the request.
    TimerFromSending,
    /// The leader's lease starts when the leader receives the answer.
    LeaseFromAnswer,
    /// The observer uses only its boot clock.
    SlewedTimer,
    /// The leader uses only its boot clock and its wall clock.
    SlewedLease,
}

/// A write of the leader or the operator, and the record that the store has after this write.
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

    /// Returns each write with the time at which it took effect. The last write may be the
    /// operator's seal.
    fn history(&self) -> BTreeMap<u64, StoryWrite> {
        let mut history = BTreeMap::new();
        let (mut now, mut last_sent) = (0, 0);
        for (index, (pause, way, back)) in self.writes.iter().enumerate() {
            let sent = now + self.nanos(*pause);
            if index > 0 && sent >= self.leader.either_after(last_sent, self.validity()) {
                // After the end of its lease the leader sends no write.
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

    /// Returns whether the observer takes over, and the remaining time of the leader's lease at
    /// that moment. The time is 0 if the observer never takes over.
    pub(super) fn overlap(&self, broken: Broken) -> (bool, Duration) {
        let history = self.history();
        let held = |at: u64| history.range(..=at).next_back().map(|(_, written)| written);
        let mut timer = None;
        let mut seen = None;
        let mut now = *history.keys().next().expect("a story has at least one write");
        for index in 0..=self.polls.len() {
            // After its last poll, the observer waits until the lapse, however long this takes.
            let poll = self.polls.get(index);
            let next = poll.map_or(u64::MAX, |(pause, ..)| now + self.nanos(*pause));
            if let Some(acted) = self.lapse(timer.as_deref(), now, next, broken) {
                let timer: &LapseTimer = timer.as_deref().expect("only a running timer lapses");
                let deposed = timer.sealed.is_some();
                let acted = if deposed { acted } else { acted + self.nanos(self.acting) };
                let held = held(acted).map(|held| &held.sighting.etag);
                let unchanged = held.is_some() && held == seen;
                // The observer's seal takes effect only if the object still has the last ETag that
                // the observer saw. An epoch that the operator has sealed needs no second seal.
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

    /// Returns the time at which the timer lapses, or `None` if the timer does not lapse before
    /// `next`.
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
            // The timer lapses at the latest when the observer's raw clock and boot clock have both
            // advanced by the time left.
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

    /// Returns the remaining time of the leader's lease at `acted`, the time of the takeover. The
    /// lease starts at the leader's last write that took effect before this time.
    fn belief(&self, history: &BTreeMap<u64, StoryWrite>, acted: u64, broken: Broken) -> Duration {
        let mut lease = OwnLease::new(self.validity());
        let unsealed = |(_, written): &(&u64, &StoryWrite)| written.sighting.seen.ended.is_none();
        let last = history.range(..=acted).rfind(unsealed);
        let (_, written) = last.expect("a write precedes the first poll");
        let from = match broken {
            Broken::LeaseFromAnswer => written.answered,
            _ => written.sent,
        };
        lease.sending(1, self.led(from, broken));
        lease.extended(1);
        lease.remaining(self.led(acted, broken))
    }
}
