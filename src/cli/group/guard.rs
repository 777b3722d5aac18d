//! The guard: a process that ends the group when its lease does, whatever becomes of `tenure`.
//!
//! It runs no async code and opens nothing, so that little can keep it from its one task.

use std::io::{self, Write as _};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use nix::sys::signal::{SigSet, Signal};
use tenure::{Clock as _, SystemClock};

use super::KILL_AGAIN_AFTER;
use super::id::GroupId;
use super::orders::{Order, Report};
use super::vigil::{Due, LOOK_AT_LEAST_EVERY, Vigil};

/// SIGKILL lets no process of the group run or fork again; what is left after these rounds, five
/// seconds, is in the kernel's hands or waits for somebody to reap it.
const LAST_ROUNDS: usize = 50;

/// Guards the group that the first order on stdin names, until the order to leave or the end of
/// stdin, which means that `tenure` has died and that the group must too.
pub fn run() -> io::Result<()> {
    // Only `tenure` may end the guard. Blocked signals, unlike handlers, leave no moment open.
    SigSet::all().thread_block()?;
    let orders = read_orders()?;
    let Ok(Order::Watch(group, deadlines)) = orders.recv() else {
        return Ok(());
    };
    let mut guard = Guard { group, vigil: Vigil::new(deadlines), killed: false, gone: false };
    guard.watch(&orders);
    Ok(())
}

struct Guard {
    group: GroupId,
    vigil: Vigil,
    killed: bool,
    /// Seen once, it holds for ever: the number may belong to another group by then.
    gone: bool,
}

impl Guard {
    fn watch(&mut self, orders: &Receiver<Order>) {
        let mut answer = Some(Report::Watching);
        loop {
            let pause = self.look();
            // Answered only now: an order to watch a lease that has ended is carried out by then.
            if let Some(report) = answer.take() {
                say(report);
            }
            match orders.recv_timeout(pause) {
                Ok(Order::Lease(deadlines)) => {
                    self.vigil.set(deadlines);
                    answer = Some(Report::Watching);
                }
                Ok(Order::Ping) => answer = Some(Report::Pong),
                Ok(Order::Done) => return,
                Err(RecvTimeoutError::Timeout) => {}
                // A second group for one guard is as garbled as any line.
                Ok(Order::Watch(..)) | Err(RecvTimeoutError::Disconnected) => {
                    return self.kill_without_tenure();
                }
            }
        }
    }

    /// Does what is due, and says when to look again.
    fn look(&mut self) -> Duration {
        self.gone = self.gone || !self.group.exists();
        if self.gone {
            return LOOK_AT_LEAST_EVERY;
        }
        let now = SystemClock.now();
        let due = if self.killed { Some(Due::Kill) } else { self.vigil.due(now) };
        match due {
            Some(Due::Kill) => {
                self.group.signal(Signal::SIGKILL);
                if !self.killed {
                    say(Report::Killed);
                }
                // Again and again, in case a process joined the group meanwhile.
                self.killed = true;
                return KILL_AGAIN_AFTER;
            }
            Some(Due::Term) => {
                self.group.signal(Signal::SIGTERM);
                say(Report::Terminated);
            }
            None => {}
        }
        self.vigil.next_look(now)
    }

    fn kill_without_tenure(&mut self) {
        for _ in 0..LAST_ROUNDS {
            self.gone = self.gone || !self.group.exists();
            if self.gone {
                return;
            }
            self.group.signal(Signal::SIGKILL);
            sleep(KILL_AGAIN_AFTER);
        }
    }
}

/// The orders from stdin. The channel ends with the pipe, or with the first line that makes no
/// sense.
fn read_orders() -> io::Result<Receiver<Order>> {
    let (sender, receiver) = mpsc::channel();
    thread::Builder::new().name("orders".to_owned()).spawn(move || {
        for line in io::stdin().lines() {
            match line.ok().and_then(|line| line.parse().ok()) {
                Some(order) if sender.send(order).is_ok() => {}
                _ => return,
            }
        }
    })?;
    Ok(receiver)
}

/// The pipe never fills, as there is about one report per order. If nobody listens any more, stdin
/// says so too.
fn say(report: Report) {
    let mut stdout = io::stdout().lock();
    let _ = writeln!(stdout, "{report}").and_then(|()| stdout.flush());
}

#[allow(clippy::disallowed_methods, reason = "a process of its own, with nothing else to do")]
fn sleep(pause: Duration) {
    thread::sleep(pause);
}
