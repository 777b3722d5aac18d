//! An observer never sees a leader with a lower epoch than an earlier leader, or with an epoch that
//! does not exist.

use std::collections::BTreeMap;

use super::{Checker, Event, View};
use crate::sim::world::Who;

#[derive(Debug, Default)]
pub struct NeverBack {
    greatest: BTreeMap<(Who, &'static str), u64>,
}

impl Checker for NeverBack {
    fn name(&self) -> &'static str {
        "observer"
    }

    fn see(&mut self, event: &Event<'_>, view: &View<'_>) -> Result<(), String> {
        let Event::Observed { who: process, by, epoch } = event else { return Ok(()) };
        // The newest epoch is never deleted. So an epoch greater than the newest existing epoch was
        // never created.
        if view.bucket.newest() < Some(*epoch) {
            return Err(format!("{process} saw a leader of epoch {epoch}, which does not exist"));
        }
        match self.greatest.insert((*process, by), *epoch) {
            Some(last) if last > *epoch => Err(format!(
                "{process} saw a leader of epoch {last}, then a leader of epoch {epoch}"
            )),
            _ => Ok(()),
        }
    }
}
