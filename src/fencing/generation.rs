//! Keys that contain the epoch.

use std::sync::Arc;

use super::calls::Calls;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::keys::Keys;
use crate::protocol::find::{After, Listing, Progress, Search};
use crate::store::{Page, Store, StoreError, check_order};
use crate::timer::require_timers;

/// Where the writer of this epoch keeps its objects: `<prefix>/epoch-%010d/`. Append their names.
///
/// ```
/// # use tenure::{Epoch, fencing::epoch_key};
/// let key = epoch_key("orders", Epoch::FIRST) + "part-1";
/// assert_eq!(key, "orders/epoch-0000000001/part-1");
/// ```
///
/// **What it guarantees.** A leader of the past writes, with plain PUTs even, where nobody reads
/// any more: readers go to [`newest_generation`].
///
/// **What it does not.** The old leader's writes succeed; it does not learn that it is old, and
/// what it wrote must be deleted some day. A generation is the newest from its first object on:
/// write the others first, or tell readers by a last object that it is whole. What is to be kept of
/// the generation before is copied by its successor, which may miss what the old leader writes
/// later.
#[must_use]
pub fn epoch_key(prefix: &str, epoch: Epoch) -> String {
    format!("{}{:010}/", below(prefix), epoch.get())
}

fn below(prefix: &str) -> String {
    let slash = if prefix.is_empty() || prefix.ends_with('/') { "" } else { "/" };
    format!("{prefix}{slash}epoch-")
}

/// The greatest epoch that has objects at its [`epoch_key`]; `None` if there is none. 1 LIST where
/// there are few objects; tens at a million. A request that fails is not tried again.
///
/// # Errors
///
/// - [`ErrorKind::Unavailable`], [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: a listing
///   failed.
/// - [`ErrorKind::UnsafeStore`]: the listing is out of order.
/// - [`ErrorKind::InvalidInput`]: the prefix cannot be one.
pub async fn newest_generation(
    store: Arc<dyn Store>,
    prefix: &str,
) -> Result<Option<Epoch>, Error> {
    require_timers()?;
    Keys::new(prefix)?;
    let prefix = below(prefix);
    let calls = Calls::new(store);
    let mut search = Search::new(None);
    loop {
        let start = start(&prefix, search.next_page());
        let page = calls.list(&prefix, &start).await;
        let listing = page.and_then(|page| listing_of(&prefix, &start, &page));
        let listing = listing
            .map_err(|error| calls.failure(&format!("listing {prefix} after {start:?}"), error))?;
        match search.handle(listing) {
            Progress::More => {}
            Progress::Newest(newest) => return Ok(newest),
            Progress::KnownIsGone(epoch) => {
                let why = format!("the generation {epoch} is gone");
                return Err(calls.error(ErrorKind::NewestDeleted, &why));
            }
        }
    }
}

/// After all objects of an epoch: `0` is the character after the slash.
fn start(prefix: &str, after: &After) -> String {
    match after {
        After::Number(number) => format!("{prefix}{number:010}0"),
        After::Key(key) => key.clone(),
    }
}

fn listing_of(prefix: &str, start: &str, page: &Page) -> Result<Listing, StoreError> {
    let last = check_order(prefix, start, page)?;
    let epochs = || page.entries.iter().filter_map(|entry| parse(prefix, &entry.key));
    let end = format!("{prefix}{}/", Epoch::MAX);
    let ended = !page.truncated || last >= end.as_str();
    let rest = (!ended).then(|| match parse(prefix, last) {
        Some(epoch) => After::Number(epoch.get()),
        None => After::Key(last.to_owned()),
    });
    Ok(Listing { epochs: epochs().next().zip(epochs().next_back()), rest })
}

fn parse(prefix: &str, key: &str) -> Option<Epoch> {
    let (digits, name) = key.strip_prefix(prefix)?.split_once('/')?;
    let exact = digits.len() == 10 && digits.bytes().all(|byte| byte.is_ascii_digit());
    if exact && !name.is_empty() { digits.parse().ok() } else { None }
}
