//! Reads the epoch objects.

use std::collections::VecDeque;
use std::sync::Arc;
use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};
use futures::StreamExt as _;
use futures::stream;

use super::build::{Found, holes, spans};
use super::{Dated, EpochRange, History};
use crate::clock::wall_clock;
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::keys::Keys;
use crate::layout::Layout;
use crate::listing::{EpochsOfPage, key_of};
use crate::protocol::compaction::Listed;
use crate::protocol::find::After;
use crate::record::{BadRecord, MAX_READ_BYTES, Record};
use crate::store::{Determinacy, GetOutcome, Store, StoreError, within};
use crate::timer::require_timers;

const PAGE_KEYS: usize = 1_000;
/// GETs on their way at once; each may bring 64 KiB.
const AT_ONCE: usize = 16;
const DEFAULT_LIMIT: usize = 1_000;
const MAX_LIMIT: usize = 100_000;
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// Reads the [`History`] of one election. It needs to list and to read the prefix, and writes
/// nothing.
///
/// ```
/// # use std::sync::Arc;
/// # use tenure::{history::Reader, store::MemoryStore};
/// # async fn example() -> Result<(), tenure::Error> {
/// let history = Reader::new(Arc::new(MemoryStore::new()), "app")?.limit(100).read().await?;
/// println!("nobody led for about {:?}", history.totals().nobody.about);
/// # Ok(())
/// # }
/// ```
#[derive(Debug, Clone)]
#[must_use = "a reader does nothing until it reads"]
pub struct Reader {
    store: Arc<dyn Store>,
    keys: Keys,
    layout: Layout,
    limit: usize,
    since: Option<Duration>,
}

/// What listing all epochs came to: the newest few, and how many there are.
#[derive(Default)]
struct Listing {
    first: Option<Epoch>,
    newest: VecDeque<Listed>,
    left_out: u64,
    now: Option<DateTime<Utc>>,
    requests: u64,
}

impl Reader {
    /// A reader of the election at `prefix`; `app` and `app/` are the same.
    ///
    /// # Errors
    /// [`ErrorKind::InvalidInput`] if the prefix cannot be one.
    pub fn new(store: Arc<dyn Store>, prefix: &str) -> Result<Reader, Error> {
        let keys = Keys::new(prefix)?;
        Ok(Reader { store, keys, layout: Layout::default(), limit: DEFAULT_LIMIT, since: None })
    }

    /// How the election lies in its store: by default in epoch files.
    pub fn layout(mut self, layout: Layout) -> Reader {
        self.layout = layout;
        self
    }

    /// How many of the newest epochs are read at most: 1 to 100,000, default 1,000. Each is
    /// remembered, with some 300 bytes and its names.
    pub fn limit(mut self, limit: usize) -> Reader {
        self.limit = limit.clamp(1, MAX_LIMIT);
        self
    }

    /// Leaves out epochs that were last written longer ago than this by the store's clock, so ended
    /// before. The newest is always read.
    pub fn since(mut self, since: Duration) -> Reader {
        self.since = Some(since);
        self
    }

    /// Lists all epochs and reads the newest.
    ///
    /// Costs 1 LIST for every 1,000 keys listed (at least 1) and 1 GET for each epoch read; on a
    /// [single object](Layout::SingleObject) 1 GET. At most 16 GETs are under way at once.
    ///
    /// # Errors
    /// - [`ErrorKind::Unavailable`]: a request failed or took longer than 30 s.
    /// - [`ErrorKind::UnsafeStore`]: the listing is out of order.
    /// - [`ErrorKind::AccessDenied`], [`ErrorKind::NoSuchStore`]: correct the permissions or the
    ///   address.
    /// - [`ErrorKind::CorruptRecord`], [`ErrorKind::RecordTooNew`]: the single object cannot be
    ///   read. An epoch object that cannot is told in its span.
    /// - [`ErrorKind::NoRuntime`]: call it in a Tokio runtime with timers. Nothing was sent.
    pub async fn read(&self) -> Result<History, Error> {
        self.read_with(|_, _| {}).await
    }

    /// The same; after each object, says how many of how many are read.
    ///
    /// # Errors
    /// Those of [`read`](Reader::read).
    pub async fn read_with(&self, told: impl FnMut(u64, u64)) -> Result<History, Error> {
        require_timers()?;
        match self.layout {
            Layout::SingleObject => self.single().await,
            Layout::EpochFiles => self.epoch_files(told).await,
        }
    }

