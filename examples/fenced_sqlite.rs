//! A ledger in a database that several processes can write, and only the leader should. Every
//! transaction carries the token, so a late transaction of a deposed leader changes nothing.
//!
//! ```text
//! cargo run --example fenced_sqlite                          # the election in a directory
//! cargo run --example fenced_sqlite -- s3://bucket/prefix    # the election on S3
//! ```
//!
//! The database keeps the greatest token it has seen in one row. Every transaction begins with
//!
//! ```sql
//! UPDATE fence SET fencing_token = ?1 WHERE name = 'ledger' AND fencing_token <= ?1
//! ```
//!
//! If that changes no row the token is stale, and the transaction is rolled back. The check and the
//! writes after it are one step, so nothing can come between them. `<=`, not `<`: a leader writes
//! many times under one token. docs/fencing.md has the same statements for PostgreSQL.
//!
//! Look for anna's late transfer: it comes after ben's first transaction, and is refused.

use rusqlite::{Connection, TransactionBehavior, params};
use tenure::{Election, Epoch, Leadership};
use tenure_fencing::Stale;

use support::{Place, Result, Timeline};

mod support;

#[tokio::main]
async fn main() -> Result<()> {
    let place = Place::from_args("fenced_sqlite").await?;
    let folder = tempfile::tempdir()?;
    let path = folder.path().join("ledger.db");
    println!("Two processes and one ledger; the election on {place}.");
    let timeline = Timeline::start();
    let mut annas = Ledger::open(&path)?;
    let mut bens = Ledger::open(&path)?;

    let anna = elect(&place, "anna").await?;
    timeline.say("anna", format_args!("leads epoch {}", anna.epoch()));
    annas.transfer(anna.epoch(), "rent", -700)?.expect("nobody is newer");
    timeline.say("anna", "books the rent: -700");

    // A check and the write after it are never one step: here anna's process is paused between
    // them, and her lease lapses.
    let token = anna.check()?;
    drop(anna);
    timeline.say("anna", "checks her lease, and is PAUSED before her next transaction");

    let ben = elect(&place, "ben").await?;
    timeline.say("ben", format_args!("leads epoch {}", ben.epoch()));
    // A new leader writes the fence before it reads: then no old leader can change what it reads.
    let balance = bens.take_over(ben.epoch())?.expect("ben is the newest");
    timeline.say("ben", format_args!("takes the ledger over at {balance}"));

    let stale = annas.transfer(token, "food", -60)?.expect_err("a zombie's write must not count");
    timeline.say(
        "anna",
        format_args!("books the food: REFUSED, epoch {} was here; she stops", stale.newest),
    );

    bens.transfer(ben.epoch(), "wages", 1_500)?.expect("ben is the newest");
    timeline.say("ben", "books the wages: 1500");
    ben.resign().await?;

    let rows = bens.rows()?;
    println!("\n  token  what     amount");
    for (token, what, amount) in &rows {
        println!("{token:>7}  {what:<6}  {amount:>7}");
    }
    assert_eq!(rows.len(), 2, "the late transfer is not there");
    println!("\nThe balance is {}: the late transfer left no trace.", bens.balance()?);
    Ok(())
}

async fn elect(place: &Place, name: &str) -> Result<Leadership> {
    let election = Election::builder(place.store.clone(), format!("{}/leader", place.prefix))
        .name(name)
        .validity(place.validity)
        .build()?;
    Ok(election.campaign().await?)
}

/// A refused token is a value, beside the errors of the database.
type OrStale<T> = std::result::Result<T, Stale>;

/// One process's connection.
struct Ledger {
    database: Connection,
}

impl Ledger {
    fn open(path: &std::path::Path) -> Result<Ledger> {
        let database = Connection::open(path)?;
        database.execute_batch(
            "CREATE TABLE IF NOT EXISTS fence (
                name TEXT PRIMARY KEY,
                fencing_token INTEGER NOT NULL
            );
            CREATE TABLE IF NOT EXISTS book (
                fencing_token INTEGER NOT NULL,
                what TEXT NOT NULL,
                amount INTEGER NOT NULL
            );
            INSERT OR IGNORE INTO fence VALUES ('ledger', 0);",
        )?;
        Ok(Ledger { database })
    }

    /// Books an amount.
    fn transfer(&mut self, token: Epoch, what: &str, amount: i64) -> Result<OrStale<()>> {
        self.fenced(token, |database| {
            let row = params![number(token), what, amount];
            database.execute("INSERT INTO book VALUES (?1, ?2, ?3)", row).map(drop)
        })
    }

    /// Raises the fence, and reads what the leader before has left.
    fn take_over(&mut self, token: Epoch) -> Result<OrStale<i64>> {
        self.fenced(token, balance)
    }

    /// The check of the token and the work are one transaction.
    fn fenced<T>(
        &mut self,
        token: Epoch,
        work: impl FnOnce(&Connection) -> rusqlite::Result<T>,
    ) -> Result<OrStale<T>> {
        // Immediate: waits for other writers here, and not after a read.
        let transaction =
            self.database.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let raise =
            "UPDATE fence SET fencing_token = ?1 WHERE name = 'ledger' AND fencing_token <= ?1";
        if transaction.execute(raise, [number(token)])? == 0 {
            let newest = "SELECT fencing_token FROM fence WHERE name = 'ledger'";
            let newest: i64 = transaction.query_row(newest, [], |row| row.get(0))?;
            let newest = u64::try_from(newest).ok().and_then(Epoch::new);
            let newest = newest.expect("only epochs are written there");
            return Ok(Err(Stale::new(token, newest)));
        }
        let done = work(&transaction)?;
        transaction.commit()?;
        Ok(Ok(done))
    }

    fn balance(&self) -> Result<i64> {
        Ok(balance(&self.database)?)
    }

    fn rows(&self) -> Result<Vec<(i64, String, i64)>> {
        let mut rows = self.database.prepare("SELECT * FROM book ORDER BY rowid")?;
        let rows = rows.query_map([], |row| Ok((row.get(0)?, row.get(1)?, row.get(2)?)))?;
        Ok(rows.collect::<rusqlite::Result<_>>()?)
    }
}

fn balance(database: &Connection) -> rusqlite::Result<i64> {
    database.query_row("SELECT coalesce(sum(amount), 0) FROM book", [], |row| row.get(0))
}

/// Ten digits at the most, so every integer column of a database can hold it.
fn number(token: Epoch) -> i64 {
    i64::try_from(token.get()).expect("an epoch has at most ten digits")
}
