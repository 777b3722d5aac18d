//! Walks by seed, and the calm after one.

use super::checks::{Checked, Reached};
use super::{Setting, World};
use crate::protocol::candidate::Input;
use crate::protocol::message::{Answer, Step, Wait};

pub(super) fn walk(seed: u64, setting: Setting, steps: usize, trace: bool) -> (World, Checked) {
    let mut world = World::new(seed, setting, trace);
    for _ in 0..steps {
        let checked = world.step();
        if checked.is_err() {
            return (world, checked);
        }
    }
    (world, Ok(()))
}

/// Walks once more with a trace, for the reader of a failure.
pub(super) fn explain(seed: u64, setting: Setting, steps: usize) -> String {
    let (world, checked) = walk(seed, setting, steps, true);
    let trace = world.trace.unwrap_or_default();
    let last = trace[trace.len().saturating_sub(120)..].join("\n");
    format!("seed {seed}, {setting:?}: {checked:?}\n{last}")
}

/// What the walks of these seeds reached; panics with a trace at the first violation.
pub(super) fn walks(seeds: std::ops::Range<u64>, setting: Setting, steps: usize) -> Reached {
    seeds.fold(Reached::default(), |reached, seed| {
        let (world, checked) = walk(seed, setting, steps, false);
        assert!(checked.is_ok(), "{}", explain(seed, setting, steps));
        reached.or(world.checks.seen)
    })
}

impl World {
    /// Everything under way arrives, leaders are gone, and from now on every request is answered at
    /// once. Returns how many rounds it takes until somebody is elected.
    pub(super) fn settle(&mut self) -> Option<usize> {
        for message in std::mem::take(&mut self.messages) {
            let _ = self.apply(&message);
        }
        self.replies.clear();
        for who in 0..self.processes.len() {
            self.processes[who].asleep_until = 0;
            if self.processes[who].leads.is_some() {
                self.crash(who);
            } else if self.processes[who].asked.is_some() {
                self.answer(who, Answer::Unknown).ok()?;
            }
        }
        let grants = self.checks.seen.grants;
        for round in 0..100 {
            for who in 0..self.processes.len() {
                self.fair_act(who).ok()?;
                if self.checks.seen.grants > grants {
                    return Some(round);
                }
            }
        }
        None
    }

    fn fair_act(&mut self, who: usize) -> Checked {
        match self.processes[who].machine.step() {
            Step::Request(request) => {
                self.asks(who, request)?;
                let message = self.messages.pop().expect("it was just sent");
                let pending = self.apply(&message)?.expect("its create is a first one");
                self.deliver(pending)
            }
            Step::Wait(Wait::Follow | Wait::Deposed) => self.tell(who, Input::Lapsed),
            _ => self.acts(who),
        }
    }
}
