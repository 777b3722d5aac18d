//! Workers share the partitions of a stream as one group. Each commit of an offset carries the
//! token of its writer's ownership.
//!
//! ```text
//! cargo run --example stream_processor                          # on a temporary directory
//! cargo run --example stream_processor -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! Two workers share twelve partitions. A third joins: four partitions are revoked, and move once
//! their batch is done. Then a worker is killed while commits are on their way. These arrive after
//! other workers have taken over. The offsets (here in memory, elsewhere a table of a database)
//! remember the greatest token of each partition and refuse lower ones: fencing requires no more of
//! a resource.
//!
//! Look for the late commits that are refused, and for the offsets in the last table: each owner
//! continues just where the one before had committed, so every record counts once. A worker costs
//! one PUT every third of its validity, however many partitions it owns.
#![allow(clippy::disallowed_methods, reason = "sleeps stand for work, timeouts for patience")]

use std::fmt;
use std::pin::pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tenure::Epoch;
use tenure_groups::{Group, Partition};
use tokio::sync::Notify;
use tokio::task::JoinHandle;

use support::{Place, Result, Timeline, fail};

mod support;

const PARTITIONS: usize = 12;
const BATCH: u64 = 10;
const WORK_ON_A_BATCH: Duration = Duration::from_millis(50);
/// Longer than any step takes, also on a busy machine.
const PATIENCE: Duration = Duration::from_secs(60);

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("stream_processor").await?;
    println!("Workers share {PARTITIONS} partitions of a stream, on {place}.");
    let offsets = Arc::new(Offsets::new(Timeline::start()));

    let anna = Worker::start("anna", &place, &offsets)?;
    let ben = Worker::start("ben", &place, &offsets)?;
    offsets.are_shared_by(&["anna", "ben"]).await?;

    let cleo = Worker::start("cleo", &place, &offsets)?;
    offsets.are_shared_by(&["anna", "ben", "cleo"]).await?;

    let late_commits = anna.kill().await?;
    offsets.are_shared_by(&["ben", "cleo"]).await?;
    for commit in late_commits {
        match offsets.commit(&commit) {
            Err(refused @ Refused::OldToken { .. }) => {
                offsets.timeline.say("anna", format_args!("late {commit}: {refused}"));
            }
            _ => return fail(format!("the late {commit} should have been refused")),
        }
    }

    ben.leave().await?;
    cleo.leave().await?;
    offsets.print();
    offsets.check()
}

/// A member of the group, as a process would run it.
struct Worker {
    name: &'static str,
    group: Group,
    task: JoinHandle<std::result::Result<(), tenure::Error>>,
    offsets: Arc<Offsets>,
}

impl Worker {
    fn start(name: &'static str, place: &Place, offsets: &Arc<Offsets>) -> Result<Worker> {
        let group = Group::builder(Arc::clone(&place.store), &place.prefix)
            .name(name)
            .partitions(0..PARTITIONS)
            .validity(place.validity)
            .build()?;
        offsets.timeline.say(name, "joins");
        let (member, of) = (group.clone(), Arc::clone(offsets));
        let task = tokio::spawn(async move {
            let ended = member.run(async |partition| process(name, partition, &of).await).await;
            match &ended {
                Ok(()) => of.timeline.say(name, "has left"),
                Err(error) => of.timeline.say(name, error),
            }
            ended
        });
        Ok(Worker { name, group, task, offsets: Arc::clone(offsets) })
    }

    /// Finishes the batches, releases all partitions and resigns.
    async fn leave(self) -> Result<()> {
        self.group.leave();
        Ok(self.task.await??)
    }

