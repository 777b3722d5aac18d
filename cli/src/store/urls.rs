//! The value of `--store` of an election: one store, or the 3 or 5 stores of an election across
//! stores.

use std::fmt;
use std::sync::Arc;

use tenure::store::Store;
use tenure::{Election, ElectionBuilder};

use super::open::{IfMissing, Opened, open, refuse_all_else};
use super::url::{StoreUrl, store_url};
use crate::args::common::LayoutArg;
use crate::exit::{self, Failure};

/// The stores of one election. Its text is the URLs, with spaces between them.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct StoreUrls(Vec<StoreUrl>);

/// The opened stores of one election.
pub struct OpenedStores {
    pub stores: Vec<Arc<dyn Store>>,
    pub prefix: String,
}

impl fmt::Display for StoreUrls {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let urls: Vec<String> = self.0.iter().map(ToString::to_string).collect();
        f.write_str(&urls.join(" "))
    }
}

/// Parses a URL, the path of a directory, or several URLs with white space between them.
pub fn store_urls(text: &str) -> Result<StoreUrls, String> {
    let several = || text.split_whitespace();
    // The path of a directory may contain white space.
    if several().count() > 1 && several().all(|url| url.contains("://")) {
        return several().map(store_url).collect::<Result<_, _>>().map(StoreUrls);
    }
    store_url(text).map(|url| StoreUrls(vec![url]))
}

impl StoreUrls {
    /// Joins the values of several flags `--store`. Refuses a number of stores other than 1, 3 or
    /// 5, and stores with different prefixes.
    pub fn joined(given: &[StoreUrls]) -> Result<StoreUrls, Failure> {
        let urls: Vec<StoreUrl> = given.iter().flat_map(|it| it.0.iter().cloned()).collect();
        if !matches!(urls.len(), 1 | 3 | 5) {
            let count = urls.len();
            let why = format!("give --store once, or 3 or 5 times, not {count} times");
            return Err(Failure::new(exit::USAGE, why));
        }
        let prefix = |url: &StoreUrl| url.prefix().trim_end_matches('/').to_owned();
        if let Some(other) = urls.iter().find(|url| prefix(url) != prefix(&urls[0])) {
            let why = format!(
                "all stores of one election must have the same prefix: {} and {other} differ",
                urls[0]
            );
            return Err(Failure::new(exit::USAGE, why));
        }
        Ok(StoreUrls(urls))
    }

    /// Returns the only store, for a verb that works on one store.
    pub fn one(self, verb: &str) -> Result<StoreUrl, Failure> {
        match <[StoreUrl; 1]>::try_from(self.0) {
            Ok([url]) => Ok(url),
            Err(_) => {
                let why = format!("`tenure {verb}` works on one store: give --store once");
                Err(Failure::new(exit::USAGE, why))
            }
        }
    }

    pub fn are_several(&self) -> bool {
        self.0.len() > 1
    }

    pub fn urls(&self) -> &[StoreUrl] {
        &self.0
    }

    /// Returns the common prefix, for checks before the stores are opened.
    pub fn prefix(&self) -> &str {
        self.0[0].prefix()
    }

    /// Opens all stores. Sends no request to a bucket or a table.
    pub async fn open(&self, if_missing: IfMissing) -> Result<OpenedStores, Failure> {
        let mut opened = OpenedStores { stores: Vec::new(), prefix: String::new() };
        for url in &self.0 {
            let Opened { store, prefix } = open(url, if_missing).await?;
            opened.stores.push(store);
            opened.prefix = prefix;
        }
        Ok(opened)
    }
}

impl OpenedStores {
    pub fn builder(&self) -> ElectionBuilder {
        builder(self.stores.clone(), &self.prefix)
    }

    /// Returns the first store. An election in one store has only this one.
    pub fn first(&self) -> &Arc<dyn Store> {
        &self.stores[0]
    }

    /// Fails if the only store has something other than an election in this layout at the prefix.
    pub async fn refuse_all_else(&self, layout: LayoutArg, command: &str) -> Result<(), Failure> {
        match self.stores.len() {
            1 => refuse_all_else(self.first(), &self.prefix, layout, command).await,
            // The marker of a set already shows that the prefix has an election.
            _ => Ok(()),
        }
    }
}

/// Returns the builder of an election in one store or across several.
pub fn builder(mut stores: Vec<Arc<dyn Store>>, prefix: &str) -> ElectionBuilder {
    match stores.len() {
        1 => Election::builder(stores.remove(0), prefix),
        _ => Election::across(stores, prefix),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn several_urls_are_one_value_or_several_flags() {
        let three = "s3://a/p gs://b/p az://c/p";
        let value = store_urls(three).expect("three URLs");
        assert_eq!(value.to_string(), three);
        let flags = ["s3://a/p", "gs://b/p/", "az://c/p"].map(|url| store_urls(url).expect(url));
        assert!(StoreUrls::joined(&flags).expect("three stores").are_several());
        assert_eq!(StoreUrls::joined(std::slice::from_ref(&value)).expect("three stores"), value);
        assert!(value.one("restore").expect_err("one store").why.contains("--store once"));
        let path = store_urls("./my dir").expect("a path");
        assert!(!path.are_several());
    }

    #[test]
    fn two_or_four_stores_and_different_prefixes_are_refused() {
        let of = |urls: &str| StoreUrls::joined(&[store_urls(urls).expect(urls)]);
        for (urls, why) in [
            ("s3://a/p s3://b/p", "not 2 times"),
            ("s3://a/p s3://b/p s3://c/p s3://d/p", "not 4 times"),
            ("s3://a/p s3://b/q s3://c/p", "same prefix"),
        ] {
            let failure = of(urls).expect_err(urls);
            assert!(failure.why.contains(why) && failure.code == exit::USAGE, "{}", failure.why);
        }
    }
}
