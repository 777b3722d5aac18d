//! Two processes and one SlateDB database. Only the leader has it open. The leader is stopped with
//! SIGSTOP until after its lease, the other takes over, and the first is continued and fenced.
//!
//! ```text
//! cargo run -p tenure-slatedb                        # on a temporary directory
//! cargo run -p tenure-slatedb -- s3://bucket/prefix  # on S3, settings as for the AWS CLI
//! cargo run -p tenure-slatedb -- shards              # 1,000 databases, shared by three processes; one is killed
//! cargo run -p tenure-slatedb -- shards --shards 20 s3://bucket/prefix
//! ```
//!
//! The lease keeps two writers from opening the database in turns and fencing one another off.
//! SlateDB itself keeps the data whole: opening the database raises the writer's epoch in its
//! manifest, and from then on every write of the previous writer is refused. A lease alone could
//! not do that: a process can stop between the check of its lease and its write.

mod child;
mod database;
mod place;
mod serve;
mod shards;
mod story;
mod writer;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

use place::Place;

/// Why it went wrong, to be read by people.
pub type Result<T> = std::result::Result<T, Box<dyn std::error::Error + Send + Sync>>;

#[derive(Debug, Parser)]
#[command(about = "A key-value writer that opens SlateDB only while it leads")]
struct Args {
    #[command(subcommand)]
    command: Option<Command>,
    /// Where the story plays: s3://bucket/prefix, or a directory. Default: a temporary directory.
    at: Option<String>,
}

#[derive(Debug, Subcommand)]
enum Command {
    /// Campaigns, opens the database while it leads, and writes a key every 100 ms.
    Write {
        /// s3://bucket/prefix, or a directory
        at: String,
        /// This writer's name
        #[arg(long)]
        name: String,
        /// Try one more write after the lease was lost, as a process does that was stopped between
        /// its check and its write
        #[arg(long)]
        late_write: bool,
    },
    /// Three processes share many databases as a group, and one of them is killed
    Shards {
        /// s3://bucket/prefix, or a directory. Default: a temporary directory.
        at: Option<String>,
        /// How many databases
        #[arg(long, default_value_t = 1000)]
        shards: u32,
    },
    /// Joins the group of all shards, and writes a key every 3 s to each that it owns.
    Serve {
        /// s3://bucket/prefix, or a directory
        at: String,
        /// This process's name
        #[arg(long)]
        name: String,
        /// How many databases
        #[arg(long)]
        shards: u32,
    },
}

#[tokio::main]
async fn main() -> ExitCode {
    let filter = tracing_subscriber::EnvFilter::try_from_default_env();
    let filter = filter.unwrap_or_else(|_| "off".into());
    tracing_subscriber::fmt().with_env_filter(filter).with_writer(std::io::stderr).init();
    // It fails if another was chosen before: nothing did.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let args = Args::parse();
    let done = match args.command {
        Some(Command::Write { at, name, late_write }) => {
            writer::write(&Place::parse(&at), &name, late_write).await
        }
        Some(Command::Serve { at, name, shards }) => {
            serve::serve(&Place::parse(&at), &name, shards).await
        }
        Some(Command::Shards { at, shards }) => shards::play(at.as_deref(), shards).await,
        None => story::play(args.at.as_deref()).await,
    };
    match done {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            eprintln!("tenure-slatedb: {error}");
            ExitCode::FAILURE
        }
    }
}
