//! The elections and groups of a sidecar, as `--election` and `--group` name them.

use std::sync::Arc;

use crate::exit::Failure;
use crate::store::open::{IfMissing, Opened, open, prefix};
use crate::store::url::{Place, StoreUrl, store_url};

/// An election or a group of the sidecar: its name in the API, and its URL.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Named {
    pub name: String,
    pub url: StoreUrl,
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
    Ok(Named { name: name.to_owned(), url: store_url(url)? })
}

/// Refuses two entries with the same name, or with the same prefix of one store. `kind` is
/// `election` or `group`.
pub fn refuse_twice(kind: &str, all: &[Named]) -> Result<(), String> {
    for (at, one) in all.iter().enumerate() {
        for other in &all[..at] {
            if one.name == other.name {
                return Err(format!("two {kind}s have the name {}", one.name));
            }
            if is_same(one.url.place(), other.url.place()) {
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
pub async fn open_all(all: &[&Named]) -> Result<Vec<Opened>, Failure> {
    let mut opened: Vec<Opened> = Vec::new();
    for (at, named) in all.iter().enumerate() {
        let same = |other: &&Named| in_one_store(named.url.place(), other.url.place());
        let known = all[..at].iter().position(same);
        // If the store is already open, `open` is needed only to check the prefix. It refuses no
        // prefix except an empty one, so only a URL without a prefix is passed to `open`.
        let one = match known {
            Some(known) if !prefix(&named.url).trim_matches('/').is_empty() => Opened {
                store: Arc::clone(&opened[known].store),
                prefix: prefix(&named.url).to_owned(),
            },
            _ => open(&named.url, IfMissing::Create).await?,
        };
        opened.push(one);
    }
    Ok(opened)
}
