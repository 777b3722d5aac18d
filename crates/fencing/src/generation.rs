//! Keys that contain the epoch.

use std::sync::Arc;
use std::time::Duration;

use tenure::seam::fencing::{
    After, Listing, Progress, Search, check_order, folder, require_timers,
};
use tenure::store::{Page, Store, StoreError};
use tenure::{Epoch, Error, ErrorKind, Process};

use super::calls::Calls;

/// A folder of objects with one generation an epoch, each under keys of its own. Clones are the same
/// folder.
///
/// **What it guarantees.** A former leader writes, even with plain PUTs, where nobody reads any
/// more: readers use the [`newest`](Generations::newest) generation.
///
/// **What it does not.** The old leader's writes succeed; it does not learn that it no longer
/// leads, and its objects must be deleted some day. A generation counts as the newest from its
/// first object on: let a last object tell readers that it is complete. The new leader must copy
/// what it needs of the previous generation, and may miss what the old leader writes later.
///
/// # Examples
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{Epoch, store::{MemoryStore, Store}};
/// # use tenure_fencing::Generations;
/// # #[tokio::main(flavor = "current_thread")]
/// # async fn main() -> Result<(), Box<dyn std::error::Error>> {
/// # let (old, new) = (Epoch::FIRST, Epoch::new(2).unwrap());
/// let store = Arc::new(MemoryStore::new());
/// let orders = Generations::new(store.clone(), "orders")?;
/// store.create(&(orders.key(new) + "part-1"), "new".into()).await?;
/// // The old leader was paused, and writes where nobody reads any more:
/// store.create(&(orders.key(old) + "part-1"), "late".into()).await?;
///
/// let newest = orders.newest().await?.expect("somebody has written");
/// assert_eq!(orders.key(newest), "orders/epoch-0000000002/");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Generations {
    calls: Calls,
    /// What the keys of all generations start with.
    prefix: Arc<str>,
}

impl Generations {
    /// Creates the generations under this prefix; `app/data` and `app/data/` are the same. Sends
    /// nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the prefix cannot be one.
    pub fn new(store: Arc<dyn Store>, prefix: impl AsRef<str>) -> Result<Generations, Error> {
        let prefix = format!("{}epoch-", folder(prefix.as_ref())?).into();
        Ok(Generations { calls: Calls::new(store), prefix })
    }

    /// Sets how long a single request may take: default 30 s.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> Generations {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Sets where the clock comes from: default [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> Generations {
        self.calls.process = process;
        self
    }

    /// Returns where the writer of this epoch keeps its objects: `<prefix>/epoch-%010d/`. Append
    /// their names. No request.
    #[must_use]
    pub fn key(&self, epoch: Epoch) -> String {
        format!("{}{:010}/", self.prefix, epoch.get())
    }

    /// Returns the greatest epoch that has objects at its [`key`](Generations::key); `None` if
    /// there is none. 1 LIST where there are few objects; tens at a million. A failed request is
    /// not retried.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`], [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: a
    ///   listing failed.
    /// - [`ErrorKind::UnsafeStore`]: the listing is out of order.
    pub async fn newest(&self) -> Result<Option<Epoch>, Error> {
        require_timers()?;
        let prefix: &str = &self.prefix;
        let mut search = Search::new(None);
        loop {
            let start = start(prefix, search.next_page());
            let page = self.calls.list(prefix, &start).await;
            let listing = page.and_then(|page| listing_of(prefix, &start, &page));
            let listing = listing.map_err(|error| {
                self.calls.failure(&format!("listing {prefix} after {start:?}"), error)
            })?;
            match search.handle(listing) {
                Progress::More => {}
                Progress::Newest(newest) => return Ok(newest),
                Progress::KnownIsGone(epoch) => {
                    let why = format!("the generation {epoch} is gone");
                    return Err(self.calls.error(ErrorKind::NewestDeleted, &why));
                }
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
