//! Races of concurrent writers. Exactly one writer of a key may win.

mod object;
mod suite;
mod verdict;
mod writers;

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use bytes::Bytes;
use tenure::Process;
use tenure::store::{ETag, Store, StoreErrorKind};
use tokio::task::JoinSet;

use self::object::{
    RETRY_AFTER, Seen, TRIES, body, created, long_body, look, pause, settled, unless_unclear,
};
pub(crate) use self::suite::{one_creator_wins, one_replacer_wins};
pub use self::verdict::Tally;
use self::verdict::{RaceOutcome, check};
use self::writers::{WriteAnswer, Writer, write_all};
use super::check_scope::{self, CheckFailure, Checked};

/// Number of writers in a round.
pub const WRITERS: usize = 32;
/// Number of keys in a round of [`Shape::Overlapping`]. Each key has one long write.
const OVERLAPPED: usize = 2;
/// Maximum number of rounds in a batch. The objects of a batch are deleted only after its end.
const BATCH: u32 = 20;
/// Minimum number of rounds of each kind, even after the caller stops the races.
const FEWEST: u32 = 2;
/// Maximum length of a long body, in bytes. Some servers keep bodies of up to 5 MiB in memory, and
/// write a longer body to a file between the check of the condition and the commit.
pub const LONGEST: usize = 5 << 20;
/// Minimum length of a long body, in bytes. It exceeds `MAX_READ`.
const SHORTEST: usize = 160 << 10;
/// Maximum time of a long write. After a slower write, the next long body has half the length.
const PATIENCE: Duration = Duration::from_secs(1);

/// The timing of the writers of a round. Rounds alternate between the two variants.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Shape {
    /// All writers write a short body to one key at the same moment.
    Together,
    /// For each of two keys, one writer writes a long body, so the store takes longer between its
    /// check and its commit. The other writers write short bodies together during the long write.
    Overlapping,
}

/// The conditions that stop the races.
#[derive(Debug, Clone)]
pub struct Bounds {
    /// Number of rounds of each kind. `None` sets no limit.
    pub rounds: Option<u32>,
    /// Time during which rounds may start. The first two rounds of each kind ignore this limit.
    pub span: Option<Duration>,
    /// Flag with which the caller stops the races. The first two rounds of each kind ignore it.
    pub enough: Arc<AtomicBool>,
    /// Length of the longest body, in bytes.
    pub longest: usize,
}

/// The races on one store.
#[derive(Debug)]
pub struct Races {
    store: Arc<dyn Store>,
    /// Prefix of each key.
    start: String,
    keys: u64,
    listings: bool,
    /// Length of the long bodies, in bytes. `None` if the store accepts no long body.
    pub long: Option<usize>,
    /// Duration of the fastest long write so far. Short writes delay the others.
    took: Duration,
    /// Delay of the next short writes, as a fraction of `took`.
    part: f64,
    /// Time on the boot clock at which [`Bounds::span`] ends. `None` means no limit.
    until: Option<Duration>,
    /// Tally of the races to create an object.
    pub creates: Tally,
    /// Tally of the races to replace an object.
    pub replaces: Tally,
}

/// The key of a race, and the object to replace, if any.
#[derive(Debug, Clone)]
struct Start {
    key: String,
    before: Option<(Bytes, ETag)>,
}

impl Bounds {
    /// Returns the maximum number of rounds in the next batch. If [`Bounds::span`] limits the time,
    /// batches are small, so that both kinds of races share the time.
    fn batch(&self, done: u32) -> u32 {
        let batch = if self.span.is_some() { FEWEST } else { BATCH };
        self.rounds.map_or(batch, |rounds| (rounds - done).min(batch))
    }
}

impl Shape {
    fn of(round: u32) -> Shape {
        if round.is_multiple_of(2) { Shape::Together } else { Shape::Overlapping }
    }

    fn keys(self) -> usize {
        match self {
            Shape::Together => 1,
            Shape::Overlapping => OVERLAPPED,
        }
    }
}

impl Races {
    /// Opens a connection for each writer, and measures the longest body that the store writes
    /// within a second. Without open connections, the writers of the first round would not overlap.
    ///
    /// All keys start with `start`. If `listings` is true, a listing must show each winner.
    ///
    /// # Errors
    ///
    /// Returns the error of the first request that failed with a known effect.
    pub async fn prepare(
        store: &Arc<dyn Store>,
        start: String,
        listings: bool,
        longest: usize,
    ) -> Checked<Races> {
        let mut readers = JoinSet::new();
        for _ in 0..WRITERS {
            let (store, key) = (Arc::clone(store), format!("{start}warm-up"));
            readers.spawn(async move { look(&store, &key).await });
        }
        for read in readers.join_all().await {
            unless_unclear(read)?;
        }
        let mut races = Races {
            store: Arc::clone(store),
            start,
            keys: 0,
            listings,
            long: None,
            took: Duration::ZERO,
            part: fastrand::f64(),
            until: None,
            creates: Tally::default(),
            replaces: Tally::default(),
        };
        races.measure_a_long_write(longest).await?;
        Ok(races)
    }

