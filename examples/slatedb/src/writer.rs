//! The key-value writer: what a real one looks like, in one file.

use std::time::Duration;

use slatedb::Db;
use slatedb::config::Settings;
use tenure::{Epoch, Leadership};

use crate::Result;
use crate::database::{close, is_fenced, open, put};
use crate::place::Place;

/// Why it stopped writing.
enum Stopped {
    /// The lease is lost; the database was still open.
    Lost(tenure::Loss),
    /// Another writer has opened the database.
    Fenced,
    /// SIGTERM.
    Told,
}

/// Campaigns until it is stopped, and writes while leading. Prints a line for each thing that
/// happens, and `acked KEY` only once SlateDB has the key in the object store.
pub async fn write(place: &Place, name: &str, late_write: bool) -> Result<()> {
    let election = place.election(name).await?;
    let mut told = tokio::signal::unix::signal(tokio::signal::unix::SignalKind::terminate())?;
    let mut late_write = late_write;
    loop {
        let leadership = tokio::select! {
            leadership = election.campaign() => leadership?,
            _ = told.recv() => return Ok(()),
        };
        println!("leads {}", leadership.epoch());
        // Opening fences the previous writer. A process that was stopped since it was elected would
        // so fence its own successor, which then opens the database again. No data is at risk, but
        // both lose time: so check the lease right after.
        // A put is acknowledged after this and a request.
        let flush_interval = Some(Duration::from_millis(20));
        let settings = Settings { flush_interval, ..Settings::default() };
        let db = open(place, "db", settings).await?;
        if let Err(loss) = leadership.check() {
            println!("lost {}", loss.outcome());
            close(&db).await;
            continue;
        }
        println!("opened");
        let stopped = tokio::select! {
            stopped = put_keys(&db, &leadership) => stopped?,
            _ = told.recv() => Stopped::Told,
        };
        match &stopped {
            Stopped::Lost(loss) => println!("lost {}", loss.outcome()),
            Stopped::Fenced => println!("fenced"),
            Stopped::Told => {}
        }
        if late_write && matches!(stopped, Stopped::Lost(_)) {
            late_write = false;
            match put(&db, &key(leadership.epoch(), "late")).await {
                Ok(()) => println!("acked {}", key(leadership.epoch(), "late")),
                Err(error) if is_fenced(&error) => println!("fenced"),
                Err(error) => return Err(error.into()),
            }
        }
        // What was not acknowledged by now need not be written any more.
        close(&db).await;
        println!("closed");
        match stopped {
            Stopped::Told => return Ok(leadership.resign().await?),
            // The lease is held: a process that does not lead opened the database.
            Stopped::Fenced if leadership.check().is_ok() => leadership.resign().await?,
            Stopped::Fenced | Stopped::Lost(_) => {}
        }
    }
}

async fn put_keys(db: &Db, leadership: &Leadership) -> Result<Stopped> {
    let write = async {
        for number in 0.. {
            let key = key(leadership.epoch(), &format!("{number:06}"));
            match put(db, &key).await {
                Ok(()) => println!("acked {key}"),
                Err(error) if is_fenced(&error) => return Ok(Stopped::Fenced),
                Err(error) => return Err(error.into()),
            }
            tokio::time::sleep(Duration::from_millis(100)).await;
        }
        unreachable!("the numbers do not end")
    };
    tokio::select! {
        biased;
        loss = leadership.lost() => Ok(Stopped::Lost(loss)),
        stopped = write => stopped,
    }
}

/// The epoch is part of the key, so that the final check can tell who wrote what.
fn key(epoch: Epoch, what: &str) -> String {
    format!("{:010}/{what}", epoch.get())
}
