//! A process that serves its share of many SlateDB databases: a member of a group whose partitions
//! are the databases.

use std::sync::Arc;
use std::time::Duration;

use slatedb::config::Settings;
use tenure_groups::Partition;
use tokio::signal::unix::{SignalKind, signal};
use tokio::sync::Semaphore;

use crate::Result;
use crate::database::{close, open, put};
use crate::place::Place;

/// Databases that are opened at once: each open is some ten requests.
const OPENS: usize = 16;
/// Between two writes to one database.
const BETWEEN_WRITES: Duration = Duration::from_secs(3);

/// Serves until SIGTERM. Prints `owns SHARD` once a database is open, and `acked SHARD KEY` only
/// once SlateDB has the key in the object store.
pub async fn serve(place: &Place, name: &str, shards: u32) -> Result<()> {
    let group = place.group(name, shards).await?;
    let leaving = group.clone();
    let mut terminate = signal(SignalKind::terminate())?;
    tokio::spawn(async move {
        terminate.recv().await;
        leaving.leave();
    });
    let (place, opens) = (Arc::new(place.clone()), Arc::new(Semaphore::new(OPENS)));
    group
        .run(async |shard| {
            // In tasks of their own they use all processors.
            tokio::spawn(work(Arc::clone(&place), Arc::clone(&opens), shard)).await?
        })
        .await?;
    Ok(())
}

/// One database, from the grant to the release: it is closed before this returns.
async fn work(place: Arc<Place>, opens: Arc<Semaphore>, shard: Partition) -> Result<()> {
    let db = {
        let _permit = opens.acquire().await?;
        // There may have been a wait.
        shard.check()?;
        open(&place, &database(shard.name()), settings()).await?
    };
    let outcome = put_keys(&db, &shard).await;
    // What was not acknowledged by now need not be written any more.
    close(&db).await;
    outcome
}

async fn put_keys(db: &slatedb::Db, shard: &Partition) -> Result<()> {
    // A process that was stopped during the open has fenced its successor, which then opens the
    // database again. No data is at risk, but both lose time.
    shard.check()?;
    println!("owns {} {}", shard.name(), shard.token());
    let revoked = shard.revoked();
    for number in 0.. {
        if revoked.is_cancelled() {
            break;
        }
        // The token is part of the key: no two owners write the same.
        let key = format!("{:010}/{number:06}", shard.token().get());
        match put(db, &key).await {
            Ok(()) => println!("acked {} {key}", shard.name()),
            // Fenced while it owns the shard: by a process that had lost it during its open. The
            // error releases the shard, and its next owner opens the database again.
            Err(error) => return Err(error.into()),
        }
        tokio::select! {
            () = revoked.cancelled() => break,
            () = tokio::time::sleep(BETWEEN_WRITES) => {}
        }
    }
    Ok(())
}

fn settings() -> Settings {
    // The default, 1 s, would be 1,000 LISTs a second for 1,000 databases. A writer that was fenced
    // learns that from its next write.
    Settings { manifest_poll_interval: Duration::from_secs(60), ..Settings::default() }
}

/// The name of a shard's database.
pub fn database(shard: &str) -> String {
    format!("shard-{shard}")
}
