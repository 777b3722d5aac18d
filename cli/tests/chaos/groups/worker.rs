//! A member of the group. Until SIGTERM, the member appends `(partition, token, sequence)` to the
//! fenced log of each partition that it owns.

use std::convert::Infallible;
use std::os::unix::process::parent_id;
use std::path::PathBuf;
use std::process::exit;
use std::sync::Arc;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tenure::store::Store;
use tenure::{Epoch, ErrorKind};
use tenure_fencing::{FencedLog, FencingError, LogWriter};
use tenure_groups::{Group, Partition};
use tokio::signal::unix::{SignalKind, signal};

use super::{PARTITIONS, POLL, VALIDITY};
use crate::child::{self, nap, now_ns, pause, var};
use crate::lines::Log;

pub const MEMBER: &str = "CHAOS_MEMBER";
pub const GROUP: &str = "CHAOS_GROUP";
/// The variable that makes a worker faulty: the worker continues after a log has refused its token.
pub const BROKEN: &str = "CHAOS_BROKEN";
/// The exit code of a worker that could not join the group.
pub const NOT_JOINED: i32 = 9;

/// Time between a successful check and the append that follows. If the test suspends a worker in
/// this time, another member may take over the partition. The worker then continues and sends its
/// append too late.
const GAP: Duration = Duration::from_millis(40);
const BETWEEN: Duration = Duration::from_millis(30);
const CHECK_EVERY: Duration = Duration::from_millis(50);
const AGAIN: Duration = Duration::from_millis(50);
/// Time for which the group reserves the partitions of a member that leaves with a reservation.
const PARK: Duration = Duration::from_secs(10);

/// A grant of a partition.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Grant {
    pub partition: u64,
    pub token: u64,
}

/// An entry of a partition's log.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Entry {
    pub grant: Grant,
    pub sequence: u64,
}

/// A line of a worker's log. The first field is the reading of the machine's boot clock in
/// nanoseconds.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub enum Line {
    /// The group has called the worker's function for this partition. The text is the id of the
    /// member's session.
    Granted(u64, Grant, String),
    /// The worker owned the partition at some moment after this time.
    Owns(u64, Grant),
    /// The worker begins to claim the partition's log.
    Opens(u64, Grant),
    Opened(u64, Grant),
    /// The worker sends an append. The worker owned the partition at some moment after this time.
    Calls(u64, Entry),
    /// The append was acknowledged. The entry is in the log under the number in the last field.
    Appended(u64, Entry, u64),
    /// The append was refused, because a greater token has claimed the log. The last number is this
    /// greater token.
    Fenced(u64, Grant, u64),
    /// The work ended. The text is the reason of the loss, if the partition was lost before.
    Ends(u64, Grant, Option<String>),
    /// The work ended with an unexpected error, which the text describes.
    Failed(u64, Grant, String),
}

/// Runs until the member has left after SIGTERM, or until its test has ended.
pub fn run() {
    let subscriber = tracing_subscriber::fmt().with_ansi(false).with_writer(std::io::stderr);
    subscriber.init();
    let parent = parent_id();
    std::thread::spawn(move || {
        while parent_id() == parent {
            nap(Duration::from_millis(100));
        }
        exit(1);
    });
    let name = var(MEMBER);
    let file = PathBuf::from(var(child::FOLDER)).join(format!("worker-{}", std::process::id()));
    let log = Log::open(&file);
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
    runtime.expect("the runtime starts").block_on(async {
        let broken = std::env::var_os(BROKEN).is_some();
        let worker =
            Worker { store: child::store().await, prefix: var(child::PREFIX), log, broken };
        let number = name.bytes().last().expect("m and a digit") - b'0';
        let group = Group::builder(Arc::clone(&worker.store), var(GROUP))
            .name(name)
            .name_is_unique(number.is_multiple_of(2))
            .partitions(0..PARTITIONS)
            .validity(VALIDITY)
            .poll_interval(POLL)
            .build()
            .expect("the settings are valid");
        let leaving = group.clone();
        tokio::spawn(async move {
            let mut terminated = signal(SignalKind::terminate()).expect("a handler");
            terminated.recv().await;
            match number.is_multiple_of(3) {
                true => leaving.leave_for(PARK),
                false => leaving.leave(),
            }
        });
        if let Err(error) = group.run(async |partition| worker.work(partition).await).await {
            tracing::error!(%error, "cannot join");
            exit(NOT_JOINED);
        }
    });
    exit(0);
}

struct Worker {
    store: Arc<dyn Store>,
    prefix: String,
    log: Log,
    broken: bool,
}

/// The reason why a writer stopped appending.
enum Done {
    /// The partition was revoked, the log refused the writer's token, or an append failed.
    Stops,
    /// A later claim under the same token has replaced the writer's claim, so the worker opens the
    /// log again.
    Replaced,
}

type Outcome = Result<(), Box<dyn std::error::Error + Send + Sync>>;

