//! A database whose manifests are numbered objects, written by the leader alone, as in SlateDB. A
//! leader that pauses between its check and its write is fenced by the manifests themselves.
//!
//! ```text
//! cargo run --example manifest_writer                          # on a temporary directory
//! cargo run --example manifest_writer -- s3://bucket/prefix    # on S3, settings as for the AWS CLI
//! ```
//!
//! An object store refuses no token by itself, but it refuses to create an object twice. So each
//! change is a new object `manifest/%020d.json`, created with `If-None-Match` under the next number,
//! which carries its writer's epoch; and a new leader writes one before all else. From then on every
//! older writer runs into a number that is taken, reads there a greater epoch than its own, and
//! stops.
//!
//! Look for anna's two late writes. The first comes before ben has opened the database: it counts,
//! and ben builds on it. The second comes after, and is refused.
//!
//! Nothing is deleted here. Who deletes old manifests must also list after each create, as a
//! campaign does, or a late writer could fill a number that was freed.

use std::fmt;
use std::sync::Arc;

use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tenure::store::{GetOutcome, PutOutcome, Store};
use tenure::{Election, Epoch, Leadership};

use support::{Place, Result, Timeline, fail};

mod support;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("manifest_writer").await?;
    println!("Two processes and one database, on {place}.");
    let timeline = Timeline::start();
    let manifests = Manifests { store: Arc::clone(&place.store), prefix: place.prefix.clone() };

    let anna = elect(&place, "anna").await?;
    timeline.say("anna", format_args!("leads epoch {}", anna.epoch()));
    let mut annas = Writer::open(&manifests, anna.epoch()).await?.expect("nobody is newer");
    timeline.say("anna", format_args!("opens the database: {}", annas.last));
    for file in ["a1.sst", "a2.sst"] {
        annas.add(file).await?.expect("nobody is newer");
        timeline.say("anna", format_args!("adds {file}: {}", annas.last));
    }

    // A check and the write after it are never one step: here anna's process stands still between
    // them, and her lease lapses.
    assert!(anna.check().is_ok());
    drop(anna);
    timeline.say("anna", "checks her lease, and is PAUSED before her next write");

    let ben = elect(&place, "ben").await?;
    timeline.say("ben", format_args!("leads epoch {}", ben.epoch()));

    annas.add("a3.sst").await?.expect("ben has not written yet");
    timeline.say("anna", format_args!("goes on, and adds a3.sst: {}", annas.last));

    let mut bens = Writer::open(&manifests, ben.epoch()).await?.expect("ben is the newest");
    timeline.say("ben", format_args!("opens the database: {}", bens.last));
    assert!(bens.last.files.iter().any(|file| file == "a3.sst"), "what counted is not lost");

    let fenced = annas.add("a4.sst").await?.expect_err("a zombie's write must not count");
    timeline.say("anna", format_args!("adds a4.sst: REFUSED, {fenced}; she stops"));
    assert_eq!(fenced.by, ben.epoch());

    bens.add("b1.sst").await?.expect("ben is the newest");
    timeline.say("ben", format_args!("adds b1.sst: {}", bens.last));
    let fenced = Writer::open(&manifests, annas.last.epoch).await?.expect_err("nor an open");
    timeline.say("anna", format_args!("opens the database again: REFUSED, {fenced}"));
    ben.resign().await?;

    let all = manifests.all().await?;
    println!("\n  manifest  epoch  files");
    for manifest in &all {
        let Manifest { number, epoch, files } = manifest;
        let files = if files.is_empty() { "-".to_owned() } else { files.join(" ") };
        println!("{number:>10}  {epoch:>5}  {files}");
    }
    assert!(all.windows(2).all(|two| two[0].epoch <= two[1].epoch), "epochs never go back");
    assert!(all.iter().zip(1..).all(|(manifest, number)| manifest.number == number), "no gap");
    assert_eq!(
        all.last().map(|last| last.files.join(" ")).as_deref(),
        Some("a1.sst a2.sst a3.sst b1.sst")
    );
    println!(
        "\nThe epochs never go back, and every write that was told to have succeeded is there."
    );
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

/// A lost race is a value, beside the errors of the store.
type OrFenced<T> = std::result::Result<T, Fenced>;

