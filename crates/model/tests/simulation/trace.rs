//! The timeline of a run, line by line. A failed run prints its timeline, and the determinism test
//! compares the timelines of two runs.

use std::fmt::Write as _;
use std::time::Duration;

/// A timeline. By default it records no lines, because the formatting of the lines takes longer
/// than the simulation.
#[derive(Debug, Default)]
pub struct Trace {
    on: bool,
    text: String,
}

impl Trace {
    pub fn new(on: bool) -> Trace {
        Trace { on, text: String::new() }
    }

    pub fn line(&mut self, at: Duration, label: &str, event: &str) {
        if self.on {
            let (seconds, millis) = (at.as_secs(), at.subsec_millis());
            // Writing to a String cannot fail.
            let _ = writeln!(self.text, "{seconds:>5}.{millis:03} {label:<9} {event}");
        }
    }

    pub fn text(&self) -> &str {
        &self.text
    }
}
