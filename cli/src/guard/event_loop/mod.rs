//! The guard: the parent of CMD and of every orphan among its descendants. The guard ends all these
//! processes before the lease ends, even if `tenure` is suspended or dead.
//!
//! The guard runs no async code, because its event loop must depend on as little code as possible.

mod args;
mod events;
mod killing;
#[cfg(test)]
mod tests;

use std::collections::HashSet;
use std::fs::File;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::sync::mpsc::{self, Receiver};
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use nix::unistd::Pid;
use tenure::{Moment, Process};

use super::Say;
use super::alarm::Alarm;
use super::deadlines::{DeadlineTimer, Deadlines, Due, LOOK_AT_LEAST_EVERY};
use super::descendants::{ADOPTS, KillPace, adopt_orphans};
use super::epoch_file::{EpochFile, Removal};
use super::hook::{Hook, RunningHook};
use super::messages::{GuardOrder, GuardReport};
use super::process_group::GroupId;
use super::resignation::Resignation;
use super::tenure_binary::Tenure;
use crate::output::print::in_ms;
use crate::output::stderr;
pub use args::GuardArgs;
use events::{GuardEvent, read_orders, reap_children};

/// The interval between searches for new orphans while the descendants of CMD get SIGTERM. The
/// guard must search, because the kernel does not report which orphans the guard has adopted.
const LOOK_FOR_ORPHANS_EVERY: Duration = Duration::from_millis(100);
/// The longest wait for the death of `tenure` after the end of CMD. One signal may end both CMD and
/// `tenure`, and the guard may see the end of CMD first.
const UNTIL_ITS_DEATH_SHOWS: Duration = Duration::from_secs(1);
/// The exit code of CMD if the system cannot start a process for it: EX_OSERR of sysexits.h.
const CANNOT_START: i32 = 71;

/// Starts CMD when `tenure` orders it. Returns after all descendants have ended.
///
/// If the pipe with the orders ends, `tenure` has died, and CMD gets SIGTERM.
pub fn run(tenure: &Tenure, args: &GuardArgs, say: Say) -> io::Result<()> {
    // After this call, only SIGKILL ends the guard, because all other signals are blocked. Signal
    // handlers are not used, because they have races.
    SigSet::all().thread_block()?;
    adopt_orphans()?;
    let (orders, reports) = args.pipes.open()?;
    let (events, received) = mpsc::channel();
    read_orders(orders, events.clone())?;
    let Ok(GuardEvent::Order(GuardOrder::Watch(deadlines))) = received.recv() else {
        return Ok(());
    };
    report(&reports, GuardReport::Watching);
    let mut next = received.recv();
    let (mut resignation, mut on_elected) = (None, None);
    loop {
        match next {
            Ok(GuardEvent::Order(GuardOrder::Resign(told))) => resignation = Some(*told),
            Ok(GuardEvent::Order(GuardOrder::OnElected(hook))) => on_elected = Some(*hook),
            _ => break,
        }
        next = received.recv();
    }
    let started = matches!(next, Ok(GuardEvent::Order(GuardOrder::Start)));
    let mut guard = Guard::new(args, deadlines, reports, say);
    (guard.resignation, guard.died) = (resignation, matches!(next, Ok(GuardEvent::HungUp)));
    if started && guard.start(tenure, args, on_elected.as_ref(), EpochFile::write) {
        reap_children(events.clone())?;
        guard.watch(&received);
        guard.wait_for_the_death_of_tenure(&received);
    }
    // The guard may resign in both cases: after the end of CMD, and if CMD was not started.
    guard.resign(tenure);
    Ok(())
}

struct Guard<S> {
    /// Epoch that the guard resigns after `tenure` has died and no process of CMD is left.
    resignation: Option<Resignation>,
    epoch_file: Option<EpochFile>,
    /// The removal of the epoch file. `None` before it starts.
    removal: Option<Removal>,
    hook: Option<RunningHook>,
    /// Kills this guard if it is suspended (SIGSTOP) and misses the deadline for SIGKILL.
    alarm: Alarm,
    /// Deadline for SIGKILL under the last lease that `tenure` has reported.
    kill_at: Moment,
    /// True after the death of `tenure`.
    died: bool,
    timer: DeadlineTimer,
    reports: File,
    say: S,
    group: Option<GroupId>,
    /// Orphans outside the process group of CMD that have got SIGTERM from the guard.
    terminated: HashSet<Pid>,
    /// True after the group of CMD got a signal that asks CMD to end. SIGHUP does not count: many
    /// daemons reload their settings at SIGHUP.
    asked: bool,
    /// True after the order `EndRest`. Descendants of CMD then get SIGTERM.
    ending: bool,
    hung_up: bool,
    /// Signals that the guard has to forward to CMD. A signal that several orders request is listed
    /// once.
    signals: Vec<Signal>,
    /// Number of `Signal` orders that requested the signals in `signals`.
    signal_orders: u32,
    killed: bool,
    pace: KillPace,
    childless: bool,
}