    fn key(&mut self, name: &str) -> String {
        self.keys += 1;
        format!("{}{name}-{:06}", self.start, self.keys)
    }

    async fn measure_a_long_write(&mut self, longest: usize) -> Checked {
        let mut len = longest;
        while len >= SHORTEST {
            let (key, body) = (self.key("warm-up"), long_body(len));
            let sent = Process::system().now().boot;
            match self.store.create(&key, body).await {
                Ok(_) => {
                    self.took = Process::system().now().boot.saturating_sub(sent);
                    self.long = Some(len);
                    if self.took <= PATIENCE {
                        break;
                    }
                }
                // After any other error, the next attempt has a shorter body: some stores refuse
                // long bodies, and some connections are too slow for long bodies.
                Err(error) if error.kind() == StoreErrorKind::AccessDenied => {
                    return Err(CheckFailure::Request(error));
                }
                Err(_) => {}
            }
            len /= 2;
        }
        Ok(())
    }

    /// Runs races until the bounds are reached or a fault is found. The tallies include all
    /// finished races, even after an error.
    ///
    /// # Errors
    ///
    /// Returns the error of the first request that failed with a known effect, or that failed while
    /// a race was prepared.
    pub async fn run(&mut self, bounds: &Bounds) -> Checked {
        self.until = bounds.span.map(|span| Process::system().now().boot.saturating_add(span));
        while self.may_start(self.replaces.rounds, bounds) && !self.any_broken() {
            let batch = bounds.batch(self.replaces.rounds);
            let create = self.create_batch(batch, bounds).await?;
            let replace = self.replace_batch(batch, bounds).await?;
            if bounds.rounds.is_none_or(|rounds| self.replaces.rounds < rounds) {
                self.forget(create).await?;
                self.forget(replace).await?;
            }
        }
        Ok(())
    }

    /// Deletes keys that have no write in flight, so that long runs do not fill the store.
    async fn forget(&self, keys: Vec<String>) -> Checked {
        for some in keys.chunks(1_000) {
            unless_unclear(check_scope::delete(&self.store, some.to_vec()).await)?;
        }
        Ok(())
    }

    fn may_start(&self, done: u32, bounds: &Bounds) -> bool {
        let in_time = self.until.is_none_or(|until| Process::system().now().boot < until);
        bounds.rounds.is_none_or(|rounds| done < rounds)
            && (done < FEWEST || (in_time && !bounds.enough.load(Ordering::Relaxed)))
    }

    fn any_broken(&self) -> bool {
        self.creates.broken > 0 || self.replaces.broken > 0
    }

    /// Runs races to create a missing key. If `listings` is true, a listing after a decided race
    /// must show exactly the new keys. Returns the keys that have no write in flight.
    async fn create_batch(&mut self, rounds: u32, bounds: &Bounds) -> Checked<Vec<String>> {
        let folder = self.key("create-race");
        let (mut before, mut doubtful, mut settled) = (folder.clone(), Vec::new(), Vec::new());
        for round in 0..rounds {
            if !self.may_start(self.creates.rounds, bounds) {
                break;
            }
            let shape = Shape::of(self.creates.rounds);
            let keys: Vec<_> =
                (0..shape.keys()).map(|key| format!("{folder}-{round:06}-{key}")).collect();
            let starts = keys.iter().map(|key| Start { key: key.clone(), before: None }).collect();
            let decided = self.round(shape, starts, &mut doubtful, &mut settled).await?;
            if decided && self.listings {
                let page = check_scope::page(&self.store, &folder, &before, keys.len() + 1).await;
                match page {
                    Ok(page) if page.entries.iter().map(|entry| &entry.key).eq(&keys) => {}
                    Ok(_) => self.creates.breaks(format!(
                        "round {round}: a listing right after the create does not show exactly \
                         the new keys"
                    )),
                    Err(CheckFailure::Broken(violation)) => self.creates.breaks(violation),
                    Err(failure) if failure.is_unclear() => {}
                    Err(failure) => return Err(failure),
                }
            }
            before = keys.last().cloned().unwrap_or(before);
        }
        nothing_came_later(&self.store, &doubtful, &mut self.creates).await?;
        Ok(settled)
    }

    /// Runs races of writers that replace the same object on the condition of the same ETag. The
    /// objects of all races are created first, because some services allow only one write of an
    /// object per second. Returns the keys that have no write in flight.
    async fn replace_batch(&mut self, rounds: u32, bounds: &Bounds) -> Checked<Vec<String>> {
        let first = self.replaces.rounds;
        let mut objects = Vec::new();
        for round in first..first + rounds {
            let mut starts = Vec::new();
            for _ in 0..Shape::of(round).keys() {
                starts.push(self.an_object().await?);
            }
            objects.push((Shape::of(round), starts));
        }
        let (mut doubtful, mut settled) = (Vec::new(), Vec::new());
        for (shape, starts) in objects {
            if !self.may_start(self.replaces.rounds, bounds) {
                settled.extend(starts.into_iter().map(|start| start.key));
                continue;
            }
            self.round(shape, starts, &mut doubtful, &mut settled).await?;
        }
        nothing_came_later(&self.store, &doubtful, &mut self.replaces).await?;
        Ok(settled)
    }

