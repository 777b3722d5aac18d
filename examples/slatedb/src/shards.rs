//! What happens to the three processes that share the shards, and what must be true of the
//! databases in the end.

use std::collections::{BTreeMap, BTreeSet};
use std::sync::Arc;
use std::time::{Duration, Instant};

use nix::sys::signal::Signal;
use slatedb::DbReader;
use tokio::process::Child;
use tokio::sync::{Semaphore, mpsc};
use tokio::task::JoinSet;

use crate::Result;
use crate::child::{signal, start};
use crate::place::Place;
use crate::serve::database;

/// Longer than 1,000 databases take to open in a debug build on a busy machine.
const PATIENCE: Duration = Duration::from_secs(300);

pub async fn play(at: Option<&str>, shards: u32) -> Result<()> {
    // Removed in the end.
    let folder = tempfile::Builder::new().prefix("tenure-slatedb-").tempdir()?;
    let place = match at {
        None => Place::Dir(folder.path().to_owned()),
        Some(at) => Place::parse(at).below(&format!("run-{}", std::process::id())),
    };
    println!("Three processes and {shards} SlateDB databases, on {place}.\n\n    time  what");
    let began = Instant::now();
    let tell = |what: &str| println!("{:>6.2} s  {what}", began.elapsed().as_secs_f64());

    let mut fleet = Fleet::new(shards);
    for name in ["anna", "ben", "cleo"] {
        fleet.start(&place, name)?;
    }
    fleet.until_shared_by(&["anna", "ben", "cleo"]).await?;
    tell(&format!("each database is open, and written to: {}", fleet.counts()));

    let before = fleet.owners();
    // In the midst of many writes, of which she has acknowledged some.
    let acked = fleet.acked("anna") + 20;
    fleet.until("anna writes", |fleet| fleet.acked("anna") >= acked).await?;
    fleet.kill("anna").await?;
    tell("anna is KILLED while she writes");
    fleet.until_shared_by(&["ben", "cleo"]).await?;
    tell(&format!("each database is open again, and written to: {}", fleet.counts()));
    let moved = fleet.owners().iter().zip(&before).filter(|(now, before)| now != before).count();
    tell(&format!("{moved} databases have moved"));

    fleet.end().await?;
    tell("ben and cleo have closed theirs, resigned and ended");
    fleet.check(&place).await
}

