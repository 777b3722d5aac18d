//! The program that `tenure run` starts. The program appends `(epoch, sequence)` to a manifest of
//! numbered objects, and stops when it reads a greater epoch.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::Process;
use tenure::store::{DirStore, GetOutcome, PutOutcome, S3Store, Store};

use crate::lines::Log;

pub const FOLDER: &str = "CHAOS_FOLDER";
/// The variable that names the store: a directory, or `s3` for the bucket that
/// `TENURE_TEST_S3_BUCKET` names.
pub const STORE: &str = "CHAOS_STORE";
pub const PREFIX: &str = "CHAOS_PREFIX";

/// Name of the file that makes all children exit, including children that ignore SIGTERM.
pub const END: &str = "end";

/// The exit code of a child that read a greater epoch.
pub const FENCED: i32 = 9;

const MAX_BODY: usize = 4096;
pub const REQUEST: Duration = Duration::from_secs(2);

/// The content of one object of the manifest. One append of a leader's child writes one object.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Entry {
    pub epoch: u64,
    pub sequence: u64,
}

/// A line of a child's log. The first field is the reading of the machine's boot clock in
/// nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Line {
    Starts(u64),
    Beats(u64),
    Calls(u64, Entry),
    /// The append was acknowledged. The entry is in the manifest under the number in the last
    /// field.
    Appended(u64, Entry, u64),
    /// The append was refused, because the manifest has an entry of a greater epoch. The last field
    /// is this greater epoch.
    Fenced(u64, Entry, u64),
}

pub fn now_ns() -> u64 {
    u64::try_from(Process::system().now().boot.as_nanos()).expect("the uptime fits into 64 bits")
}

pub fn key(prefix: &str, number: u64) -> String {
    format!("{prefix}manifest/{number:020}.json")
}

/// Runs until the child is fenced or killed, or until the file [`END`] exists. The child exits
/// after at most ten minutes, even if its test was killed.
pub fn run() {
    let epoch: u64 = var("TENURE_EPOCH").parse().expect("a number");
    let (name, pid) = (var("TENURE_NAME"), std::process::id());
    let folder = PathBuf::from(var(FOLDER));
    let file = folder.join(format!("child-{epoch}-{pid}-{name}"));
    let end = folder.join(END);
    let log = Log::open(&file);
    log.say(&Line::Starts(now_ns()));
    let beats = log.clone();
    std::thread::spawn(move || {
        for _ in 0..30_000 {
            if end.exists() {
                break;
            }
            beats.say(&Line::Beats(now_ns()));
            nap(Duration::from_millis(20));
        }
        std::process::exit(0);
    });
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(async {
        let mut writer = Writer { store: store().await, prefix: var(PREFIX), tail: None };
        for sequence in 1..u64::MAX {
            let entry = Entry { epoch, sequence };
            log.say(&Line::Calls(now_ns(), entry));
            match writer.append(entry).await {
                Ok(number) => log.say(&Line::Appended(now_ns(), entry, number)),
                Err(greater) => {
                    log.say(&Line::Fenced(now_ns(), entry, greater));
                    std::process::exit(FENCED);
                }
            }
            pause(Duration::from_millis(15)).await;
        }
    });
}

pub fn var(name: &str) -> String {
    std::env::var(name).unwrap_or_else(|_| panic!("{name} is not set"))
}

/// Returns the store that the variable [`STORE`] names.
pub async fn store() -> Arc<dyn Store> {
    match var(STORE).as_str() {
        "s3" => Arc::new(S3Store::from_env(var("TENURE_TEST_S3_BUCKET")).await),
        path => Arc::new(DirStore::open(path).expect("a directory")),
    }
}

struct Writer {
    store: Arc<dyn Store>,
    prefix: String,
    /// Number and epoch of the newest known entry in the manifest.
    tail: Option<(u64, u64)>,
}

impl Writer {
    /// Returns the number of the appended entry. If the append is refused, returns the greater
    /// epoch in the manifest.
    async fn append(&mut self, entry: Entry) -> Result<u64, u64> {
        let mut from = 0;
        loop {
            let Some((last, epoch)) = self.tail else {
                self.tail = self.find_tail(from).await;
                continue;
            };
            if epoch > entry.epoch {
                return Err(epoch);
            }
            let number = last + 1;
            let key = key(&self.prefix, number);
            let body = serde_json::to_vec(&entry).expect("an entry is JSON");
            if let Some(PutOutcome::Done { .. }) =
                answer(self.store.create(&key, body.into())).await
            {
                self.tail = Some((number, entry.epoch));
                return Ok(number);
            }
            // Three cases are possible: another entry has this number, an earlier attempt of this
            // append has it, or the outcome of the PUT is unknown.
            if let Some(found) = self.read(&key).await {
                if found == entry {
                    self.tail = Some((number, found.epoch));
                    return Ok(number);
                }
                // The entry of another child has this number. If the process of this writer was
                // paused, other children may have appended many entries. So search for the end of
                // the manifest again.
                (self.tail, from) = (None, last);
            }
        }
    }

    async fn read(&self, key: &str) -> Option<Entry> {
        match answer(self.store.get(key, None, MAX_BODY)).await? {
            GetOutcome::Found(object) => {
                Some(serde_json::from_slice(&object.body).expect("a whole entry"))
            }
            _ => None,
        }
    }

    /// Returns the number and the epoch of the last entry in the manifest, or zeros if the manifest
    /// is empty. Lists only the keys of numbers above `from`, so 0 lists all keys. Returns `None`
    /// if a request fails.
    async fn find_tail(&self, from: u64) -> Option<(u64, u64)> {
        let prefix = format!("{}manifest/", self.prefix);
        let mut last = if from == 0 { String::new() } else { key(&self.prefix, from) };
        loop {
            let page = answer(self.store.list(&prefix, &last, 1_000)).await?;
            if let Some(entry) = page.entries.last() {
                last.clone_from(&entry.key);
            }
            if !page.truncated {
                break;
            }
        }
        if last.is_empty() {
            return Some((0, 0));
        }
        let number = last.strip_prefix(&prefix)?.strip_suffix(".json")?.parse().ok()?;
        Some((number, self.read(&last).await?.epoch))
    }
}

/// Awaits a call of the store and returns its answer. If the call fails or times out, pauses and
/// returns `None`.
#[allow(clippy::disallowed_methods, reason = "the time limit is for real servers")]
pub async fn answer<T>(
    call: impl Future<Output = Result<T, tenure::store::StoreError>>,
) -> Option<T> {
    match tokio::time::timeout(REQUEST, call).await {
        Ok(Ok(answer)) => Some(answer),
        _ => {
            pause(Duration::from_millis(50)).await;
            None
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "a child process needs real time")]
pub async fn pause(time: Duration) {
    tokio::time::sleep(time).await;
}

#[allow(clippy::disallowed_methods, reason = "a child process needs real time")]
pub fn nap(time: Duration) {
    std::thread::sleep(time);
}

impl Line {
    pub fn at_ns(&self) -> u64 {
        match *self {
            Line::Starts(at) | Line::Beats(at) | Line::Calls(at, _) => at,
            Line::Appended(at, ..) | Line::Fenced(at, ..) => at,
        }
    }
}
