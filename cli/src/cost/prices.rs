//! The price lists. They are built in, with their sources, or come from the file given with
//! `--prices`.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::requests::Requests;
use crate::exit::{self, Failure};
use crate::store::url::Place;

/// The price list of one service. Each price is for a million requests.
#[derive(Debug, Clone, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub name: String,
    /// Price of creates and replaces. Refused requests have the same price.
    write: f64,
    list: f64,
    /// Price of reads. A poll that finds no change is also a read.
    read: f64,
    /// Price of deletions. One deletion removes up to 1,000 keys. If `delete_by_key` is true, this
    /// is the price of a million deleted keys.
    delete: f64,
    #[serde(default)]
    delete_by_key: bool,
    #[serde(default = "usd")]
    pub currency: String,
    /// The first day on which the prices apply, or the day on which they were retrieved.
    #[serde(default)]
    pub date: String,
    #[serde(default)]
    pub source: String,
}

fn usd() -> String {
    "USD".to_owned()
}

impl Prices {
    /// Returns the price of these requests, in the currency of this list.
    pub fn cost(&self, [writes, lists, reads, deletes, keys]: Requests) -> f64 {
        let deletes = if self.delete_by_key { keys } else { deletes };
        let of_each = [(writes, self.write), (lists, self.list), (reads, self.read)];
        let sum: f64 = of_each.iter().map(|(count, price)| count * price).sum();
        (sum + deletes * self.delete) / 1e6
    }
}

/// Returns the built-in price lists, without free tiers. docs/reference/stores.md has their
/// sources.
pub fn built_in() -> Vec<Prices> {
    serde_json::from_str(include_str!("prices.json"))
        .expect("a test checks that the built-in lists are valid")
}

/// Returns the built-in price list of the service that holds this store.
pub fn of(place: &Place) -> Option<Prices> {
    let Place::In { service, name, .. } = place else { return None };
    let list = if name.ends_with("--x-s3") { "S3 Express" } else { service.prices };
    built_in().into_iter().find(|prices| prices.name == list)
}

/// Reads a JSON array of price lists from the file given with `--prices`.
pub fn from_file(path: &Path) -> Result<Vec<Prices>, Failure> {
    let failure = |why| Failure::new(exit::USAGE, format!("--prices {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| failure(error.to_string()))?;
    let lists: Vec<Prices> =
        serde_json::from_str(&text).map_err(|error| failure(error.to_string()))?;
    let negative = |it: &Prices| [it.write, it.list, it.read, it.delete].iter().any(|it| *it < 0.0);
    if lists.is_empty() || lists.iter().any(negative) {
        return Err(failure(
            "the file needs at least one price list, and no price may be negative".to_owned(),
        ));
    }
    Ok(lists)
}
