//! Reads the epoch objects of an election from the store.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt as _;
use futures::future::join_all;
use futures::stream;
use tenure::internals::{EpochObjects, wall_clock};
use tenure::{Epoch, Error, Layout, Store};

use super::across::{self, StoreObjects};
use super::build::{Found, holes, spans};
use super::{Dated, History};

/// Maximum number of concurrent GETs. One GET may return 64 KiB, so all concurrent responses take
/// at most 1 MiB of memory.
const AT_ONCE: usize = 16;
const DEFAULT_LIMIT: usize = 1_000;
const MAX_LIMIT: usize = 100_000;

/// Reads the [`History`] of one election. A reader lists and reads the objects under the prefix,
/// and writes nothing.
///
/// ```
/// # use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
/// # use tenure::store::MemoryStore;
/// # use tenure_history::Reader;
/// # async fn example() -> Result<(), tenure::Error> {
/// let history = Reader::new(Arc::new(MemoryStore::new()), "app")?.limit(100).read().await?;
/// println!("no leader for about {:?}", history.totals().vacant.about);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "call `read` to read the history"]
pub struct Reader {
    /// The objects in each store.
    objects: Vec<EpochObjects>,
    layout: Layout,
    limit: usize,
    since: Option<Duration>,
}

/// The result of a LIST of all epochs: the newest epochs, each with the age of its object, and the
/// number of older epochs that are left out.
#[derive(Default)]
struct Listing {
    first: Option<Epoch>,
    newest: VecDeque<(Epoch, Option<Duration>)>,
    left_out: u64,
    now: Option<DateTime<Utc>>,
    requests: u64,
}

/// The fields of a [`History`] that do not come from its epoch objects.
#[derive(Default)]
struct Reading {
    left_out: u64,
    now: Option<DateTime<Utc>>,
    requests: u64,
    unread: Vec<String>,
}

/// The objects of one store, the oldest epoch in this store, and the number of requests.
struct StoreRead {
    oldest: Option<Epoch>,
    objects: StoreObjects,
    left_out: u64,
    now: Option<DateTime<Utc>>,
    requests: u64,
}

/// The number of objects that were read, their total number, and the function that gets both.
struct Progress<F> {
    done: u64,
    total: u64,
    report: F,
}

