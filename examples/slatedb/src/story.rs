//! What happens to the two writers, and what must be true of the database in the end.

use std::collections::BTreeSet;
use std::time::Instant;

use nix::sys::signal::Signal;
use slatedb::DbReader;

use crate::Result;
use crate::child::Writer;
use crate::place::Place;

pub async fn play(at: Option<&str>) -> Result<()> {
    // Removed in the end.
    let folder = tempfile::Builder::new().prefix("tenure-slatedb-").tempdir()?;
    let place = match at {
        None => Place::Dir(folder.path().to_owned()),
        Some(at) => Place::parse(at).below(&format!("run-{}", std::process::id())),
    };
    println!("Two writers and one SlateDB database, on {place}.\n\n    time  who   what");
    let start = Instant::now();
    let tell = |who: &str, what: &str| {
        println!("{:>6.2} s  {who:<4}  {what}", start.elapsed().as_secs_f64());
    };

    let mut anna = Writer::start(&place, "anna", true)?;
    let epoch = anna.says("leads").await?;
    tell("anna", &format!("leads epoch {epoch}"));
    anna.says("opened").await?;
    tell("anna", "opens the database");
    let mut ben = Writer::start(&place, "ben", false)?;
    let key = anna.says("acked").await?;
    tell("anna", &format!("writes {key}, and goes on"));
    for _ in 0..5 {
        anna.says("acked").await?;
    }

    anna.signal(Signal::SIGSTOP)?;
    tell("anna", "is STOPPED in the midst of it; her lease runs out");
    let epoch = ben.says("leads").await?;
    tell("ben", &format!("leads epoch {epoch}"));
    ben.says("opened").await?;
    tell("ben", "opens the database, which fences anna");
    let key = ben.says("acked").await?;
    tell("ben", &format!("writes {key}, and goes on"));

    anna.signal(Signal::SIGCONT)?;
    tell("anna", "GOES ON, and writes as if nothing had been");
    anna.says("fenced").await?;
    tell("anna", "is FENCED: SlateDB refuses the write");
    anna.says("closed").await?;
    tell("anna", "closes the database, and follows");

    for _ in 0..5 {
        ben.says("acked").await?;
    }
    // First the one that follows, or it would lead once more.
    anna.end().await?;
    ben.end().await?;
    tell("ben", "closes the database, resigns, and ends");

    check(&place, &anna, &ben).await
}

/// Every key that was acknowledged is there, and no other but what was never answered.
async fn check(place: &Place, anna: &Writer, ben: &Writer) -> Result<()> {
    let (objects, path) = place.database("db")?;
    let reader = DbReader::builder(path, objects).build().await?;
    let mut rows = reader.scan::<std::ops::RangeFull>(..).await?;
    let mut found = BTreeSet::new();
    while let Some(row) = rows.next().await? {
        found.insert(String::from_utf8(row.key.to_vec())?);
    }
    reader.close().await?;
    let lost: Vec<&String> = [anna, ben]
        .into_iter()
        .flat_map(|it| &it.acked)
        .filter(|key| !found.contains(*key))
        .collect();
    let (annas, bens) = (anna.acked.len(), ben.acked.len());
    println!(
        "\nAcknowledged: {annas} keys to anna, {bens} to ben. In the database: {}.",
        found.len()
    );
    if !lost.is_empty() {
        return Err(format!("acknowledged and not there: {lost:?}").into());
    }
    if found.iter().any(|key| key.ends_with("late")) {
        return Err("a write was taken from a writer that was fenced".into());
    }
    println!("Every acknowledged key is there, and the late write is not.");
    Ok(())
}
