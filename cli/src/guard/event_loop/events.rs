//! What the guard's threads tell its main thread.

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
    /// The orders have ended: `tenure` has died.
    HungUp,
    /// An order makes no sense, or cannot be read: `tenure` cannot be relied on, but may live.
    Garbled,
    Reaped(Pid, i32),
    /// There is no child any more; so, where orphans are adopted, no descendant either.
    Childless,
}

/// Passes the orders on. They end with the pipe, or with the first line that makes no sense.
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

/// Reaps all children, adopted ones too, and tells when there are none any more.
pub fn reap_children(events: Sender<GuardEvent>) -> io::Result<()> {
    thread::Builder::new().name("reaper".to_owned()).spawn(move || {
        loop {
            // nix has no status for the death by a real-time signal.
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