impl Reader {
    /// Creates a reader of the election at `prefix`. The prefixes `app` and `app/` are equivalent.
    ///
    /// # Errors
    /// [`InvalidInput`](tenure::ErrorKind::InvalidInput) if the prefix is invalid.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<Reader, Error> {
        Reader::across([store], prefix)
    }

    /// Creates a reader of an election across these stores. Their order must be the one of the
    /// election. The history has one span for each epoch, with the
    /// [state](super::LeadershipSpan::stores) of the epoch in each store. A majority of the stores
    /// must answer.
    ///
    /// # Errors
    /// Returns the errors of [`new`](Reader::new).
    pub fn across(
        stores: impl IntoIterator<Item = Arc<dyn Store>>,
        prefix: &str,
    ) -> Result<Reader, Error> {
        let objects = stores.into_iter().map(|store| EpochObjects::new(store, prefix));
        let objects = objects.collect::<Result<_, _>>()?;
        Ok(Reader { objects, layout: Layout::default(), limit: DEFAULT_LIMIT, since: None })
    }

    /// Sets the layout of the election. The default is [`Layout::EpochFiles`].
    pub fn layout(mut self, layout: Layout) -> Reader {
        self.layout = layout;
        self
    }

    /// Sets the maximum number of epochs that the reader reads, from 1 to 100,000. The reader reads
    /// the newest epochs. The default is 1,000. Each epoch takes about 300 bytes of memory, plus
    /// the length of its names.
    pub fn limit(mut self, limit: usize) -> Reader {
        self.limit = limit.clamp(1, MAX_LIMIT);
        self
    }

    /// Omits old epochs: from the oldest epoch up to the first one that was written within this
    /// duration (by the store's clock), or that has no date. The reader always reads the newest
    /// epoch.
    pub fn since(mut self, since: Duration) -> Reader {
        self.since = Some(since);
        self
    }

    /// Lists all epochs, and reads the newest epochs.
    ///
    /// Costs one LIST for each 1,000 keys under the prefix (at least one), and one GET for each
    /// epoch that the reader reads. With [`Layout::SingleObject`] it costs one GET. At most 16 GETs
    /// run concurrently. For an election across stores, each store costs this number of requests.
    /// All stores are read at the same time.
    ///
    /// # Errors
    /// - [`Unavailable`](tenure::ErrorKind::Unavailable): a request failed, or took over 30 s.
    /// - [`UnsafeStore`](tenure::ErrorKind::UnsafeStore): the keys of a listing are not in order.
    /// - [`AccessDenied`](tenure::ErrorKind::AccessDenied),
    ///   [`NoSuchStore`](tenure::ErrorKind::NoSuchStore): correct the permissions or the address.
    /// - [`CorruptRecord`](tenure::ErrorKind::CorruptRecord),
    ///   [`RecordTooNew`](tenure::ErrorKind::RecordTooNew): with [`Layout::SingleObject`], the
    ///   object cannot be read. With epoch files, an unreadable object is not an error, and the
    ///   [`unreadable`](super::LeadershipSpan::unreadable) of its span contains the reason.
    /// - [`NoRuntime`](tenure::ErrorKind::NoRuntime): the call was not in a Tokio runtime with
    ///   timers. The reader has sent no request.
    pub async fn read(&self) -> Result<History, Error> {
        self.read_with(|_, _| {}).await
    }

    /// Reads the history like [`read`](Reader::read). After each object, calls `progress` with the
    /// number of objects that were read, and with the total number.
    ///
    /// # Errors
    /// Returns the errors of [`read`](Reader::read).
    pub async fn read_with(&self, progress: impl FnMut(u64, u64)) -> Result<History, Error> {
        match self.layout {
            Layout::SingleObject => self.single().await,
            _ => self.epoch_files(progress).await,
        }
    }

    async fn epoch_files(&self, report: impl FnMut(u64, u64)) -> Result<History, Error> {
        let progress = Mutex::new(Progress { done: 0, total: 0, report });
        let reads = self.objects.iter().map(|objects| self.objects_of(objects, &progress));
        let (mut reading, mut stores, mut failed) = (Reading::default(), Vec::new(), None);
        for read in join_all(reads).await {
            match read {
                Ok(read) => {
                    reading.left_out = reading.left_out.max(read.left_out);
                    reading.now = reading.now.max(read.now);
                    reading.requests += read.requests;
                    stores.push(Some(read));
                }
                Err(error) => {
                    reading.unread.push(error.to_string());
                    failed = Some(error);
                    stores.push(None);
                }
            }
        }
        let majority = self.objects.len() / 2 + 1;
        if let Some(error) = failed.filter(|_| stores.iter().flatten().count() < majority) {
            return Err(error);
        }
        let first = stores.iter().flatten().filter_map(|it| it.oldest).min();
        let across = stores.len() > 1;
        let stores = stores.into_iter().map(|it| it.map(|it| it.objects)).collect();
        let (found, states) = across::merge(stores);
        let epochs: Vec<Epoch> = found.iter().map(|found| found.epoch).collect();
        let holes = holes(first, &epochs);
        let mut history = self.history(found, holes, reading);
        if across {
            across::add(&mut history.spans, states);
        }
        Ok(history)
    }

    /// Lists and reads the objects of one store.
    async fn objects_of<F: FnMut(u64, u64)>(
        &self,
        objects: &EpochObjects,
        progress: &Mutex<Progress<F>>,
    ) -> Result<StoreRead, Error> {
        let Listing { first, newest, left_out, mut now, mut requests } = self.list(objects).await?;
        lock(progress).total += newest.len() as u64;
        let listed_at = now.unwrap_or_else(wall_clock);
        let oldest_read = newest.front().map(|(epoch, _)| *epoch);
        let mut reads = stream::iter(newest)
            .map(|(epoch, age)| object(objects, epoch, age, listed_at))
            .buffered(AT_ONCE);
        let mut found = Vec::new();
        while let Some(read) = reads.next().await {
            let (object, served_at) = read?;
            requests += 1;
            now = now.max(served_at);
            found.extend(object);
            let mut progress = lock(progress);
            progress.done += 1;
            let (done, total) = (progress.done, progress.total);
            (progress.report)(done, total);
        }
        let objects = StoreObjects { found, first: oldest_read };
        Ok(StoreRead { oldest: first, objects, left_out, now, requests })
    }

    async fn list(&self, objects: &EpochObjects) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let remember = |epoch, age| {
            listing.first.get_or_insert(epoch);
            listing.newest.push_back((epoch, age));
            if listing.newest.len() > self.limit {
                listing.newest.pop_front();
                listing.left_out += 1;
            }
        };
        (listing.now, listing.requests) = objects.list(remember).await?;
        self.omit_old_epochs(&mut listing);
        Ok(listing)
    }

    fn omit_old_epochs(&self, listing: &mut Listing) {
        let Some(since) = self.since else { return };
        while let [(_, age), _, ..] = listing.newest.make_contiguous()
            && age.is_some_and(|age| age > since)
        {
            listing.newest.pop_front();
            listing.left_out += 1;
        }
    }

    async fn single(&self) -> Result<History, Error> {
        let object = self.objects[0].read(None).await?;
        let now = object.as_ref().and_then(|object| object.served_at);
        let found = object.into_iter().map(|object| Found {
            epoch: object.epoch,
            written: object.last_modified.map(Dated::by_a_store),
            body: object.record,
        });
        let found: Vec<Found> = found.collect();
        let holes = holes(found.first().map(|found| found.epoch), &[]);
        Ok(self.history(found, holes, Reading { now, requests: 1, ..Reading::default() }))
    }

    fn history(
        &self,
        found: Vec<Found>,
        holes: Vec<RangeInclusive<Epoch>>,
        Reading { left_out, now, requests, unread }: Reading,
    ) -> History {
        let now = now_by(now);
        let spans = spans(found, now.at);
        let now_within = now.within.to_std().unwrap_or_default();
        let (layout, now) = (self.layout, now.at);
        History { layout, spans, holes, left_out, now, now_within, requests, unread }
    }
}

/// Locks the progress. If the caller's function panics, the numbers in `Progress` remain correct.
fn lock<F>(progress: &Mutex<Progress<F>>) -> MutexGuard<'_, Progress<F>> {
    progress.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Reads an epoch object. Returns `None` if the compactor deleted the object after the listing.
async fn object(
    objects: &EpochObjects,
    epoch: Epoch,
    age: Option<Duration>,
    listed_at: DateTime<Utc>,
) -> Result<(Option<Found>, Option<DateTime<Utc>>), Error> {
    let Some(object) = objects.read(Some(epoch)).await? else { return Ok((None, None)) };
    let age = age.and_then(|age| TimeDelta::from_std(age).ok());
    let listed = age.and_then(|age| listed_at.checked_sub_signed(age));
    let written = object.last_modified.or(listed).map(Dated::by_a_store);
    Ok((Some(Found { epoch, written, body: object.record }), object.served_at))
}

/// Returns `served_at`, the time by the store's clock. If the store has no clock, returns the time
/// by this machine's clock.
fn now_by(served_at: Option<DateTime<Utc>>) -> Dated {
    served_at.map_or_else(|| Dated::exactly(wall_clock()), Dated::by_a_store)
}