/// The processes, and what they have said.
struct Fleet {
    shards: Vec<Shard>,
    processes: BTreeMap<&'static str, Child>,
    /// How many keys each has reported.
    acked: BTreeMap<&'static str, usize>,
    said: mpsc::UnboundedReceiver<(&'static str, String)>,
    says: mpsc::UnboundedSender<(&'static str, String)>,
}

#[derive(Default)]
struct Shard {
    owner: Option<(u64, &'static str)>,
    /// All keys that any owner has reported as acknowledged.
    acked: Vec<String>,
    /// Whether one of them is of this owner.
    is_written: bool,
}

impl Fleet {
    fn new(shards: u32) -> Fleet {
        let shards = (0..shards).map(|_| Shard::default()).collect();
        let (says, said) = mpsc::unbounded_channel();
        Fleet { shards, processes: BTreeMap::new(), acked: BTreeMap::new(), said, says }
    }

    fn start(&mut self, place: &Place, name: &'static str) -> Result<()> {
        let shards = self.shards.len().to_string();
        let (process, mut lines) = start("serve", place, name, &["--shards", &shards])?;
        let says = self.says.clone();
        tokio::spawn(async move {
            while let Ok(Some(line)) = lines.next_line().await {
                if says.send((name, line)).is_err() {
                    return;
                }
            }
        });
        self.processes.insert(name, process);
        Ok(())
    }

    fn hear(&mut self, name: &'static str, line: &str) -> Result<()> {
        let [what, shard, rest] = line.split(' ').collect::<Vec<_>>()[..] else {
            return Err(format!("{name} has said {line:?}").into());
        };
        let shard = self.shards.get_mut(shard.parse::<usize>()?).ok_or("no such shard")?;
        let owner = shard.owner.map_or(0, |(token, _)| token);
        if what == "owns" {
            let token = rest.parse()?;
            if token > owner {
                (shard.owner, shard.is_written) = (Some((token, name)), false);
            }
        } else {
            shard.is_written |= rest.starts_with(&format!("{owner:010}/"));
            shard.acked.push(rest.to_owned());
            *self.acked.entry(name).or_default() += 1;
        }
        Ok(())
    }

    /// Hears what the processes say until this holds.
    async fn until(&mut self, what: &str, holds: impl Fn(&Fleet) -> bool) -> Result<()> {
        let deadline = tokio::time::Instant::now() + PATIENCE;
        while !holds(self) {
            let heard = tokio::time::timeout_at(deadline, self.said.recv()).await;
            let late = |_| format!("not within {PATIENCE:?}: {what}; it is {}", self.counts());
            let (name, line) = heard.map_err(late)?.ok_or("all processes have ended")?;
            self.hear(name, &line)?;
        }
        Ok(())
    }

    /// Waits until each database is written to by one of these, and none has more than its share.
    async fn until_shared_by(&mut self, names: &[&str]) -> Result<()> {
        self.until("shared", |fleet| fleet.is_shared_by(names)).await
    }

    fn acked(&self, name: &str) -> usize {
        self.acked.get(name).copied().unwrap_or_default()
    }

    fn is_shared_by(&self, names: &[&str]) -> bool {
        let share = self.shards.len().div_ceil(names.len());
        let owned = |name| self.owners().iter().filter(|owner| **owner == Some(name)).count();
        self.shards.iter().all(|shard| shard.is_written)
            && names.iter().all(|name| owned(name) <= share)
            && names.iter().map(|name| owned(name)).sum::<usize>() == self.shards.len()
    }

    fn owners(&self) -> Vec<Option<&'static str>> {
        self.shards.iter().map(|shard| shard.owner.map(|(_, name)| name)).collect()
    }

    fn counts(&self) -> String {
        let mut counts = BTreeMap::new();
        for owner in self.owners() {
            *counts.entry(owner.unwrap_or("nobody")).or_insert(0) += 1;
        }
        let counts: Vec<_> = counts.iter().map(|(name, count)| format!("{name} {count}")).collect();
        counts.join(", ")
    }

    async fn kill(&mut self, name: &str) -> Result<()> {
        let mut process = self.processes.remove(name).ok_or("there is no such process")?;
        Ok(process.kill().await?)
    }

    /// Asks all to end, and reads what they still have to say.
    async fn end(&mut self) -> Result<()> {
        for process in self.processes.values() {
            signal(process, Signal::SIGTERM)?;
        }
        for (name, process) in &mut self.processes {
            let status = tokio::time::timeout(PATIENCE, process.wait()).await??;
            if !status.success() {
                return Err(format!("{name} ended: {status}").into());
            }
        }
        // The last sender of the last reader closes the channel.
        self.says = mpsc::unbounded_channel().0;
        while let Some((name, line)) = self.said.recv().await {
            self.hear(name, &line)?;
        }
        Ok(())
    }

    /// Every key that was acknowledged is there.
    async fn check(self, place: &Place) -> Result<()> {
        let (readers, place) = (Arc::new(Semaphore::new(8)), Arc::new(place.clone()));
        let mut checks = JoinSet::new();
        let (databases, mut keys) = (self.shards.len(), 0);
        for (number, shard) in self.shards.into_iter().enumerate() {
            keys += shard.acked.len();
            let (readers, place) = (Arc::clone(&readers), Arc::clone(&place));
            checks.spawn(async move {
                let _permit = readers.acquire().await?;
                let found = keys_of(&place, &database(&number.to_string())).await?;
                let lost: Vec<_> = shard.acked.iter().filter(|key| !found.contains(*key)).collect();
                if !lost.is_empty() {
                    return Err(format!("acknowledged and not in {number}: {lost:?}").into());
                }
                Result::Ok(())
            });
        }
        while let Some(check) = checks.join_next().await {
            check??;
        }
        println!(
            "\n{keys} keys were acknowledged in {databases} databases, and every one is there."
        );
        Ok(())
    }
}

async fn keys_of(place: &Place, database: &str) -> Result<BTreeSet<String>> {
    let (objects, path) = place.database(database)?;
    let reader = DbReader::builder(path, objects).build().await?;
    let mut rows = reader.scan::<std::ops::RangeFull>(..).await?;
    let mut found = BTreeSet::new();
    while let Some(row) = rows.next().await? {
        found.insert(String::from_utf8(row.key.to_vec())?);
    }
    reader.close().await?;
    Ok(found)
}
