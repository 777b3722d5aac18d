//! Shows the progress of long work as lines on stderr, if stderr is a terminal.

use std::io::{self, IsTerminal as _};
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tenure::Process;

use super::logs::complain;

/// Reports the progress of one piece of work, at most once a second.
#[derive(Debug)]
pub struct Progress {
    what: &'static str,
    is_shown: bool,
    /// Time on the boot clock at which the work began.
    began: Duration,
    /// Time from the beginning of the work to the last line that was shown, in seconds.
    shown: AtomicU64,
}

impl Progress {
    /// Starts to report the progress of the work `what`. Shows no line in the first second.
    pub fn of(what: &'static str) -> Progress {
        let is_shown = io::stderr().is_terminal();
        Progress { what, is_shown, began: Process::system().now().boot, shown: AtomicU64::new(0) }
    }

    /// Reports the number of finished steps, such as `tenure: reading epochs: 12 of 40, 3 s`.
    pub fn at(&self, done: u64, of: u64) {
        self.say(&format!("{done} of {of}"));
    }

    /// Reports the state of work whose end is unknown, unless a line was already shown in this
    /// second.
    pub fn say(&self, state: &str) {
        let seconds = Process::system().now().boot.saturating_sub(self.began).as_secs();
        if self.is_shown && self.shown.fetch_max(seconds, Ordering::Relaxed) < seconds {
            complain(&format!("{}: {state}, {seconds} s", self.what));
        }
    }

    /// Reports an event, even if a line was already shown in this second.
    pub fn note(&self, event: &str) {
        if self.is_shown {
            complain(&format!("{}: {event}", self.what));
        }
    }
}
