//! Workers share the partitions of a stream: one election per partition, whose owner commits its
//! offset with its epoch.
//!
//! ```text
//! cargo run --example stream_processor                          # on a temporary directory
//! cargo run --example stream_processor -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! Three workers own up to two of four partitions each. One of them crashes while a commit is on
//! its way, which arrives after another worker has taken over. The offsets (here in memory,
//! elsewhere a table of a database) remember the greatest epoch of each partition and refuse lower
//! ones: fencing requires no more of a resource.
//!
//! Look for the late commit that is refused, and for the offsets in the last table: each owner goes
//! on just where the one before had committed, so every record counts once.
#![allow(clippy::disallowed_methods, reason = "sleeps stand for work, and for a poll's interval")]

use std::collections::BTreeSet;
use std::fmt;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use tenure::{CampaignOutcome, Cancellation, Election, Epoch, ErrorKind, Leadership, Loss};
use tokio::sync::{Notify, mpsc};
use tokio::task::JoinSet;

use support::{Place, Result, Timeline, fail};

mod support;

const WORKERS: [&str; 3] = ["anna", "ben", "cleo"];
const PARTITIONS: usize = 4;
/// How many partitions a worker owns at most. Two workers are enough for all.
const CAPACITY: usize = 2;
const RECORDS: u64 = 300;
const BATCH: u64 = 10;
const WORK_ON_A_BATCH: Duration = Duration::from_millis(50);

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("stream_processor").await?;
    println!(
        "{} workers, {PARTITIONS} partitions of {RECORDS} records, on {place}.",
        WORKERS.len()
    );
    let timeline = Timeline::start();
    let offsets = Arc::new(Offsets::new(timeline));
    let (late, late_commits) = mpsc::channel(1);
    let disaster = Arc::new(Disaster { determinacy: AtomicBool::new(false), late });

    let mut workers = JoinSet::new();
    for (at, name) in WORKERS.into_iter().enumerate() {
        let mut elections = Vec::new();
        for partition in 0..PARTITIONS {
            let prefix = format!("{}/partition-{partition}", place.prefix);
            let election = Election::builder(Arc::clone(&place.store), prefix)
                .name(name)
                .validity(place.validity)
                .build()?;
            elections.push((partition, election));
        }
        // Everybody starts with another partition.
        elections.rotate_left(at);
        let worker = Worker {
            name,
            elections,
            poll: place.validity / 6,
            offsets: Arc::clone(&offsets),
            disaster: Arc::clone(&disaster),
            crash: Arc::new(Notify::new()),
        };
        workers.spawn(worker.run());
    }

    drop(disaster);
    let network = tokio::spawn(deliver_late(late_commits, Arc::clone(&offsets)));
    while let Some(worker) = workers.join_next().await {
        worker??;
    }
    offsets.print();
    if !network.await? {
        return fail("a commit of a worker that is no owner any more should have been refused");
    }
    offsets.check()
}

/// Delivers the commit of the crashed worker once its partition has a new owner. Was it refused?
async fn deliver_late(mut late_commits: mpsc::Receiver<Commit>, offsets: Arc<Offsets>) -> bool {
    let Some(commit) = late_commits.recv().await else { return false };
    offsets.taken_over(&commit).await;
    match offsets.commit(&commit) {
        Ok(()) => false,
        Err(refused) => {
            offsets.timeline.say(commit.worker, format_args!("late {commit}: {refused}"));
            matches!(refused, Refused::OldEpoch { .. })
        }
    }
}

/// Owns partitions, processes their records and commits.
struct Worker {
    name: &'static str,
    elections: Vec<(usize, Election)>,
    poll: Duration,
    offsets: Arc<Offsets>,
    disaster: Arc<Disaster>,
    crash: Arc<Notify>,
}

impl Worker {
    async fn run(self) -> Result<()> {
        tokio::select! {
            outcome = self.work() => outcome,
            // All that the worker has is dropped: its leaderships are no longer renewed.
            () = self.crash.notified() => {
                self.offsets.timeline.say(self.name, "CRASHES with a commit on its way");
                Ok(())
            }
        }
    }

