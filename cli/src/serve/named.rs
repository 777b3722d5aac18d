//! The elections and groups of a sidecar, as `--election` and `--group` name them.

use std::sync::Arc;

use tenure::store::Store;

use crate::exit::Failure;
use crate::store::open::{IfMissing, open};
use crate::store::url::Place;
use crate::store::urls::{OpenedStores, StoreUrls, store_urls};

/// An election or a group of the sidecar: its name in the API, and its stores.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub urls: StoreUrls,
}

pub fn named(text: &str) -> Result<Named, String> {
    let (name, url) =
        text.split_once('=').ok_or("write NAME=URL, such as orders=s3://BUCKET/orders")?;
    let plain = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    // The names `.` and `..` are refused, because a client may treat them as folders in a path.
    if name.is_empty() || name.len() > 64 || !name.chars().all(plain) || [".", ".."].contains(&name)
    {
        return Err("a name has 1 to 64 letters, digits, `.`, `_` or `-`".to_owned());
    }
    let urls = StoreUrls::joined(&[store_urls(url)?]).map_err(|failure| failure.why)?;
    Ok(Named { name: name.to_owned(), urls })
}

/// Parses the value of `--group`, which has one store.
pub fn named_group(text: &str) -> Result<Named, String> {
    let named = named(text)?;
    match named.urls.are_several() {
        true => Err("a group has one store".to_owned()),
        false => Ok(named),
    }
}

/// Refuses two entries with the same name, or with the same prefix of one store. `kind` is
/// `election` or `group`.
pub fn refuse_twice(kind: &str, all: &[Named]) -> Result<(), String> {
    for (at, one) in all.iter().enumerate() {
        for other in &all[..at] {
            if one.name == other.name {
                return Err(format!("two {kind}s have the name {}", one.name));
            }
            let [ones, others] = [one, other].map(|it| it.urls.urls());
            let same = |one: &Place| others.iter().any(|other| is_same(one, other.place()));
            if ones.iter().any(|url| same(url.place())) {
                let (other, one) = (&other.name, &one.name);
                return Err(format!("{other} and {one} are the same {kind}"));
            }
        }
    }
    Ok(())
}

fn is_same(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (Place::Dir { path: one, .. }, Place::Dir { path: other, .. }) => one == other,
        (Place::In { prefix: one_prefix, .. }, Place::In { prefix: other_prefix, .. }) => {
            let trimmed = |prefix: &str| prefix.trim_end_matches('/').to_owned();
            in_one_store(one, other) && trimmed(one_prefix) == trimmed(other_prefix)
        }
        _ => false,
    }
}

fn in_one_store(one: &Place, other: &Place) -> bool {
    match (one, other) {
        (
            Place::In { service, name, options, .. },
            Place::In { service: others, name: other, options: other_options, .. },
        ) => service.kind == others.kind && name == other && options == other_options,
        _ => false,
    }
}

/// Opens the stores. Several names with the same store share one client, because each client has
/// its own connections and credentials.
pub async fn open_all(all: &[&Named]) -> Result<Vec<OpenedStores>, Failure> {
    let mut known: Vec<(&Place, Arc<dyn Store>)> = Vec::new();
    let mut opened = Vec::new();
    for named in all {
        let mut one = OpenedStores { stores: Vec::new(), prefix: named.urls.prefix().to_owned() };
        for url in named.urls.urls() {
            let same = known.iter().find(|(place, _)| in_one_store(place, url.place()));
            // `open` also checks the prefix. It refuses only an empty prefix, so only a URL without
            // a prefix is passed to `open` again.
            let store = match same {
                Some((_, store)) if !url.prefix().trim_matches('/').is_empty() => store.clone(),
                _ => {
                    let opened = open(url, IfMissing::Create).await?;
                    one.prefix = opened.prefix;
                    opened.store
                }
            };
            known.push((url.place(), store.clone()));
            one.stores.push(store);
        }
        opened.push(one);
    }
    Ok(opened)
}