    async fn epoch_files(&self, mut told: impl FnMut(u64, u64)) -> Result<History, Error> {
        let Listing { first, newest, left_out, now, mut requests } = self.list().await?;
        let count = newest.len() as u64;
        let listed_at = now.unwrap_or_else(wall_clock);
        let mut reads =
            stream::iter(newest).map(|listed| self.object(listed, listed_at)).buffered(AT_ONCE);
        let (mut found, mut now, mut done) = (Vec::new(), now, 0);
        while let Some(read) = reads.next().await {
            let (object, served_at) = read?;
            done += 1;
            now = now.max(served_at);
            found.extend(object);
            told(done, count);
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
        let mut next = Some(After::Number(0));
        while let Some(after) = next {
            let start = key_of(&self.keys, &after);
            listing.requests += 1;
            let page = self.store.list(self.keys.lock_prefix(), &start, PAGE_KEYS);
            let page =
                within(REQUEST_TIMEOUT, Determinacy::Determinate, page).await.and_then(|page| {
                    let epochs = EpochsOfPage::of(&self.keys, &after, &page)?;
                    listing.now = listing.now.max(page.served_at);
                    Ok(epochs)
                });
            let page = page.map_err(|error| {
                self.failure(&format!("listing the epochs after {start:?}"), error)
            })?;
            for listed in page.epochs {
                listing.first.get_or_insert(listed.epoch);
                listing.newest.push_back(listed);
                if listing.newest.len() > self.limit {
                    listing.newest.pop_front();
                    listing.left_out += 1;
                }
            }
            next = page.rest;
        }
        self.leave_out_the_old(&mut listing);
        Ok(listing)
    }

    fn leave_out_the_old(&self, listing: &mut Listing) {
        let Some(since) = self.since else { return };
        while let [first, _, ..] = listing.newest.make_contiguous()
            && first.age.is_some_and(|age| age > since)
        {
            listing.newest.pop_front();
            listing.left_out += 1;
        }
    }

    /// An epoch object; none if it was compacted since it was listed.
    async fn object(
        &self,
        listed: Listed,
        listed_at: DateTime<Utc>,
    ) -> Result<(Option<Found>, Option<DateTime<Utc>>), Error> {
        let epoch = listed.epoch;
        let key = self.keys.epoch(epoch);
        let written = listed.age.and_then(|age| TimeDelta::from_std(age).ok());
        let written = written.and_then(|age| listed_at.checked_sub_signed(age));
        let unreadable = |why: BadRecord| Err(why.to_string());
        Ok(match self.get(&key).await? {
            GetOutcome::Found(object) => {
                let written = object.last_modified.or(written).map(Dated::by_a_store);
                let body = Record::parse(&object.body).or_else(unreadable);
                (Some(Found { epoch, written, body }), object.served_at)
            }
            GetOutcome::TooLarge { len, .. } => {
                let body = unreadable(BadRecord::TooLarge(len));
                let written = written.map(Dated::by_a_store);
                (Some(Found { epoch, written, body }), None)
            }
            GetOutcome::NotFound | GetOutcome::NotModified => (None, None),
        })
    }

    async fn single(&self) -> Result<History, Error> {
        let key = self.keys.lock();
        let corrupt = |why: BadRecord| {
            let kind = match why {
                BadRecord::TooNew(_) => ErrorKind::RecordTooNew,
                _ => ErrorKind::CorruptRecord,
            };
            let remedy = match kind {
                ErrorKind::CorruptRecord => format!("; {}", Layout::SingleObject.repair()),
                _ => String::new(),
            };
            Error::new(kind, format!("{key} in {}: {why}{remedy}", self.store.describe()))
        };
        let (found, served_at) = match self.get(&key).await? {
            GetOutcome::Found(object) => {
                let (epoch, record) = Record::decode(None, &object.body).map_err(corrupt)?;
                let written = object.last_modified.map(Dated::by_a_store);
                (vec![Found { epoch, written, body: Ok(record) }], object.served_at)
            }
            GetOutcome::TooLarge { len, .. } => return Err(corrupt(BadRecord::TooLarge(len))),
            GetOutcome::NotFound | GetOutcome::NotModified => (Vec::new(), None),
        };
        let holes = holes(found.first().map(|found| found.epoch), &[]);
        Ok(self.history(found, holes, 0, now_by(served_at), 1))
    }

    fn history(
        &self,
        found: Vec<Found>,
        holes: Vec<EpochRange>,
        left_out: u64,
        now: Dated,
        requests: u64,
    ) -> History {
        let spans = spans(found, now.at);
        let now_within = now.within.to_std().unwrap_or_default();
        History { layout: self.layout, spans, holes, left_out, now: now.at, now_within, requests }
    }

    async fn get(&self, key: &str) -> Result<GetOutcome, Error> {
        let get = self.store.get(key, None, MAX_READ_BYTES);
        let got = within(REQUEST_TIMEOUT, Determinacy::Determinate, get).await;
        got.map_err(|error| self.failure(&format!("reading {key}"), error))
    }

    fn failure(&self, doing: &str, error: StoreError) -> Error {
        Error::from_store(doing, &self.store.describe(), error)
    }
}

/// The store's clock, or this machine's where the store has none.
fn now_by(served_at: Option<DateTime<Utc>>) -> Dated {
    served_at.map_or_else(|| Dated::exactly(wall_clock()), Dated::by_a_store)
}
