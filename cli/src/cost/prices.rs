//! What requests cost: built in, with their sources, or from a file.

use std::path::Path;

use serde::{Deserialize, Serialize};

use crate::exit::{self, Failure};
use crate::store::url::Place;

/// A price list.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub struct Prices {
    pub name: String,
    /// For a million requests each. A create, a replace, a refused one too.
    pub write: f64,
    pub list: f64,
    /// A poll that finds nothing new is one.
    pub read: f64,
    /// A request for up to 1,000 keys, or for one where `delete_by_key` says so.
    pub delete: f64,
    #[serde(default)]
    pub delete_by_key: bool,
    #[serde(default = "usd")]
    pub currency: String,
    /// Since when, or when it was looked up.
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

fn parse(text: &str) -> Result<Vec<Prices>, String> {
    // Told apart here: serde would say of both forms at once only that neither fits.
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_built_in_lists_can_be_read() {
        assert_eq!(built_in().len(), 5);
    }

    #[test]
    fn one_list_or_several() {
        let one = r#"{"name":"here","write":1,"list":2,"read":0.5,"delete":0}"#;
        let prices = parse(one).expect("a price list");
        assert_eq!((prices.len(), prices[0].list, &*prices[0].currency), (1, 2.0, "USD"));
        assert_eq!(parse(&format!("[{one},{one}]")).map(|prices| prices.len()), Ok(2));
    }

    #[test]
    fn what_is_wrong_is_named() {
        let refused = |text: &str| parse(text).expect_err(text);
        let unknown = refused(r#"{"name":"x","write":1,"list":2,"read":0.5,"delete":0,"put":5}"#);
        assert!(
            unknown.contains("unknown field `put`") && unknown.contains("`write`"),
            "{unknown}"
        );
        assert!(refused(r#"{"name":"x"}"#).contains("missing field `write`"));
        let negative = refused(r#"{"name":"x","write":1,"list":-2,"read":0,"delete":0}"#);
        assert!(negative.contains("list of \"x\" is -2"), "{negative}");
        let text = refused(r#"{"name":"x","write":"1","list":2,"read":0,"delete":0}"#);
        assert!(text.contains("invalid type: string") && text.contains("column"), "{text}");
        assert!(refused("[]").contains("no price list"));
        assert!(refused("").contains("EOF"));
    }
}
