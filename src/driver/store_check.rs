//! The check of a store. A store must honour conditions (A2) and list keys in order (A5).
//!
//! The check detects stores that ignore a condition. It cannot detect a store that tests the
//! condition and writes in two steps, because only a race shows this defect.
//!
//! Each check writes one of 256 keys, because some stores allow only one write a second to one key.
//! With a single key, candidates that start together would wait for each other.

use std::sync::{Arc, LazyLock, Mutex, Weak};
use std::time::Duration;

use tokio::sync::OnceCell;
use tracing::Instrument as _;

use crate::driver::leader::CampaignEvent;
use crate::driver::{Context, Denial, FAILURES_BEFORE_GIVING_UP, Patience};
use crate::env::mutex::unpoisoned;
use crate::env::timer::sleep;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::record::{BadRecord, Formats, MAX_READ_BYTES, Record};
use crate::store::listing_within;
use crate::store::{
    ETag, Entry, GetOutcome, Page, PutOutcome, Store, StoreError, WriteAnswers, Written,
};

/// Maximum number of attempts. An attempt fails if another process runs its check on the same
/// object at the same time.
const ATTEMPTS: u32 = 10;
/// Pause before each write of a repeated check, because some stores allow only one write a second
/// to one key.
const PAUSE: Duration = Duration::from_millis(1_100);
/// Number of keys in the LIST.
const PAGE: usize = 1_000;
const MAX_BODY: usize = 64 * 1024;
/// After this number of consecutive successful writes without an ETag, a store counts as unfit for
/// elections. Such a write ends the check. A call that does not wait repeats the check until it
/// reaches this number.
const WRITES_WITHOUT_ETAG: u32 = FAILURES_BEFORE_GIVING_UP;

struct Checked {
    store: Weak<dyn Store>,
    layout: Layout,
    done: Arc<OnceCell<()>>,
}

/// Checks the store, unless the settings of the election disable the check. All elections of this
/// process with the same store and the same layout share one check, except for its LIST. Like a
/// campaign, this function reports a transient failure and repeats the check.
pub(crate) async fn check_store(cx: &Context, patience: Patience) -> Result<(), Error> {
    if !cx.config.check_store {
        return Ok(());
    }
    let done = cell(&cx.given, cx.config.layout);
    let writes = WriteAnswers::new(WRITES_WITHOUT_ETAG);
    let (mut failures, mut denial) = (0, Denial::default());
    let key = cx.keys.store_check(cx.process.unique());
    loop {
        let check = Check { cx, key: &key, writes: &writes, slow: failures > 0 };
        let Err(error) = check.once(&done).await else {
            cx.works();
            cx.wrote();
            return Ok(());
        };
        failures += 1;
        let enough = patience == Patience::Once && failures >= FAILURES_BEFORE_GIVING_UP;
        let pause = match error.kind() {
            ErrorKind::Unavailable => Some(cx.retry_delay(failures, cx.config.poll_interval)),
            // The check has detected a defect of the store, so another attempt would give the same
            // result.
            ErrorKind::UnsafeStore => None,
            _ if patience == Patience::Wait => denial.pause(cx, &error),
            _ => None,
        };
        let Some(pause) = pause.filter(|_| !enough) else {
            cx.meter.campaigned("failed");
            return Err(error);
        };
        cx.failing(&error);
        cx.tell(CampaignEvent::StoreFailed(error));
        sleep(&cx.process, pause).await;
    }
}

fn cell(store: &Arc<dyn Store>, layout: Layout) -> Arc<OnceCell<()>> {
    static CHECKED: LazyLock<Mutex<Vec<Checked>>> = LazyLock::new(Mutex::default);
    let mut checked = unpoisoned(CHECKED.lock());
    checked.retain(|checked| checked.store.strong_count() > 0);
    // Each layout has its own check.
    let same = |checked: &&Checked| {
        let same_store = std::ptr::addr_eq(checked.store.as_ptr(), Arc::as_ptr(store));
        same_store && checked.layout == layout
    };
    if let Some(checked) = checked.iter().find(same) {
        return Arc::clone(&checked.done);
    }
    let done = Arc::new(OnceCell::new());
    checked.push(Checked { store: Arc::downgrade(store), layout, done: Arc::clone(&done) });
    done
}

struct Check<'a> {
    cx: &'a Context,
    key: &'a str,
    writes: &'a WriteAnswers,
    /// True if the check pauses before each write.
    slow: bool,
}

