//! Reads the epoch objects of an election from the store.

use std::collections::VecDeque;
use std::ops::RangeInclusive;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt as _;
use futures::stream;
use tenure::internals::{EpochObjects, wall_clock};
use tenure::{Epoch, Error, Layout, Store};

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
/// # use std::sync::Arc;
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
    objects: EpochObjects,
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

impl Reader {
    /// Creates a reader of the election at `prefix`. The prefixes `app` and `app/` are equivalent.
    ///
    /// # Errors
    /// [`InvalidInput`](tenure::ErrorKind::InvalidInput) if the prefix is invalid.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<Reader, Error> {
        let objects = EpochObjects::new(store, prefix)?;
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

    /// Omits each of the oldest epochs if its last write is longer ago than this duration, by the
    /// store's clock. Stops at the first epoch with a later write or without a date. The reader
    /// always reads the newest epoch.
    pub fn since(mut self, since: Duration) -> Reader {
        self.since = Some(since);
        self
    }

    /// Lists all epochs, and reads the newest epochs.
    ///
    /// Costs one LIST for each 1,000 keys under the prefix (at least one), and one GET for each
    /// epoch that the reader reads. With [`Layout::SingleObject`] it costs one GET. At most 16 GETs
    /// run concurrently.
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

    async fn epoch_files(&self, mut progress: impl FnMut(u64, u64)) -> Result<History, Error> {
        let Listing { first, newest, left_out, now, mut requests } = self.list().await?;
        let count = newest.len() as u64;
        let listed_at = now.unwrap_or_else(wall_clock);
        let mut reads = stream::iter(newest)
            .map(|(epoch, age)| self.object(epoch, age, listed_at))
            .buffered(AT_ONCE);
        let (mut found, mut now, mut done) = (Vec::new(), now, 0);
        while let Some(read) = reads.next().await {
            let (object, served_at) = read?;
            done += 1;
            now = now.max(served_at);
            found.extend(object);
            progress(done, count);
        }
        drop(reads);
        requests += done;
        let now = now_by(now);
        let epochs: Vec<Epoch> = found.iter().map(|found| found.epoch).collect();
        let holes = holes(first, &epochs);
        Ok(self.history(found, holes, left_out, now, requests))
    }

    async fn list(&self) -> Result<Listing, Error> {
        let mut listing = Listing::default();
        let remember = |epoch, age| {
            listing.first.get_or_insert(epoch);
            listing.newest.push_back((epoch, age));
            if listing.newest.len() > self.limit {
                listing.newest.pop_front();
                listing.left_out += 1;
            }
        };
        (listing.now, listing.requests) = self.objects.list(remember).await?;
        self.leave_out_the_old(&mut listing);
        Ok(listing)
    }

    fn leave_out_the_old(&self, listing: &mut Listing) {
        let Some(since) = self.since else { return };
        while let [(_, age), _, ..] = listing.newest.make_contiguous()
            && age.is_some_and(|age| age > since)
        {
            listing.newest.pop_front();
            listing.left_out += 1;
        }
    }

    /// Reads an epoch object. Returns `None` if the compactor deleted the object after the listing.
    async fn object(
        &self,
        epoch: Epoch,
        age: Option<Duration>,
        listed_at: DateTime<Utc>,
    ) -> Result<(Option<Found>, Option<DateTime<Utc>>), Error> {
        let Some(object) = self.objects.read(Some(epoch)).await? else { return Ok((None, None)) };
        let age = age.and_then(|age| TimeDelta::from_std(age).ok());
        let listed = age.and_then(|age| listed_at.checked_sub_signed(age));
        let written = object.last_modified.or(listed).map(Dated::by_a_store);
        Ok((Some(Found { epoch, written, body: object.record }), object.served_at))
    }

    async fn single(&self) -> Result<History, Error> {
        let object = self.objects.read(None).await?;
        let served_at = object.as_ref().and_then(|object| object.served_at);
        let found = object.into_iter().map(|object| Found {
            epoch: object.epoch,
            written: object.last_modified.map(Dated::by_a_store),
            body: object.record,
        });
        let found: Vec<Found> = found.collect();
        let holes = holes(found.first().map(|found| found.epoch), &[]);
        Ok(self.history(found, holes, 0, now_by(served_at), 1))
    }

    fn history(
        &self,
        found: Vec<Found>,
        holes: Vec<RangeInclusive<Epoch>>,
        left_out: u64,
        now: Dated,
        requests: u64,
    ) -> History {
        let spans = spans(found, now.at);
        let now_within = now.within.to_std().unwrap_or_default();
        History { layout: self.layout, spans, holes, left_out, now: now.at, now_within, requests }
    }
}

/// Returns `served_at`, the time by the store's clock. If the store has no clock, returns the time
/// by this machine's clock.
fn now_by(served_at: Option<DateTime<Utc>>) -> Dated {
    served_at.map_or_else(|| Dated::exactly(wall_clock()), Dated::by_a_store)
}
