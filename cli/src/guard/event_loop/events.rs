//! The events that the threads of the guard send to its main thread.

use std::fs::File;
use std::io::{self, BufRead as _, BufReader};
use std::sync::mpsc::Sender;
use std::thread;

use nix::unistd::Pid;
use rustix::io::Errno;
use rustix::process::WaitOptions;

use super::super::messages::GuardOrder;

pub enum GuardEvent {
    Order(GuardOrder),
    /// The pipe of orders has ended, so `tenure` has died or has closed the pipe.
    HungUp,
    /// An order is garbled or unreadable. `tenure` may still be alive.
    Garbled,
    Reaped(Pid, i32),
    /// No child is left. If the guard adopts orphans, no descendant of CMD is left either.
    Childless,
}

/// Starts a thread that sends each order as an event. The thread ends at the end of the pipe or at
/// the first garbled line.
pub fn read_orders(from: File, events: Sender<GuardEvent>) -> io::Result<()> {
    thread::Builder::new().name("orders".to_owned()).spawn(move || {
        let mut last = GuardEvent::HungUp;
        for line in BufReader::new(from).lines() {
            match line.ok().and_then(|line| line.parse().ok()) {
                Some(order) => {
                    if events.send(GuardEvent::Order(order)).is_err() {
                        return;
                    }
                }
                None => {
                    last = GuardEvent::Garbled;
                    break;
                }
            }
        }
        let _ = events.send(last);
    })?;
    Ok(())
}

/// Starts a thread that reaps all children, including adopted ones. The thread ends when no child
/// is left.
pub fn reap_children(events: Sender<GuardEvent>) -> io::Result<()> {
    thread::Builder::new().name("reaper".to_owned()).spawn(move || {
        loop {
            // The function `wait` of the crate `nix` is unsuitable: it cannot represent the status
            // of a process that a real-time signal has killed.
            let event = match rustix::process::wait(WaitOptions::empty()) {
                Ok(Some((pid, status))) => {
                    GuardEvent::Reaped(Pid::from_raw(pid.as_raw_nonzero().get()), status.as_raw())
                }
                Err(Errno::CHILD) => GuardEvent::Childless,
                Ok(None) | Err(_) => continue,
            };
            let is_last = matches!(event, GuardEvent::Childless);
            if events.send(event).is_err() || is_last {
                return;
            }
        }
    })?;
    Ok(())
}