impl Check<'_> {
    /// Runs the whole check once for each store, and the LIST of the check once for each election.
    async fn once(&self, done: &OnceCell<()>) -> Result<(), Error> {
        done.get_or_try_init(|| self.run()).await?;
        self.cx.prefix_checked.get_or_try_init(|| self.lists_after_a_key()).await?;
        Ok(())
    }

    async fn run(&self) -> Result<(), Error> {
        let mut etag = self.refuses_to_create_again().await?;
        for _ in 0..ATTEMPTS {
            // The first replace has the right ETag. From the outcome of this replace, a store
            // client detects whether the server compares ETags with or without their quotes. The
            // server must then refuse a wrong ETag in the detected form.
            if let Some(current) = self.replace(etag.clone()).await? {
                self.refuses_a_wrong_etag(&current).await?;
                return self.lists_after_a_key().await;
            }
            if self.read().await? == etag {
                return Err(
                    self.unsafe_store("refuses to replace an object whose ETag matches (If-Match)")
                );
            }
            let pause = self.cx.process.jitter(self.cx.config.request_timeout / 10);
            sleep(&self.cx.process, pause).await;
            etag = self.read().await?;
        }
        let message = format!(
            "{} cannot be checked: other processes keep writing {}; try again",
            self.cx.store.describe(),
            self.key
        );
        Err(Error::new(ErrorKind::Unavailable, message))
    }

    async fn refuses_to_create_again(&self) -> Result<ETag, Error> {
        let create = || self.write("creating", self.cx.store.create(self.key, self.body()));
        let Some(etag) = create().await? else { return self.read().await };
        if create().await?.is_some() {
            return Err(self
                .unsafe_store("creates an object that exists already (it ignores If-None-Match)"));
        }
        Ok(etag)
    }

    async fn refuses_a_wrong_etag(&self, etag: &ETag) -> Result<(), Error> {
        if self.replace(wrong(etag)).await?.is_some() {
            return Err(self.unsafe_store(
                "replaces an object whose ETag does not match (it ignores If-Match)",
            ));
        }
        Ok(())
    }

    /// Lists up to 1,000 keys under the prefix, to check the order of existing epoch objects, and
    /// to find another election. An election with [`Layout::SingleObject`] needs no
    /// order.
    async fn lists_after_a_key(&self) -> Result<(), Error> {
        let prefix = self.cx.keys.prefix();
        // A store that lists without order reads the whole folder of the prefix, and its client
        // sorts the keys. So this LIST only looks for the other layout, and omits the keys of lower
        // folders.
        let prefix = match self.cx.given.capabilities().lists_without_order {
            true => format!("{prefix}lock"),
            false => prefix.to_owned(),
        };
        let call = self.cx.store.list(&prefix, self.key, PAGE);
        let page = self.ask("listing after", call).await?;
        self.finds_no_other_election(&page).await?;
        if self.cx.config.layout == Layout::EpochFiles {
            self.is_in_order(&page)?;
        }
        // This LIST is also the check for the prefix of this election, so `once` does not repeat
        // it.
        let _ = self.cx.prefix_checked.set(());
        Ok(())
    }

    fn is_in_order(&self, page: &Page) -> Result<(), Error> {
        if page.entries.iter().any(|entry| *entry.key <= *self.key) {
            return Err(self.unsafe_store(
                "lists keys at or before the start of the listing (it ignores start-after)",
            ));
        }
        // A store with a hierarchical namespace orders keys by their path segments. No key of an
        // election has a slash after the prefix, so keys in folders are skipped.
        let prefix = self.cx.keys.prefix();
        let of_folder =
            |entry: &&Entry| entry.key.strip_prefix(prefix).is_some_and(|name| !name.contains('/'));
        let keys = page.entries.iter().filter(of_folder).map(|entry| &entry.key);
        if !keys.is_sorted_by(|one, next| one < next) {
            return Err(self.unsafe_store("lists keys out of order"));
        }
        Ok(())
    }

    /// Refuses a prefix that contains another election: an election in the other layout, or an
    /// election across stores if this election is in one store, or the reverse. Candidates of
    /// different elections do not see each other, so each election would have a leader. Numbered
    /// objects that are not epochs are allowed under the prefix of an election.
    async fn finds_no_other_election(&self, page: &Page) -> Result<(), Error> {
        let Context { keys, config, .. } = self.cx;
        if !keys.are_epochs() {
            return Ok(());
        }
        let found = |is_other: &dyn Fn(&str) -> bool| {
            page.entries.iter().map(|entry| &entry.key).find(|key| is_other(key))
        };
        let of_set = found(&|key| keys.parse_set(key).is_some());
        let of_other_layout = found(&|key| match config.layout {
            Layout::EpochFiles => key == keys.lock(),
            Layout::SingleObject => keys.parse(key).is_some(),
        });
        match (of_set, of_other_layout) {
            (Some(key), _) if !config.across => {
                let why = "an election across stores: name all its stores (`Election::across`)";
                self.belongs_to(key, why)
            }
            (_, Some(key)) if config.across => {
                self.belongs_to(key, "an election in one store: choose another prefix")
            }
            (_, Some(key)) => {
                let other = match config.layout {
                    Layout::EpochFiles => "Layout::SingleObject (--layout single-object)",
                    Layout::SingleObject => "Layout::EpochFiles (--layout epoch-files)",
                };
                self.belongs_to(
                    key,
                    &format!(
                        "an election in the other layout: all candidates of one election must use \
                         the same layout, here {other}"
                    ),
                )
            }
            (None, None) if config.across => self.is_of_a_set(page).await,
            _ => Ok(()),
        }
    }

    /// Refuses a page that has no marker if the last epoch on the page belongs to an election in
    /// one store.
    async fn is_of_a_set(&self, page: &Page) -> Result<(), Error> {
        let keys = &self.cx.keys;
        let mut epochs = page.entries.iter().rev().filter(|entry| keys.parse(&entry.key).is_some());
        let Some(Entry { key, .. }) = epochs.next() else { return Ok(()) };
        let call = self.cx.store.get(key, None, MAX_READ_BYTES);
        let GetOutcome::Found(object) = self.ask("reading an epoch", call).await? else {
            return Ok(());
        };
        match Record::parse_as(Formats::Across, &object.body) {
            Err(BadRecord::OfOneStore) => {
                self.belongs_to(key, "an election in one store: choose another prefix")
            }
            _ => Ok(()),
        }
    }

    fn belongs_to(&self, key: &str, other: &str) -> Result<(), Error> {
        let place = self.cx.store.describe();
        let message = format!("{key} in {place} belongs to {other}");
        Err(Error::new(ErrorKind::InvalidInput, message))
    }

    async fn read(&self) -> Result<ETag, Error> {
        let call = self.cx.store.get(self.key, None, MAX_BODY);
        match self.ask("reading", call).await? {
            GetOutcome::Found(object) => Ok(object.etag),
            GetOutcome::TooLarge { etag, .. } => Ok(etag),
            GetOutcome::NotFound | GetOutcome::NotModified => {
                Err(self.unsafe_store("does not show an object after its write (read after write)"))
            }
        }
    }

    async fn replace(&self, etag: ETag) -> Result<Option<ETag>, Error> {
        self.write("replacing", self.cx.store.replace(self.key, self.body(), etag)).await
    }

    /// Returns the new ETag, or `None` if the store refused the condition. A failed write ends the
    /// attempt, and the next attempt is correct whether or not the failed write took effect.
    async fn write(
        &self,
        doing: &str,
        call: impl Future<Output = Result<PutOutcome, StoreError>>,
    ) -> Result<Option<ETag>, Error> {
        if self.slow {
            sleep(&self.cx.process, PAUSE).await;
        }
        match self.writes.read(self.exchange(doing, call).await) {
            Written::Done(etag) => Ok(Some(etag)),
            Written::Refused | Written::Missing => Ok(None),
            Written::Unknown(error) | Written::Failed(error) => Err(self.failed(doing, error)),
        }
    }

    /// Returns the response to a request that does not change the store.
    async fn ask<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, Error> {
        self.exchange(doing, call).await.map_err(|error| self.failed(doing, error.of_a_read()))
    }

    async fn exchange<T>(
        &self,
        doing: &str,
        call: impl Future<Output = Result<T, StoreError>>,
    ) -> Result<T, StoreError> {
        let limit = self.cx.config.request_timeout;
        let span = tracing::debug_span!("request", op = "check", doing, key = self.key);
        listing_within(&self.cx.process, limit, call.instrument(span)).await
    }

    fn failed(&self, doing: &str, error: StoreError) -> Error {
        let doing = format!("{doing} {} to check the store", self.key);
        Error::from_store(&doing, &self.cx.store.describe(), error)
    }

    /// Returns a new body for each write. Some stores use a hash of the body as the ETag, so only a
    /// new body gets a new ETag.
    fn body(&self) -> bytes::Bytes {
        let nonce = self.cx.process.unique();
        format!("{{\"tenure\":\"check of the store\",\"nonce\":\"{nonce:032x}\"}}\n").into()
    }

    fn unsafe_store(&self, defect: &str) -> Error {
        let message = format!(
            "{} must not be used for elections: it {defect}; seen on {}",
            self.cx.store.describe(),
            self.key
        );
        Error::new(ErrorKind::UnsafeStore, message)
    }
}

/// Returns another ETag of the same form: every letter and digit is replaced.
fn wrong(etag: &ETag) -> ETag {
    let other = |c: char| match c {
        '0' => '1',
        c if c.is_ascii_alphanumeric() => '0',
        c => c,
    };
    ETag::new(etag.as_str().chars().map(other).collect::<String>())
}
