//! Generations of objects. The key of each generation contains the epoch of its writer.

use std::sync::Arc;
use std::time::Duration;

use tenure::internals::fencing::{
    After, Listing, Progress, Search, check_order, folder, require_timers,
};
use tenure::store::{Page, Store, StoreError};
use tenure::{Epoch, Error, ErrorKind, Process};

use super::calls::Calls;

/// A folder that has one generation of objects for each epoch. Each generation has its own keys.
/// Clones share the folder.
///
/// **Guarantees.** A late write of a former leader, even an unconditional PUT, reaches only an
/// older generation. Readers ignore it, because they use the [`newest`](Generations::newest)
/// generation.
///
/// **Limits.** The writes of the old leader succeed. The old leader does not learn that it lost the
/// leadership, and its late objects must be deleted. A generation becomes the newest when its first
/// object is written. So write a marker as the last object, and let readers use only generations
/// with this marker. The new leader must copy the data that it needs from the previous generation.
/// If the old leader writes after the copy, its write is not in the new generation.
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
/// // The old leader was paused, and writes to a generation that no reader uses any more:
/// store.create(&(orders.key(old) + "part-1"), "late".into()).await?;
///
/// let newest = orders.newest().await?.expect("both leaders have written");
/// assert_eq!(orders.key(newest), "orders/epoch-0000000002/");
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
pub struct Generations {
    calls: Calls,
    /// The common prefix of the keys of all generations.
    prefix: Arc<str>,
}

impl Generations {
    /// Creates the generations under this prefix. `app/data` and `app/data/` are the same prefix.
    /// Sends nothing.
    ///
    /// # Errors
    ///
    /// [`ErrorKind::InvalidInput`] if the prefix is not valid.
    pub fn new(store: Arc<dyn Store>, prefix: impl AsRef<str>) -> Result<Generations, Error> {
        let prefix = format!("{}epoch-", folder(prefix.as_ref())?).into();
        Ok(Generations { calls: Calls::new(store), prefix })
    }

    /// Sets the time limit of a single request. Default: 30 s.
    #[must_use]
    pub fn request_timeout(mut self, request_timeout: Duration) -> Generations {
        self.calls.request_timeout = request_timeout;
        self
    }

    /// Sets the source of the clock. Default: [`Process::system`].
    #[must_use]
    pub fn process(mut self, process: Process) -> Generations {
        self.calls.process = process;
        self
    }

    /// Returns the key prefix of this epoch's objects: `<prefix>/epoch-%010d/`. To get the key of
    /// an object, append the object's name to this prefix. Sends no request.
    #[must_use]
    pub fn key(&self, epoch: Epoch) -> String {
        format!("{}{:010}/", self.prefix, epoch.get())
    }

    /// Returns the greatest epoch that has objects under its [`key`](Generations::key); `None` if
    /// no epoch has objects. Cost: 1 LIST in a small folder, and tens of LIST requests in a folder
    /// with a million objects. A failed request is not retried.
    ///
    /// # Errors
    ///
    /// - [`ErrorKind::Unavailable`], [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: a
    ///   listing failed.
    /// - [`ErrorKind::UnsafeStore`]: the listing is not in order.
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
                    let why = format!("all objects of the known generation {epoch} were deleted");
                    return Err(self.calls.error(ErrorKind::NewestDeleted, &why));
                }
            }
        }
    }
}

/// Returns the key after which the listing continues. If `after` is an epoch, the listing skips all
/// keys of this epoch. These keys have a slash after the epoch, and the returned key has `0` there,
/// which follows the slash in ASCII.
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
