//! The table of prices: built-in lists with their sources, or lists from a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use super::requests::Requests;
use crate::exit::{self, Failure};
use crate::store::url::Place;

/// A price list. Each price is for a million requests.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub name: String,
    /// Price of creates and replaces, including refused ones.
    write: f64,
    list: f64,
    /// Price of reads. A poll that finds no change is also a read.
    read: f64,
    /// Price of deletions, each of up to 1,000 keys. With `delete_by_key`, the price of deleted
    /// keys.
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
    /// Returns the price of the requests, in the currency of the list.
    pub fn cost(&self, [writes, lists, reads, deletes, keys]: Requests) -> f64 {
        let deletes = if self.delete_by_key { keys } else { deletes };
        let of_each = [(writes, self.write), (lists, self.list), (reads, self.read)];
        let sum: f64 = of_each.iter().map(|(count, price)| count * price).sum();
        (sum + deletes * self.delete) / 1e6
    }
}

/// Returns the built-in lists, without free tiers. docs/reference/stores.md has their sources.
pub fn built_in() -> Vec<Prices> {
    parse(include_str!("prices.json")).expect("a test reads the built-in price lists")
}

/// Returns the list prices of the service at this place.
pub fn of(place: &Place) -> Option<Prices> {
    let Place::In { service, .. } = place else { return None };
    built_in().into_iter().find(|prices| prices.name == service.prices)
}

/// Reads one price list or several, as JSON.
pub fn from_file(path: &Path) -> Result<Vec<Prices>, Failure> {
    let prices = std::fs::read_to_string(path).map_err(|error| error.to_string());
    let failure = |why| Failure::new(exit::USAGE, format!("--prices {}: {why}", path.display()));
    prices.and_then(|text| parse(&text)).map_err(failure)
}

pub fn parse(text: &str) -> Result<Vec<Prices>, String> {
    // The first character selects the form. An untagged enum would try both forms, and hide the
    // error of the form that the file uses.
    let prices = match text.trim_start().starts_with('[') {
        true => serde_json::from_str::<Vec<Prices>>(text),
        false => serde_json::from_str::<Prices>(text).map(|prices| vec![prices]),
    };
    let prices = prices.map_err(|error| error.to_string())?;
    if prices.is_empty() {
        return Err("the file has no price list".to_owned());
    }
    for Prices { name, write, list, read, delete, .. } in &prices {
        let all = [("write", write), ("list", list), ("read", read), ("delete", delete)];
        if let Some((field, price)) = all.into_iter().find(|(_, price)| **price < 0.0) {
            return Err(format!("{field} of {name:?} must be at least 0, got {price}"));
        }
    }
    Ok(prices)
}
