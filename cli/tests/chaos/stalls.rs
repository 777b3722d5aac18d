//! Records intervals in which this machine ran no process.

use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::Duration;

use crate::child::{nap, now_ns};

const NAP: Duration = Duration::from_millis(5);
/// A sleep of 5 ms that lasts longer than this time is a stall.
const LONG_NS: u64 = 50_000_000;

/// A thread that sleeps repeatedly for 5 ms, and records late wake-ups as stalls. During a stall,
/// the guard of a child also cannot run.
pub struct Stalls {
    seen: Arc<Mutex<Vec<Stall>>>,
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

/// The times at which a stall began and ended.
pub type Stall = (u64, u64);

impl Stalls {
    pub fn watch() -> Stalls {
        let (seen, stop) = (Arc::new(Mutex::new(Vec::new())), Arc::new(AtomicBool::new(false)));
        let (of_thread, stopped) = (Arc::clone(&seen), Arc::clone(&stop));
        let thread = std::thread::spawn(move || {
            let mut before_ns = now_ns();
            while !stopped.load(Ordering::Relaxed) {
                nap(NAP);
                let after_ns = now_ns();
                if after_ns - before_ns > LONG_NS {
                    of_thread
                        .lock()
                        .expect("no holder of the lock panics")
                        .push((before_ns, after_ns));
                }
                before_ns = after_ns;
            }
        });
        Stalls { seen, stop, thread: Some(thread) }
    }

    pub fn seen(&self) -> Vec<Stall> {
        self.seen.lock().expect("no holder of the lock panics").clone()
    }
}

impl Drop for Stalls {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        let _ = self.thread.take().map(JoinHandle::join);
    }
}

/// Returns the total duration of the stalls between these times.
pub fn within(stalls: &[Stall], from_ns: u64, until_ns: u64) -> u64 {
    let part = |(from, until): &Stall| (*until).min(until_ns).saturating_sub((*from).max(from_ns));
    stalls.iter().map(part).sum()
}
