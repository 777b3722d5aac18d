//! A ledger in SQLite that only the leader changes. Each transaction checks the token.
//!
//! ```text
//! cargo run --example fenced_sqlite -- s3://my-bucket/ledger
//! ```
//!
//! One row keeps the greatest token of all writers. The work and the check of the token are one
//! transaction, so no other write can occur between them. docs/how-to/fence-a-database.md has the
//! statements for PostgreSQL.

use std::error::Error;

use rusqlite::{Connection, TransactionBehavior, params};
use tenure::{Election, Epoch};

const TABLES: &str = "
    CREATE TABLE IF NOT EXISTS fence (name TEXT PRIMARY KEY, token INTEGER NOT NULL);
    CREATE TABLE IF NOT EXISTS book (token INTEGER NOT NULL, what TEXT, amount INTEGER);
    INSERT OR IGNORE INTO fence VALUES ('ledger', 0);";

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error>> {
    let mut arguments = std::env::args().skip(1);
    let url = arguments.next().unwrap_or("file:///tmp/ledger".to_owned());
    let mut database = Connection::open(arguments.next().unwrap_or("/tmp/ledger.db".to_owned()))?;
    database.execute_batch(TABLES)?;
    let (store, prefix) = tenure::store::open(&url).await?;
    let leadership = Election::builder(store, prefix).build()?.campaign().await?;

    let token = leadership.check()?; // sends no request; avoids a transaction that would be refused
    let sum = fenced(&mut database, token, |database| {
        let row = params![token.get().cast_signed(), "wages", 1_500];
        database.execute("INSERT INTO book VALUES (?1, ?2, ?3)", row)?;
        database.query_row("SELECT sum(amount) FROM book", [], |row| row.get::<_, i64>(0))
    })?;
    println!("the balance is {sum}");
    leadership.resign().await?;
    Ok(())
}

/// Runs `work` in a transaction. Returns an error if the database has seen a greater token.
fn fenced<T>(
    database: &mut Connection,
    token: Epoch,
    work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
) -> Result<T, Box<dyn Error>> {
    // An immediate transaction waits for other writers at its start, not after its first read.
    let transaction = database.transaction_with_behavior(TransactionBehavior::Immediate)?;
    // The comparison is `<=` and not `<`, because a leader writes several times with one token.
    let raise = "UPDATE fence SET token = ?1 WHERE name = 'ledger' AND token <= ?1";
    if transaction.execute(raise, [token.get().cast_signed()])? == 0 {
        return Err(format!("token {token} is stale: another process leads").into());
    }
    let done = work(&transaction)?;
    transaction.commit()?;
    Ok(done)
}
