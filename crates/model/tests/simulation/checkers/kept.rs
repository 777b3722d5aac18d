//! A leader of a steady run keeps its leadership and sends few requests. In a steady run, the store
//! answers in time, and few answers are lost. `plan/steady.rs` gives the bounds and their reasons.

use std::collections::{BTreeMap, VecDeque};
use std::time::Duration;

use tenure_model::time::now;

use super::{Checker, Event, View};
use crate::sim::plan::Knobs;
use crate::sim::world::Who;

#[derive(Debug, Default)]
pub struct Leadership {
    sent: BTreeMap<Who, VecDeque<Duration>>,
    proclaimed: BTreeMap<Who, VecDeque<Duration>>,
}

impl Checker for Leadership {
    fn name(&self) -> &'static str {
        "kept"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        match event {
            Event::Lost { lead, outcome }
                if !matches!(*outcome, "resigned" | "dropped" | "ran" | "crashed") =>
            {
                Err(format!(
                    "{} lost epoch {} ({outcome}) although the store answered in time",
                    lead.who, lead.epoch
                ))
            }
            Event::Proclaims { who } => {
                self.proclaimed.entry(*who).or_default().push_back(now());
                Ok(())
            }
            Event::LeaderSends { who } => self.sends(*who, (view.knobs)(*who)),
            _ => Ok(()),
        }
    }
}

impl Leadership {
    fn sends(&mut self, process: Who, knobs: Option<&Knobs>) -> Result<(), String> {
        let Some(knobs) = knobs else { return Ok(()) };
        let since = now().saturating_sub(knobs.shortest_validity());
        let of = |times: &mut VecDeque<Duration>| {
            while times.front().is_some_and(|at| *at < since) {
                times.pop_front();
            }
            times.len()
        };
        let sent = self.sent.entry(process).or_default();
        sent.push_back(now());
        let sent = of(sent);
        // Each call of `proclaim` costs up to two requests: a write, and a LIST if renewals are
        // verified.
        let proclaimed = 2 * self.proclaimed.get_mut(&process).map(of).unwrap_or_default();
        let most = knobs.most_requests() + proclaimed;
        if sent > most {
            return Err(format!(
                "{process} sent {sent} requests as a leader within {:?}, which is more than {most}",
                knobs.shortest_validity()
            ));
        }
        Ok(())
    }
}