/// One state of the database.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
struct Manifest {
    number: u64,
    /// The fencing token of its writer.
    epoch: Epoch,
    files: Vec<String>,
}

/// A greater epoch has written: this writer is of the past, for ever.
#[derive(Debug)]
struct Fenced {
    number: u64,
    by: Epoch,
}

/// Writes manifests under one epoch. After an error of the store a call can be repeated.
#[derive(Debug)]
struct Writer<'a> {
    manifests: &'a Manifests,
    epoch: Epoch,
    last: Manifest,
}

impl<'a> Writer<'a> {
    /// Takes over from the writer before: reads what it left, and writes that again under the own
    /// epoch. Whatever that writer has not written by now it will not write any more.
    async fn open(manifests: &'a Manifests, epoch: Epoch) -> Result<OrFenced<Writer<'a>>> {
        let mut writer =
            Writer { manifests, epoch, last: Manifest { number: 0, epoch, files: Vec::new() } };
        loop {
            if let Some(newest) = manifests.newest().await? {
                if newest.epoch > epoch {
                    return Ok(Err(Fenced { number: newest.number, by: newest.epoch }));
                }
                writer.last = Manifest { epoch, ..newest };
            }
            let files = writer.last.files.clone();
            match writer.write(files).await? {
                Ok(()) => return Ok(Ok(writer)),
                // The writer before was quicker: what it wrote counts.
                Err(fenced) if fenced.by < epoch => {}
                Err(fenced) => return Ok(Err(fenced)),
            }
        }
    }

    async fn add(&mut self, file: &str) -> Result<OrFenced<()>> {
        let mut files = self.last.files.clone();
        files.push(file.to_owned());
        self.write(files).await
    }

    async fn write(&mut self, files: Vec<String>) -> Result<OrFenced<()>> {
        let next = Manifest { number: self.last.number + 1, epoch: self.epoch, files };
        if !self.manifests.create(&next).await? {
            let there = self.manifests.read(&self.manifests.key(next.number)).await?;
            // The same is our own: an earlier attempt took effect, although its answer was lost.
            if there != next {
                return Ok(Err(Fenced { number: there.number, by: there.epoch }));
            }
        }
        self.last = next;
        Ok(Ok(()))
    }
}

/// The objects `manifest/%020d.json`.
#[derive(Debug)]
struct Manifests {
    store: Arc<dyn Store>,
    prefix: String,
}

impl Manifests {
    fn key(&self, number: u64) -> String {
        format!("{}/manifest/{number:020}.json", self.prefix)
    }

    /// False if this number is taken.
    async fn create(&self, manifest: &Manifest) -> Result<bool> {
        let body = Bytes::from(serde_json::to_vec(manifest)?);
        match self.store.create(&self.key(manifest.number), body).await? {
            PutOutcome::Done { .. } => Ok(true),
            PutOutcome::Refused | PutOutcome::Missing => Ok(false),
        }
    }

    async fn read(&self, key: &str) -> Result<Manifest> {
        match self.store.get(key, None, 1 << 20).await? {
            GetOutcome::Found(object) => Ok(serde_json::from_slice(&object.body)?),
            other => fail(format!("{key} cannot be read: {other:?}")),
        }
    }

    async fn newest(&self) -> Result<Option<Manifest>> {
        match self.keys().await?.last() {
            Some(key) => Ok(Some(self.read(key).await?)),
            None => Ok(None),
        }
    }

    async fn all(&self) -> Result<Vec<Manifest>> {
        let mut all = Vec::new();
        for key in self.keys().await? {
            all.push(self.read(&key).await?);
        }
        Ok(all)
    }

    async fn keys(&self) -> Result<Vec<String>> {
        let prefix = format!("{}/manifest/", self.prefix);
        let mut keys: Vec<String> = Vec::new();
        loop {
            let after = keys.last().cloned().unwrap_or_default();
            let page = self.store.list(&prefix, &after, 1_000).await?;
            keys.extend(page.entries.into_iter().map(|entry| entry.key));
            if !page.truncated {
                return Ok(keys);
            }
        }
    }
}

impl fmt::Display for Manifest {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manifest {} of epoch {}", self.number, self.epoch)
    }
}

impl fmt::Display for Fenced {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "manifest {} is of epoch {}", self.number, self.by)
    }
}