impl<S: Fn(&'static str, &str)> Guard<S> {
    fn new(args: &GuardArgs, deadlines: Deadlines, reports: File, say: S) -> Guard<S> {
        Guard {
            resignation: None,
            epoch_file: args.epoch_file.clone(),
            removal: None,
            hook: None,
            alarm: Alarm::new(args.kill_margin_ms.map(Duration::from_millis)),
            kill_at: deadlines.kill_at,
            died: false,
            timer: DeadlineTimer::new(deadlines),
            reports,
            say,
            group: None,
            terminated: HashSet::new(),
            asked: false,
            ending: false,
            hung_up: false,
            signals: Vec::new(),
            signal_orders: 0,
            killed: false,
            pace: KillPace::default(),
            childless: false,
        }
    }

    /// Starts CMD, unless its lease has ended. Returns whether CMD was started. `write` writes the
    /// epoch file.
    fn start(
        &mut self,
        tenure: &Tenure,
        args: &GuardArgs,
        hook: Option<&Hook>,
        write: impl FnOnce(&EpochFile) -> io::Result<()>,
    ) -> bool {
        let written = self.epoch_file.as_ref().map_or(Ok(()), write);
        // The deadline is checked after the write of the epoch file, because the disk may hang
        // until the lease has ended.
        if self.timer.due(Process::system().now()) == Some(Due::Kill) {
            self.report(GuardReport::TooLate);
            self.remove_epoch_file();
            self.gone();
            return false;
        }
        self.set_alarm();
        let parent = ["--parent".to_owned(), std::process::id().to_string()];
        let gate = written
            .map_err(|error| io::Error::new(error.kind(), format!("--epoch-file: {error}")))
            .and_then(|()| {
                tenure.command("__gate", &parent, &args.command).process_group(0).spawn()
            });
        match gate.and_then(|gate| GroupId::of(&gate)) {
            Ok(id) => {
                self.group = Some(id);
                self.report(GuardReport::Started(id));
                match hook.map(|hook| hook.start(tenure, &parent)).transpose() {
                    Ok(hook) => self.hook = hook,
                    Err(_) => self.report(GuardReport::HookEnded(CANNOT_START << 8)),
                }
                true
            }
            Err(error) => {
                (self.say)("failed", &format!("cannot start a process for CMD: {error}"));
                // `tenure` may kill this process after the report `Gone`, so the message is flushed
                // first.
                stderr::flush();
                self.report(GuardReport::Ended(CANNOT_START << 8));
                self.remove_epoch_file();
                self.gone();
                false
            }
        }
    }

    /// Handles events and deadlines until no descendant of CMD is left.
    fn watch(&mut self, events: &Receiver<GuardEvent>) {
        let mut answer = false;
        loop {
            let pause = self.look();
            // The guard answers only after it has checked the deadlines. So if an order contains
            // deadlines in the past, CMD gets the signals before `tenure` gets the answer.
            if std::mem::take(&mut answer) {
                self.report(GuardReport::Watching);
            }
            if self.is_gone() {
                break;
            }
            self.pass_signals_on();
            let mut event = events.recv_timeout(pause).ok();
            while let Some(one) = event {
                answer |= matches!(one, GuardEvent::Order(GuardOrder::Lease(_)));
                self.handle(one);
                event = events.try_recv().ok();
            }
        }
        self.remove_epoch_file();
        self.gone();
        if self.hung_up {
            (self.say)("gone", "all processes of CMD have ended");
        }
    }

    /// Removes the epoch file. CMD has ended or must end, so readers of the file must not act for
    /// the epoch any more.
    fn remove_epoch_file(&mut self) {
        if self.removal.is_none() {
            self.removal = self.epoch_file.as_ref().map(EpochFile::remove);
        }
    }

    fn set_alarm(&mut self) {
        if !self.childless {
            self.alarm.set(self.timer.kill_at(), Process::system().now());
        }
    }

    /// Reports to `tenure` that no descendant of CMD is left.
    fn gone(&mut self) {
        self.alarm.clear();
        // `tenure` may resign the epoch after this report, so the epoch file must be removed before
        // the report.
        self.removal.take().into_iter().for_each(Removal::wait);
        self.report(GuardReport::Gone);
    }

    /// Handles an event. This function must be fast, because any number of events may be handled
    /// before the next check of the deadlines.
    fn handle(&mut self, event: GuardEvent) {
        match event {
            GuardEvent::Order(GuardOrder::Lease(deadlines)) if !self.hung_up => {
                if deadlines != Deadlines::long_past() {
                    self.kill_at = deadlines.kill_at;
                }
                self.timer.set(deadlines);
                self.set_alarm();
            }
            GuardEvent::Order(GuardOrder::Signal(signal)) => {
                self.signal_orders = self.signal_orders.saturating_add(1);
                // A signal that is already in the list is not added again. In the same way, the
                // kernel delivers a pending signal only once.
                if !self.signals.contains(&signal) {
                    self.signals.push(signal);
                }
            }
            GuardEvent::Order(GuardOrder::EndRest) => self.ending = true,
            GuardEvent::Reaped(pid, status) => {
                self.terminated.remove(&pid);
                if self.group.is_some_and(|group| group.leader() == pid) {
                    self.report(GuardReport::Ended(status));
                    self.remove_epoch_file();
                }
                if self.hook.as_ref().is_some_and(|hook| hook.leader() == pid) {
                    self.hook = None;
                    self.report(GuardReport::HookEnded(status));
                }
            }
            GuardEvent::Childless => self.childless = true,
            GuardEvent::HungUp => {
                // `hung_up` is already true after a garbled line or the order `Leave`. Then the end
                // of the pipe does not mean that `tenure` has died.
                self.died = !self.hung_up;
                self.hang_up();
            }
            // Any other order is unexpected here, such as a second `Start`, and counts as garbled.
            GuardEvent::Garbled | GuardEvent::Order(_) => self.hang_up(),
        }
    }

    /// Waits until `tenure` has died, or until a time limit. If `tenure` is alive, it kills this
    /// process during the wait, because no descendant is left.
    fn wait_for_the_death_of_tenure(&mut self, events: &Receiver<GuardEvent>) {
        while self.resignation.is_some() && !self.hung_up {
            match events.recv_timeout(UNTIL_ITS_DEATH_SHOWS) {
                Ok(event) => self.handle(event),
                Err(_) => return,
            }
        }
    }

    /// Resigns the epoch if `tenure` has died. Called when no descendant is left. On systems
    /// without subreapers, does not resign, because descendants may be left.
    fn resign(&mut self, tenure: &Tenure) {
        if let Some(resignation) = self.resignation.take().filter(|_| self.died && ADOPTS) {
            resignation.carry_out(tenure, self.kill_at, &self.say);
        }
    }

    /// Forwards the ordered signals. Called only after the check of the deadlines, because the
    /// search for the processes of CMD takes time.
    fn pass_signals_on(&mut self) {
        if self.signal_orders == 0 {
            return;
        }
        let living = self.living();
        for signal in std::mem::take(&mut self.signals) {
            self.asked |= signal != Signal::SIGHUP;
            self.signal_group(signal, &living);
        }
        let orders = std::mem::take(&mut self.signal_orders);
        self.report(GuardReport::Signalled(orders));
    }

    fn is_gone(&self) -> bool {
        self.childless && (ADOPTS || !self.group.is_some_and(GroupId::exists))
    }

    /// Sends the signals that are due at the deadlines. Returns the time until the next check.
    fn look(&mut self) -> Duration {
        if self.is_gone() {
            return LOOK_AT_LEAST_EVERY;
        }
        let now = Process::system().now();
        match self.timer.due(now) {
            Some(Due::Kill) => return self.kill(),
            Some(Due::Term) => {
                self.remove_epoch_file();
                // If the lease was renewed after an earlier SIGTERM, each process gets SIGTERM
                // again. After the death of `tenure` or the end of CMD, no renewal follows, so no
                // process gets SIGTERM twice.
                if !self.hung_up && !self.ending {
                    self.terminated.clear();
                    self.asked = false;
                }
                self.ask_to_end();
                self.report(GuardReport::Terminated);
            }
            None => {}
        }
        let pause = self.timer.next_look(now).min(self.look_at_hook(now));
        if self.ending {
            self.ask_to_end();
        } else if self.timer.is_at_risk() {
            self.ask_orphans_to_end(&self.living());
        } else {
            return pause;
        }
        pause.min(LOOK_FOR_ORPHANS_EVERY)
    }

    /// Kills the hook if its time limit has passed. Returns the time until the next check.
    fn look_at_hook(&self, now: Moment) -> Duration {
        let Some(hook) = &self.hook else { return LOOK_AT_LEAST_EVERY };
        let left = hook.until_kill(now);
        if !left.is_zero() {
            return left;
        }
        hook.kill(&self.living());
        LOOK_FOR_ORPHANS_EVERY
    }

    /// Ends CMD, because the guard gets no further orders. CMD gets SIGTERM now, and SIGKILL after
    /// the grace or at the deadline, whichever is earlier.
    fn hang_up(&mut self) {
        if std::mem::replace(&mut self.hung_up, true) {
            return;
        }
        self.remove_epoch_file();
        let now = Process::system().now();
        // The alarm is not moved forward: it could kill a guard that is only slow.
        self.timer.end_now(now);
        let left = in_ms(self.timer.until_kill(now));
        self.look();
        if !self.killed {
            (self.say)(
                "terminated",
                &format!("tenure has died: CMD gets SIGTERM now, and SIGKILL in {left}"),
            );
        }
    }

    fn report(&self, message: GuardReport) {
        report(&self.reports, message);
    }
}

/// Writes a report. The pipe never fills, because each order causes about one report. A write error
/// is ignored: the write fails only after the death of `tenure`, and the guard notices this death
/// by the end of the pipe of orders.
fn report(mut to: &File, message: GuardReport) {
    let _ = to.write_all(format!("{message}\n").as_bytes());
}
