//! Prices of requests: the built-in lists with their sources, or a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::exit::{self, Failure};
use crate::store::url::Place;

/// A price list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub name: String,
    /// Price of a million creates and replaces. Refused ones count.
    pub write: f64,
    pub list: f64,
    /// A poll without news is a read.
    pub read: f64,
    /// Price for requests of up to 1,000 keys each, or for keys with `delete_by_key`.
    pub delete: f64,
    #[serde(default)]
    pub delete_by_key: bool,
    #[serde(default = "usd")]
    pub currency: String,
    /// The first day of the prices, or the day of their retrieval.
    #[serde(default)]
    pub date: String,
    #[serde(default)]
    pub source: String,
}

fn usd() -> String {
    "USD".to_owned()
}

/// As in docs/reference/stores.md, without free tiers.
pub fn built_in() -> Vec<Prices> {
    parse(include_str!("prices.json")).expect("a test reads the built-in price lists")
}

/// The list prices of the service at this place.
pub fn of(place: &Place) -> Option<Prices> {
    let Place::In { service, .. } = place else { return None };
    built_in().into_iter().find(|prices| prices.name == service.prices)
}

/// One price list or several, as JSON.
pub fn from_file(path: &Path) -> Result<Vec<Prices>, Failure> {
    let wrong =
        |why: String| Failure::new(exit::USAGE, format!("--prices {}: {why}", path.display()));
    let text = std::fs::read_to_string(path).map_err(|error| wrong(error.to_string()))?;
    parse(&text).map_err(wrong)
}

pub fn parse(text: &str) -> Result<Vec<Prices>, String> {
    // An untagged enum would lose the error of the form in use.
    let prices = if text.trim_start().starts_with('[') {
        serde_json::from_str::<Vec<Prices>>(text)
    } else {
        serde_json::from_str::<Prices>(text).map(|prices| vec![prices])
    };
    let prices = prices.map_err(|error| error.to_string())?;
    if prices.is_empty() {
        return Err("it has no price list".to_owned());
    }
    for Prices { name, write, list, read, delete, .. } in &prices {
        let all = [("write", write), ("list", list), ("read", read), ("delete", delete)];
        if let Some((field, price)) = all.into_iter().find(|(_, price)| **price < 0.0) {
            return Err(format!("{field} of {name:?} is {price}: a price is not below 0"));
        }
    }
    Ok(prices)
}