impl Worker {
    async fn work(&self, partition: Partition) -> Outcome {
        let number = partition.name().parse().expect("the names of the partitions are numbers");
        let grant = Grant { partition: number, token: partition.token().get() };
        self.log.say(&Line::Granted(now_ns(), grant, partition.session()));
        tokio::select! {
            written = self.write(&partition, grant) => written?,
            never = self.check(&partition, grant) => match never {},
        }
        let loss = partition.check().err().map(|loss| loss.outcome().to_owned());
        self.log.say(&Line::Ends(now_ns(), grant, loss));
        // If the work on a partition returns before the revocation, the group treats the work as
        // failed. So wait for the revocation.
        partition.revoked().cancelled().await;
        Ok(())
    }

    /// Repeatedly records that the worker owns the partition. This function also runs while an
    /// append waits for its answer.
    async fn check(&self, partition: &Partition, grant: Grant) -> Infallible {
        loop {
            let before_ns = now_ns();
            if partition.check().is_ok() {
                self.log.say(&Line::Owns(before_ns, grant));
            }
            pause(CHECK_EVERY).await;
        }
    }

    /// Returns whether the work must stop. A broken worker ignores a loss, and stops only if the
    /// group revokes the partition.
    fn stops(&self, partition: &Partition) -> bool {
        let lost = partition.check().is_err();
        partition.revoked().is_cancelled() && !(self.broken && lost)
    }

    async fn write(&self, partition: &Partition, grant: Grant) -> Outcome {
        let log = FencedLog::new(Arc::clone(&self.store), folder(&self.prefix, grant.partition))?
            .request_timeout(child::REQUEST);
        let mut token = partition.token();
        let mut sequence = 0;
        while !self.stops(partition) {
            self.log.say(&Line::Opens(now_ns(), grant));
            let mut writer = match log.open(token).await {
                Ok(writer) => writer,
                Err(error) => match self.judge(&error, grant) {
                    Some(newest) if self.broken => {
                        token = newest;
                        continue;
                    }
                    Some(_) => return Ok(()),
                    None => {
                        pause(AGAIN).await;
                        continue;
                    }
                },
            };
            self.log.say(&Line::Opened(now_ns(), grant));
            let done = self.append(&mut writer, partition, grant, &mut sequence).await;
            if matches!(done, Done::Stops) && !self.broken {
                break;
            }
        }
        Ok(())
    }

    async fn append(
        &self,
        writer: &mut LogWriter,
        partition: &Partition,
        grant: Grant,
        sequence: &mut u64,
    ) -> Done {
        loop {
            let before_ns = now_ns();
            if self.stops(partition) || !self.broken && partition.check().is_err() {
                return Done::Stops;
            }
            *sequence += 1;
            let entry = Entry { grant, sequence: *sequence };
            self.log.say(&Line::Calls(before_ns, entry));
            pause(GAP).await;
            let body = serde_json::to_vec(&entry).expect("an entry is JSON");
            let mut outcome = writer.append(body.clone()).await;
            while let Err(FencingError::Failed(error)) = &outcome
                && error.kind() == ErrorKind::Unavailable
                && !self.stops(partition)
            {
                pause(AGAIN).await;
                outcome = match writer.settle().await {
                    Ok(Some(number)) => Ok(number),
                    Ok(None) => writer.append(body.clone()).await,
                    Err(error) => Err(error),
                };
            }
            match outcome {
                Ok(number) => self.log.say(&Line::Appended(now_ns(), entry, number)),
                Err(FencingError::Replaced { .. }) => return Done::Replaced,
                Err(error) => {
                    self.judge(&error, grant);
                    return Done::Stops;
                }
            }
            pause(BETWEEN).await;
        }
    }

    /// Records an error, unless the store failed. If the log refused the token, returns the greater
    /// token in the log.
    fn judge(&self, error: &FencingError, grant: Grant) -> Option<Epoch> {
        if let Some(stale) = error.stale() {
            self.log.say(&Line::Fenced(now_ns(), grant, stale.newest.get()));
            return Some(stale.newest);
        }
        let passes = matches!(error, FencingError::Failed(error)
            if error.kind() == ErrorKind::Unavailable);
        if !passes {
            self.log.say(&Line::Failed(now_ns(), grant, error.to_string()));
        }
        None
    }
}

/// Returns the folder of the log of a partition.
pub fn folder(prefix: &str, partition: u64) -> String {
    format!("{prefix}log/{partition}")
}

impl Line {
    pub fn at_ns(&self) -> u64 {
        match *self {
            Line::Granted(at, ..) | Line::Owns(at, _) => at,
            Line::Opens(at, _) | Line::Opened(at, _) => at,
            Line::Calls(at, _) | Line::Appended(at, ..) | Line::Fenced(at, ..) => at,
            Line::Ends(at, ..) | Line::Failed(at, ..) => at,
        }
    }

    pub fn grant(&self) -> Grant {
        match *self {
            Line::Granted(_, grant, _) | Line::Owns(_, grant) => grant,
            Line::Opens(_, grant) | Line::Opened(_, grant) => grant,
            Line::Calls(_, entry) | Line::Appended(_, entry, _) => entry.grant,
            Line::Fenced(_, grant, _) | Line::Ends(_, grant, _) => grant,
            Line::Failed(_, grant, _) => grant,
        }
    }
}
