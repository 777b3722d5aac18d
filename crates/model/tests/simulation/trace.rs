//! The timeline of a run, line by line. A failure prints it, and the determinism test compares it.

use std::fmt::Write as _;
use std::time::Duration;

/// A timeline. It is off by default, because writing the lines takes longer than the simulation.
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