    /// Runs one round of 32 writers over these keys. Returns true if all races were decided.
    async fn round(
        &mut self,
        shape: Shape,
        starts: Vec<Start>,
        doubtful: &mut Vec<(String, ETag)>,
        settled: &mut Vec<String>,
    ) -> Checked<bool> {
        let creates = starts.iter().all(|start| start.before.is_none());
        let writers = self.writers(shape, &starts);
        let told = write_all(&self.store, &writers).await?;
        let (mut decided, mut races) = (true, Vec::new());
        for start in &starts {
            let of_this = |writer: &Writer| writer.key == start.key;
            let (bodies, told): (Vec<_>, Vec<_>) = writers
                .iter()
                .zip(&told)
                .filter(|(writer, _)| of_this(writer))
                .map(|(writer, (told, took))| {
                    if writer.long && told.is_ok() {
                        self.took = self.took.min(*took);
                    }
                    (writer.body.clone(), told.clone())
                })
                .unzip();
            let (outcome, found) = checked(&self.store, start, &bodies, &told).await?;
            decided &= outcome == RaceOutcome::Decided;
            match found {
                Some(found) if told.iter().any(Result::is_err) => {
                    doubtful.push((start.key.clone(), found.etag));
                }
                _ if told.iter().all(Result::is_ok) => settled.push(start.key.clone()),
                _ => {}
            }
            races.push((told, outcome));
        }
        let tally = if creates { &mut self.creates } else { &mut self.replaces };
        tally.count(races);
        Ok(decided)
    }

    fn writers(&mut self, shape: Shape, starts: &[Start]) -> Vec<Writer> {
        let delays: Vec<_> = starts.iter().map(|_| self.next_delay(shape)).collect();
        let writers = (0..WRITERS).map(|number| {
            let of = number % starts.len();
            let Start { key, before } = &starts[of];
            let first = number < starts.len();
            let long = self.long.filter(|_| shape == Shape::Overlapping && first);
            let body = match long {
                Some(len) => long_body(len),
                None => body(&format!("writer {number}")),
            };
            let delay = if first { Duration::ZERO } else { delays[of] };
            let etag = before.as_ref().map(|(_, etag)| etag.clone());
            Writer { key: key.clone(), body, etag, delay, long: long.is_some() }
        });
        writers.collect()
    }

    /// Returns the delay of the next short writes. Steps of the golden ratio spread the delays
    /// evenly over the time of a long write, for any number of rounds.
    fn next_delay(&mut self, shape: Shape) -> Duration {
        if shape == Shape::Together {
            return Duration::ZERO;
        }
        self.part = (self.part + 0.618_034).fract();
        // The factor 1.1 allows for a long write that is 10 % slower than the fastest one.
        self.took.min(2 * PATIENCE).mul_f64(1.1 * self.part)
    }
}

impl Races {
    /// Creates an object. If the effect of a create is unknown, tries a new key, [`TRIES`] at most.
    async fn an_object(&mut self) -> Checked<Start> {
        let mut asked = 0;
        loop {
            asked += 1;
            let (key, body) = (self.key("replace-race"), body("nobody"));
            match created(&self.store, &key, &body).await {
                Ok(etag) => return Ok(Start { key, before: Some((body, etag)) }),
                Err(failure) if failure.is_unclear() && asked < TRIES => {
                    pause(RETRY_AFTER * asked).await;
                }
                Err(failure) => return Err(failure),
            }
        }
    }
}

async fn checked(
    store: &Arc<dyn Store>,
    start: &Start,
    bodies: &[Bytes],
    told: &[WriteAnswer],
) -> Checked<(RaceOutcome, Option<Seen>)> {
    let before = start.before.as_ref().map(|(body, _)| body);
    match settled(store, &start.key).await {
        Ok(found) => Ok((check(bodies, before, told, found.as_ref()), found)),
        Err(failure) if failure.is_unclear() => Ok((RaceOutcome::Undecided, None)),
        Err(failure) => Err(failure),
    }
}

/// Checks that no object was overwritten by a write that took effect after its timeout.
async fn nothing_came_later(
    store: &Arc<dyn Store>,
    doubtful: &[(String, ETag)],
    tally: &mut Tally,
) -> Checked {
    for (key, etag) in doubtful {
        match look(store, key).await {
            Ok(Some(seen)) if seen.etag == *etag => {}
            Ok(_) => tally.breaks("a late write has overwritten the winner's write".to_owned()),
            Err(failure) if failure.is_unclear() => {}
            Err(failure) => return Err(failure),
        }
    }
    Ok(())
}
