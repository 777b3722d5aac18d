//! How far long work is: one line on stderr, if that is a terminal, and nothing otherwise.
//!
//! Work makes one [`Progress`], updates it now and then, and drops it before it prints its result.

use std::io::{self, IsTerminal as _};
use std::time::Duration;

use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};

/// The line; gone when dropped.
#[derive(Debug)]
pub struct Progress(ProgressBar);

/// How often the line moves without an update, so that it does not look dead.
const TICK: Duration = Duration::from_millis(250);

impl Progress {
    /// Of work whose end is not known: `compacting [12s] deleted 3000 of 4000 epochs`.
    pub fn counting(what: &str) -> Progress {
        let bar = ProgressBar::no_length();
        let progress = Progress::new(bar, "{spinner} {prefix} [{elapsed}] {msg}", what);
        progress.0.enable_steady_tick(TICK);
        progress
    }

    /// Of work whose steps are known once it has begun: `probing [####----] 12/40 [3s] delete`.
    pub fn of(what: &str) -> Progress {
        let template = "{prefix} [{bar:30}] {pos}/{len} [{elapsed}] {msg}";
        Progress::new(ProgressBar::new(0), template, what)
    }

    /// What is being done, or how far it is.
    pub fn say(&self, message: &str) {
        self.0.set_message(message.to_owned());
    }

    /// So many of so many steps are done.
    pub fn at(&self, done: u64, of: u64) {
        self.0.set_length(of);
        self.0.set_position(done);
    }

    fn new(bar: ProgressBar, template: &str, what: &str) -> Progress {
        if !io::stderr().is_terminal() {
            bar.set_draw_target(ProgressDrawTarget::hidden());
            return Progress(bar);
        }
        let style = ProgressStyle::with_template(template).expect("the templates above are right");
        let bar = bar.with_style(style.progress_chars("##-")).with_prefix(what.to_owned());
        Progress(bar)
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        self.0.finish_and_clear();
    }
}
