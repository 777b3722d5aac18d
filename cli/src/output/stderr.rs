//! Writes to stderr on a separate thread. If the reader of stderr stops reading, only this thread
//! blocks: renewals and kills are not delayed.

use std::io::{self, Write as _};
use std::sync::OnceLock;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{self, Receiver, SyncSender};
use std::thread;
use std::time::Duration;

/// Maximum number of writes that wait for the thread. Further writes are dropped and counted.
const MOST_WAITING: usize = 1_000;
/// Maximum time for which the process waits before its exit, so that the reader of stderr can read
/// all lines.
const LAST_WAIT: Duration = Duration::from_secs(2);

static THREAD: OnceLock<Option<SyncSender<Message>>> = OnceLock::new();
static LEFT_OUT: AtomicU64 = AtomicU64::new(0);

/// A function that gets the number of dropped lines, and returns the line to write in their place.
type LeftOut = fn(u64) -> String;

enum Message {
    Lines(Vec<u8>),
    /// A request that the thread answers after it has written all earlier messages.
    Flush(SyncSender<()>),
}

/// Passes lines, with their line ends, to the thread. The first call starts the thread. If the
/// thread cannot be started, this function writes the lines.
pub fn write(lines: Vec<u8>, left_out: LeftOut) {
    match thread(left_out) {
        None => put(&lines),
        Some(thread) => {
            if thread.try_send(Message::Lines(lines)).is_err() {
                LEFT_OUT.fetch_add(1, Ordering::Relaxed);
            }
        }
    }
}

fn thread(left_out: LeftOut) -> Option<&'static SyncSender<Message>> {
    let spawn = || {
        let (sender, receiver) = mpsc::sync_channel(MOST_WAITING);
        let thread = thread::Builder::new().name("stderr".to_owned());
        thread.spawn(move || put_all(&receiver, left_out)).ok().map(|_| sender)
    };
    THREAD.get_or_init(spawn).as_ref()
}

/// Waits until the thread has written all lines to stderr, at most 2 s. Does not wait if the queue
/// of the thread is full.
pub fn flush() {
    let Some(Some(thread)) = THREAD.get() else { return };
    let (done, is_done) = mpsc::sync_channel(1);
    if thread.try_send(Message::Flush(done)).is_ok() {
        // The wait times out only if the reader of stderr has stopped reading, so the error is
        // ignored.
        let _ = is_done.recv_timeout(LAST_WAIT);
    }
}

fn put_all(messages: &Receiver<Message>, left_out: LeftOut) {
    for message in messages {
        match message {
            Message::Lines(lines) => put(&lines),
            Message::Flush(done) => drop(done.send(())),
        }
        let lines = LEFT_OUT.swap(0, Ordering::Relaxed);
        if lines > 0 {
            put(left_out(lines).as_bytes());
        }
    }
}

/// Writes lines to stderr. Unlike `eprintln!`, does not panic if stderr is closed.
fn put(lines: &[u8]) {
    let _ = io::stderr().write_all(lines);
}
