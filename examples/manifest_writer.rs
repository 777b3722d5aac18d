//! A database whose manifests are entries of a fenced log, written by the leader alone, as in
//! SlateDB. A leader that pauses between its check and its write is fenced by the log itself.
//!
//! ```text
//! cargo run --example manifest_writer                          # on a temporary directory
//! cargo run --example manifest_writer -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! An object store refuses no token by itself, but it refuses to create an object twice. So each
//! entry of a [`FencedLog`] is a new object `manifest/%020d`, created with `If-None-Match` under
//! the next number, which carries its writer's epoch; and a new leader claims the log before all
//! else. From then on every older writer runs into a number that is taken, reads there a greater
//! epoch than its own, and stops.
//!
//! Look for anna's two late writes. The first comes before ben has opened the database: it counts,
//! and ben builds on it. The second comes after, and is refused, although all that lies between was
//! trimmed by then.

use std::sync::Arc;

use futures::TryStreamExt as _;
use serde::{Deserialize, Serialize};
use tenure::{Election, Epoch, Leadership};
use tenure_fencing::{FencedLog, FencingError, LogEntry, LogWriter};

use support::{Place, Result, Timeline, fail};

mod support;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("manifest_writer").await?;
    println!("Two processes and one database, on {place}.");
    let timeline = Timeline::start();
    let log = FencedLog::new(Arc::clone(&place.store), format!("{}/manifest", place.prefix))?;

    let anna = elect(&place, "anna").await?;
    timeline.say("anna", format_args!("leads epoch {}", anna.epoch()));
    let mut annas = Database::open(&log, anna.epoch()).await?;
    timeline.say("anna", format_args!("opens the database: {}", annas.state()));
    for file in ["a1.sst", "a2.sst"] {
        let number = annas.add(file).await?;
        timeline.say("anna", format_args!("adds {file}: manifest {number}"));
    }

    // A check and the write after it are never one step: here anna's process is paused between
    // them, and her lease lapses.
    assert!(anna.check().is_ok());
    drop(anna);
    timeline.say("anna", "checks her lease, and is PAUSED before her next write");

    let ben = elect(&place, "ben").await?;
    timeline.say("ben", format_args!("leads epoch {}", ben.epoch()));

    let number = annas.add("a3.sst").await?;
    timeline.say("anna", format_args!("goes on, and adds a3.sst: manifest {number}"));

    let mut bens = Database::open(&log, ben.epoch()).await?;
    timeline.say("ben", format_args!("opens the database: {}", bens.state()));
    let number = bens.add("b1.sst").await?;
    timeline.say("ben", format_args!("adds b1.sst: manifest {number}"));
    show(&log).await?;

    let oldest = log.trim(number).await?;
    timeline.say("ben", format_args!("trims the log: manifest {oldest} is the oldest now"));
    match annas.add("a4.sst").await {
        Err(FencingError::Stale { stale, .. }) => {
            timeline.say("anna", format_args!("goes on, and adds a4.sst: REFUSED, {stale}"));
        }
        other => return fail(format!("anna's late write should be refused: {other:?}")),
    }
    ben.resign().await?;

    let entries = show(&log).await?;
    let [last] = &entries[..] else { return fail(format!("one is left: {entries:?}")) };
    assert_eq!(Manifest::of(last)?.files.join(" "), "a1.sst a2.sst a3.sst b1.sst");
    println!("\nEvery write that was told to have succeeded is there.");
    Ok(())
}

async fn elect(place: &Place, name: &str) -> Result<Leadership> {
    let prefix = format!("{}/leader", place.prefix);
    let election = Election::builder(Arc::clone(&place.store), prefix)
        .name(name)
        .validity(place.validity)
        .build()?;
    Ok(election.campaign().await?)
}

/// Prints the entries that are left.
async fn show(log: &FencedLog) -> Result<Vec<LogEntry>> {
    let entries: Vec<_> = log.read_from(log.oldest().await?).try_collect().await?;
    println!("\n  manifest  epoch  files");
    for entry in &entries {
        let files = Manifest::of(entry)?.files.join(" ");
        println!("{:>10}  {:>5}  {files}", entry.number, entry.epoch);
    }
    println!();
    assert!(entries.windows(2).all(|two| two[0].epoch <= two[1].epoch), "epochs never go back");
    Ok(entries)
}

/// One state of the database.
#[derive(Debug, Clone, Default, Serialize, Deserialize)]
struct Manifest {
    files: Vec<String>,
}

impl Manifest {
    fn of(entry: &LogEntry) -> Result<Manifest> {
        Ok(serde_json::from_slice(&entry.body)?)
    }
}

/// The database, as its writer under one epoch knows it. After an error open it again: what was
/// written may be more than this knows.
#[derive(Debug)]
struct Database {
    log: LogWriter,
    manifest: Manifest,
}

impl Database {
    /// Takes over from the previous writer, which cannot write any more: what is read now is the
    /// state to build on.
    async fn open(log: &FencedLog, epoch: Epoch) -> Result<Database> {
        let mut log = log.open(epoch).await?;
        let manifest = match log.latest().await? {
            Some(entry) => Manifest::of(&entry)?,
            None => Manifest::default(),
        };
        Ok(Database { log, manifest })
    }

    /// Adds a file, and returns the number of the manifest that lists it.
    async fn add(&mut self, file: &str) -> std::result::Result<u64, FencingError> {
        let mut manifest = self.manifest.clone();
        manifest.files.push(file.to_owned());
        let body = serde_json::to_vec(&manifest).expect("a list of strings is JSON");
        let number = self.log.append(body).await?;
        self.manifest = manifest;
        Ok(number)
    }

    fn state(&self) -> String {
        match self.log.last() {
            Some(number) => format!("manifest {number}, with {}", self.manifest.files.join(" ")),
            None => "it is empty".to_owned(),
        }
    }
}
