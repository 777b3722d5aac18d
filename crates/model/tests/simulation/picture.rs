//! Draws a failure: the times at which each process believes that it leads, up to the violation.

use std::path::PathBuf;
use std::time::Duration;

use tenure_history::drawing::{Drawing, Interval, Mark, Note};

use super::Outcome;
use super::checkers::Lead;
use super::world::State;

/// The drawing starts this long before the violation.
const SHOWN: Duration = Duration::from_secs(120);

/// Draws a lane for each process. A lane shows the time from each grant until the process no longer
/// believes that it leads.
pub fn of_failure(seed: u64, state: &State) -> Option<Drawing> {
    let violation = state.violation.as_ref()?;
    let at = violation.at;
    let since = at.saturating_sub(SHOWN);
    let shown = |lead: &&Lead| lead.over.unwrap_or(at) >= since;
    let interval = |lead: &Lead| {
        let (label, epoch) = (state.members[lead.who.0].label.as_str(), lead.epoch.to_string());
        let (from, until) = (lead.began.max(since), lead.over.unwrap_or(at).min(at));
        let tip = format!(
            "{label}, epoch {epoch}, from {:?} until {:?}: {}",
            lead.began,
            lead.over.unwrap_or(at),
            if lead.over.is_none() { "still leads" } else { lead.outcome }
        );
        Interval::new(label, epoch, from, until, mark(lead)).tip(tip)
    };
    let mut drawing = Drawing::new(format!("Seed {seed}: {} violated", violation.checker));
    drawing.subtitle.clone_from(&violation.what);
    drawing.intervals = state.book.leads.iter().filter(shown).map(interval).collect();
    drawing.find_bands();
    drawing.notes.push(Note::new(at, violation.checker));
    Some(drawing)
}

fn mark(lead: &Lead) -> Mark {
    match (lead.over, lead.outcome) {
        (None, _) => Mark::GoesOn,
        (_, "resigned" | "ran" | "dropped") => Mark::Resigned,
        (_, "crashed") => Mark::Crashed,
        _ => Mark::Lost,
    }
}

/// Writes the drawing of a failure to Cargo's directory for test files, and returns the path.
pub fn save(outcome: &Outcome) -> PathBuf {
    let layout = format!("{:?}", outcome.plan.layout).to_lowercase();
    let name = format!("simulation-{layout}-seed-{}.svg", outcome.plan.seed);
    let path = PathBuf::from(env!("CARGO_TARGET_TMPDIR")).join(name);
    let drawing = outcome.drawing.as_ref().expect("a failure is drawn");
    std::fs::write(&path, drawing.svg()).expect("the target directory can be written");
    path
}
