//! What both kinds of processes do with a SlateDB database.

use slatedb::config::{CloseOptions, Settings};
use slatedb::{CloseReason, Db, Error, ErrorKind};

use crate::Result;
use crate::place::Place;

/// Opens a database, which fences its previous writer.
pub async fn open(place: &Place, name: &str, settings: Settings) -> Result<Db> {
    let (objects, path) = place.database(name)?;
    let settings =
        Settings { compactor_options: None, garbage_collector_options: None, ..settings };
    Ok(Db::builder(path, objects).with_settings(settings).build().await?)
}

/// Closes it without writing what has not been acknowledged.
pub async fn close(db: &Db) {
    // It may be closed already, by the fence.
    let _ = db.close_with_options(CloseOptions { flush_type: None }).await;
}

/// Returns once SlateDB has the key in the object store.
pub async fn put(db: &Db, key: &str) -> std::result::Result<(), Error> {
    db.put(key, key).await?.await_durable().await.map(drop)
}

/// Whether another writer has opened the database.
pub fn is_fenced(error: &Error) -> bool {
    error.kind() == ErrorKind::Closed(CloseReason::Fenced)
}