    /// Ends it at once, as SIGKILL ends a process. Returns the commits that were on their way.
    async fn kill(self) -> Result<Vec<Commit>> {
        self.offsets.lock().slow = Some(self.name);
        let on_their_way = |state: &State| {
            let is_late = |at| state.late.iter().any(|commit| commit.partition == at);
            let mut owned = state.partitions.iter().enumerate();
            owned.all(|(at, this)| this.owner() != Some(self.name) || is_late(at))
        };
        self.offsets.until("all commits are on their way", on_their_way).await?;
        self.task.abort();
        let _ = self.task.await;
        self.offsets.timeline.say(self.name, "is KILLED with commits on their way");
        Ok(std::mem::take(&mut self.offsets.lock().late))
    }
}

/// The work on one partition: batch by batch, until it is to move. When this returns, it is
/// released.
async fn process(
    worker: &'static str,
    owned: Partition,
    offsets: &Offsets,
) -> std::result::Result<(), Box<dyn std::error::Error + Send + Sync>> {
    let partition: usize = owned.name().parse()?;
    // The token first: from here on no older owner can move the offset that is read.
    let mut from = offsets.take_over(worker, partition, owned.token())?;
    while !owned.revoked().is_cancelled() {
        let to = from + BATCH;
        let sum = (from..to).map(|offset| record(partition, offset)).sum();
        tokio::time::sleep(WORK_ON_A_BATCH).await;
        let token = owned.check()?; // spares a commit that would be refused; it guards nothing
        offsets.send(Commit { worker, partition, token, from, to, sum }).await?;
        from = to;
    }
    let why = if owned.check().is_ok() { "is REVOKED" } else { "is LOST" };
    offsets.timeline.say(worker, format_args!("partition {partition} {why}, at offset {from}"));
    Ok(())
}

/// What the stream holds: any function of partition and offset.
fn record(partition: usize, offset: u64) -> u64 {
    (offset + 1) * 1_000_003 % 7_919 + partition as u64
}

/// The result of a batch and its end: written together, so that each record counts once.
#[derive(Clone)]
struct Commit {
    worker: &'static str,
    partition: usize,
    token: Epoch,
    from: u64,
    to: u64,
    sum: u64,
}

#[derive(Debug)]
enum Refused {
    /// The fence: a worker with a greater token has been here.
    OldToken { seen: Epoch },
    /// A gap or an overlap. A fenced writer never gets here.
    WrongOffset { next: u64 },
}

/// The guarded resource. It knows nothing of groups but that tokens can be compared.
struct Offsets {
    state: Mutex<State>,
    changed: Notify,
    timeline: Timeline,
}

struct State {
    partitions: Vec<Offset>,
    /// The worker whose commits do not arrive for now.
    slow: Option<&'static str>,
    /// These commits.
    late: Vec<Commit>,
}

#[derive(Clone, Default)]
struct Offset {
    greatest: Option<Epoch>,
    next: u64,
    sum: u64,
    owners: Vec<(Epoch, &'static str)>,
    commits: Vec<Commit>,
}

impl Offset {
    /// The whole of fencing.
    fn admit(&mut self, token: Epoch) -> std::result::Result<(), Refused> {
        match self.greatest {
            Some(seen) if token < seen => Err(Refused::OldToken { seen }),
            _ => {
                self.greatest = Some(token);
                Ok(())
            }
        }
    }

    /// Its owner, once that has committed.
    fn owner(&self) -> Option<&'static str> {
        let (token, owner) = self.owners.last()?;
        self.commits.last().is_some_and(|last| last.token == *token).then_some(*owner)
    }
}