    /// Tries for every free partition in turn, until all are done.
    async fn work(&self) -> Result<()> {
        let mut owned = BTreeSet::new();
        let mut tasks = JoinSet::new();
        while !self.offsets.all_done() {
            for (partition, election) in &self.elections {
                if owned.len() == CAPACITY {
                    break;
                }
                if owned.contains(partition) || self.offsets.done(*partition) {
                    continue;
                }
                match election.try_campaign().await {
                    Ok(CampaignOutcome::Elected(leadership)) => {
                        owned.insert(*partition);
                        tasks.spawn(self.share(*partition).hold(leadership));
                    }
                    Ok(_) => {}
                    // The next round tries again.
                    Err(error) if error.kind() == ErrorKind::Unavailable => {
                        self.offsets.timeline.say(self.name, error);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
            tokio::select! {
                Some(ended) = tasks.join_next() => {
                    let (partition, lost) = ended?;
                    owned.remove(&partition);
                    if let Some(loss) = lost {
                        let what = format!("LOST partition {partition}: {loss}");
                        self.offsets.timeline.say(self.name, what);
                    }
                }
                () = tokio::time::sleep(self.poll) => {}
            }
        }
        // The last leaderships resign.
        while tasks.join_next().await.is_some() {}
        Ok(())
    }

    fn share(&self, partition: usize) -> Share {
        Share {
            worker: self.name,
            partition,
            offsets: Arc::clone(&self.offsets),
            disaster: Arc::clone(&self.disaster),
            crash: Arc::clone(&self.crash),
        }
    }
}

/// A worker's hold on one partition.
struct Share {
    worker: &'static str,
    partition: usize,
    offsets: Arc<Offsets>,
    disaster: Arc<Disaster>,
    crash: Arc<Notify>,
}

impl Share {
    /// Processes while the leadership lasts, then resigns.
    async fn hold(self, leadership: Leadership) -> (usize, Option<Loss>) {
        let outcome = leadership.run(|epoch, cancelled| self.process(epoch, cancelled)).await;
        // Whatever is left of the partition, the next round campaigns for it again.
        (self.partition, outcome.loss().cloned())
    }

    /// Batch by batch, until the partition is done, the lease is at risk, or a newer owner has
    /// been.
    async fn process(&self, epoch: Epoch, cancelled: Cancellation) {
        let Ok(mut next) = self.offsets.take_over(self.worker, self.partition, epoch) else {
            return;
        };
        while next < RECORDS && !cancelled.is_cancelled() {
            let end = (next + BATCH).min(RECORDS);
            let sum = (next..end).map(|offset| record(self.partition, offset)).sum();
            tokio::time::sleep(WORK_ON_A_BATCH).await;
            let Share { worker, partition, .. } = *self;
            let commit = Commit { worker, partition, epoch, from: next, to: end, sum };
            if self.disaster.strikes(&commit) {
                self.crash.notify_one();
                std::future::pending::<()>().await;
            }
            if let Err(refused) = self.offsets.commit(&commit) {
                self.offsets.timeline.say(worker, format_args!("{commit}: {refused}"));
                return;
            }
            next = end;
        }
    }
}

/// What the stream holds: any function of partition and offset.
fn record(partition: usize, offset: u64) -> u64 {
    (offset + 1) * 1_000_003 % 7_919 + partition as u64
}

/// Strikes once, the owner of partition 0, with a third of its records processed.
struct Disaster {
    determinacy: AtomicBool,
    late: mpsc::Sender<Commit>,
}

impl Disaster {
    fn strikes(&self, commit: &Commit) -> bool {
        let strikes = commit.partition == 0
            && commit.from >= RECORDS / 3
            && !self.determinacy.swap(true, Ordering::Relaxed);
        strikes && self.late.try_send(commit.clone()).is_ok()
    }
}

/// The result of a batch and its end: written together, so that each record counts once.
#[derive(Clone)]
struct Commit {
    worker: &'static str,
    partition: usize,
    epoch: Epoch,
    from: u64,
    to: u64,
    sum: u64,
}

enum Refused {
    /// The fence: a worker with a greater epoch has committed.
    OldEpoch { seen: Epoch },
    /// A gap or an overlap. A fenced writer never gets here.
    WrongOffset { next: u64 },
}

/// The guarded resource. It knows nothing of elections but that epochs can be compared.
struct Offsets {
    partitions: Mutex<Vec<Partition>>,
    changed: Notify,
    timeline: Timeline,
}

#[derive(Clone, Default)]
struct Partition {
    greatest: Option<Epoch>,
    next: u64,
    sum: u64,
    owners: Vec<(Epoch, &'static str)>,
    commits: Vec<Commit>,
}

impl Partition {
    /// The whole of fencing.
    fn admit(&mut self, epoch: Epoch) -> std::result::Result<(), Refused> {
        match self.greatest {
            Some(seen) if epoch < seen => Err(Refused::OldEpoch { seen }),
            _ => {
                self.greatest = Some(epoch);
                Ok(())
            }
        }
    }
}

impl Offsets {
    fn new(timeline: Timeline) -> Offsets {
        let partitions = Mutex::new(vec![Partition::default(); PARTITIONS]);
        Offsets { partitions, changed: Notify::new(), timeline }
    }

    fn partitions(&self) -> MutexGuard<'_, Vec<Partition>> {
        self.partitions.lock().expect("nobody panics with this lock held")
    }

    /// A new owner shows its epoch before it reads where to continue. From here on no older owner
    /// can move the offset that it has read.
    fn take_over(
        &self,
        worker: &'static str,
        partition: usize,
        epoch: Epoch,
    ) -> std::result::Result<u64, Refused> {
        let mut partitions = self.partitions();
        let this = &mut partitions[partition];
        this.admit(epoch)?;
        this.owners.push((epoch, worker));
        let what =
            format!("owns partition {partition} in epoch {epoch}, from offset {}", this.next);
        self.timeline.say(worker, what);
        self.changed.notify_waiters();
        Ok(this.next)
    }

    fn commit(&self, commit: &Commit) -> std::result::Result<(), Refused> {
        let mut partitions = self.partitions();
        let this = &mut partitions[commit.partition];
        this.admit(commit.epoch)?;
        if commit.from != this.next {
            return Err(Refused::WrongOffset { next: this.next });
        }
        this.next = commit.to;
        this.sum += commit.sum;
        this.commits.push(commit.clone());
        if this.next == RECORDS {
            self.timeline
                .say(commit.worker, format_args!("has done partition {}", commit.partition));
        }
        Ok(())
    }

    fn done(&self, partition: usize) -> bool {
        self.partitions()[partition].next == RECORDS
    }

    fn all_done(&self) -> bool {
        self.partitions().iter().all(|partition| partition.next == RECORDS)
    }

    /// Waits until a newer worker than this commit's writer owns its partition.
    async fn taken_over(&self, commit: &Commit) {
        loop {
            let changed = self.changed.notified();
            if self.partitions()[commit.partition].greatest > Some(commit.epoch) {
                return;
            }
            changed.await;
        }
    }

    fn print(&self) {
        println!("\npartition  epoch  owner     records committed");
        for (partition, this) in self.partitions().iter().enumerate() {
            for (epoch, owner) in &this.owners {
                let mut commits = this.commits.iter().filter(|commit| commit.epoch == *epoch);
                let from = commits.clone().map(|commit| commit.from).next();
                let to = commits.next_back().map(|commit| commit.to);
                let range = from.zip(to).map_or("-".to_owned(), |(a, b)| format!("{a}..{b}"));
                println!("{partition:>9}  {epoch:>5}  {owner:<8}  {range}");
            }
        }
    }

    fn check(&self) -> Result<()> {
        for (partition, this) in self.partitions().iter().enumerate() {
            let mut next = 0;
            for commit in &this.commits {
                if commit.from != next {
                    return fail(format!(
                        "partition {partition} has a gap or an overlap at {next}"
                    ));
                }
                next = commit.to;
            }
            if next != RECORDS {
                return fail(format!("partition {partition} ends at {next}"));
            }
            if !this.commits.windows(2).all(|two| two[0].epoch <= two[1].epoch) {
                return fail(format!("partition {partition}: the epochs went back"));
            }
            let expected: u64 = (0..RECORDS).map(|offset| record(partition, offset)).sum();
            if this.sum != expected {
                return fail(format!("partition {partition}: {} is not {expected}", this.sum));
            }
        }
        let records = RECORDS * PARTITIONS as u64;
        println!(
            "\nAll {records} records counted once: no gap, no overlap, and no epoch went back."
        );
        Ok(())
    }
}

impl fmt::Display for Commit {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Commit { partition, epoch, from, to, .. } = self;
        write!(f, "commit of {from}..{to} to partition {partition} in epoch {epoch}")
    }
}

impl fmt::Display for Refused {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Refused::OldEpoch { seen } => write!(f, "REFUSED, epoch {seen} has been here"),
            Refused::WrongOffset { next } => write!(f, "REFUSED, the next offset is {next}"),
        }
    }
}
