//! `tenure table create`: creates the table of a DynamoDB store.

use clap::Subcommand;
use tenure::store::StoreOptions;

use super::exit::{self, Failure};
use crate::args::common::{RECORD_CODES, StoreArg};
use crate::store::url::{Kind, Place, Service, StoreUrl};

#[derive(Debug, clap::Args)]
pub struct TableArgs {
    #[command(subcommand)]
    pub verb: TableVerb,
}

#[derive(Debug, Subcommand)]
pub enum TableVerb {
    /// Create the table, billed per request, and wait until it is usable. An existing table does
    /// not change
    #[command(after_long_help = RECORD_CODES)]
    Create(StoreArg),
}

pub async fn table(args: TableArgs) -> Result<u8, Failure> {
    let TableVerb::Create(store) = &args.verb;
    let url = &store.one("table create")?;
    match url.place() {
        Place::In { service, name, options, .. } if service.kind == Kind::DynamoDb => {
            create(url, service, (name, &**options)).await
        }
        _ => {
            let why = format!("{url} has no table: write dynamodb://TABLE");
            Err(Failure::new(exit::USAGE, why))
        }
    }
}

#[cfg(feature = "dynamodb")]
async fn create(
    _: &StoreUrl,
    _: &Service,
    (table, options): (&str, &StoreOptions),
) -> Result<u8, Failure> {
    use std::time::Duration;

    use crate::output::print::print;

    let store = options.table(table).await;
    let mut made = false;
    // The service needs some seconds to create a table. During these seconds, a signal ends the
    // command.
    while !store.create_table().await? {
        made = true;
        crate::process::timer::pause(Duration::from_millis(500)).await;
    }
    let _ = print(&match made {
        true => format!("the table {table} was created"),
        false => format!("the table {table} exists already with suitable keys"),
    })?;
    Ok(0)
}

#[cfg(not(feature = "dynamodb"))]
async fn create(
    url: &StoreUrl,
    service: &Service,
    _: (&str, &StoreOptions),
) -> Result<u8, Failure> {
    let why = format!("{url}: {}", service.not_built());
    Err(super::exit::Failure::new(super::exit::USAGE, why))
}