impl Offsets {
    fn new(timeline: Timeline) -> Offsets {
        let partitions = vec![Offset::default(); PARTITIONS];
        let state = Mutex::new(State { partitions, slow: None, late: Vec::new() });
        Offsets { state, changed: Notify::new(), timeline }
    }

    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().expect("nothing panics with this lock held")
    }

    /// A new owner shows its token and learns where to continue.
    fn take_over(
        &self,
        worker: &'static str,
        partition: usize,
        token: Epoch,
    ) -> std::result::Result<u64, Refused> {
        let this = &mut self.lock().partitions[partition];
        this.admit(token)?;
        this.owners.push((token, worker));
        let what = format!("owns partition {partition}, token {token}, from offset {}", this.next);
        self.timeline.say(worker, what);
        Ok(this.next)
    }

    fn commit(&self, commit: &Commit) -> std::result::Result<(), Refused> {
        let this = &mut self.lock().partitions[commit.partition];
        this.admit(commit.token)?;
        if commit.from != this.next {
            return Err(Refused::WrongOffset { next: this.next });
        }
        this.next = commit.to;
        this.sum += commit.sum;
        this.commits.push(commit.clone());
        self.changed.notify_waiters();
        Ok(())
    }

    /// The network between a worker and the offsets.
    async fn send(&self, commit: Commit) -> std::result::Result<(), Refused> {
        if self.lock().slow == Some(commit.worker) {
            self.lock().late.push(commit);
            self.changed.notify_waiters();
            std::future::pending::<()>().await;
            return Ok(());
        }
        self.commit(&commit)
    }

    async fn until(&self, what: &str, is_so: impl Fn(&State) -> bool) -> Result<()> {
        let wait = async {
            loop {
                let mut changed = pin!(self.changed.notified());
                changed.as_mut().enable();
                if is_so(&self.lock()) {
                    return;
                }
                changed.await;
            }
        };
        let waited = tokio::time::timeout(PATIENCE, wait).await;
        waited.or_else(|_| fail(format!("{PATIENCE:?} have passed, and not yet: {what}")))
    }

    /// Waits until each of these has committed to its share of the partitions.
    async fn are_shared_by(&self, workers: &[&str]) -> Result<()> {
        let has_its_share = |state: &State, worker| {
            let owners = state.partitions.iter().filter_map(Offset::owner);
            owners.filter(|owner| *owner == worker).count() == PARTITIONS / workers.len()
        };
        let shared = |state: &State| workers.iter().all(|worker| has_its_share(state, *worker));
        let all = workers.join(", ");
        self.until(&format!("the partitions are shared by {all}"), shared).await?;
        self.timeline.say("-", format_args!("the partitions are shared by {all}"));
        Ok(())
    }

    fn print(&self) {
        println!("\npartition  token  owner     records committed");
        for (partition, this) in self.lock().partitions.iter().enumerate() {
            for (token, owner) in &this.owners {
                let mut commits = this.commits.iter().filter(|commit| commit.token == *token);
                let from = commits.clone().map(|commit| commit.from).next();
                let to = commits.next_back().map(|commit| commit.to);
                let range = from.zip(to).map_or("-".to_owned(), |(a, b)| format!("{a}..{b}"));
                println!("{partition:>9}  {token:>5}  {owner:<8}  {range}");
            }
        }
    }

    fn check(&self) -> Result<()> {
        let mut records = 0;
        for (partition, this) in self.lock().partitions.iter().enumerate() {
            let mut next = 0;
            for commit in &this.commits {
                if commit.from != next {
                    return fail(format!("partition {partition}: a gap or an overlap at {next}"));
                }
                next = commit.to;
            }
            if !this.commits.windows(2).all(|two| two[0].token <= two[1].token) {
                return fail(format!("partition {partition}: the tokens went back"));
            }
            let expected: u64 = (0..next).map(|offset| record(partition, offset)).sum();
            if this.sum != expected {
                return fail(format!("partition {partition}: {} is not {expected}", this.sum));
            }
            records += next;
        }
        println!("\nAll {records} records counted once: no gap, no overlap, no token went back.");
        Ok(())
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commit { partition, token, from, to, .. } = self;
        write!(f, "commit of {from}..{to} to partition {partition} with token {token}")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OldToken { seen } => write!(f, "REFUSED, token {seen} has been here"),
            Refused::WrongOffset { next } => write!(f, "REFUSED, the next offset is {next}"),
        }
    }
}

impl std::error::Error for Refused {}
