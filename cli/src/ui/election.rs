//! The card of one election on the page of `tenure ui`.

use std::collections::BTreeMap;
use std::convert::Infallible;
use std::pin::pin;
use std::time::Duration;

use chrono::{DateTime, Utc};
use futures::StreamExt as _;
use serde::Serialize;
use tenure::{Election, Epoch, Error, ErrorKind, LastSeen, Layout, Observation};
use tenure_history::{LeadershipSpan, Reader};
use tokio::sync::watch;

use super::place::Place;
use crate::across::StoreReport;
use crate::election::LeaseState;
use crate::election::history::end_word;
use crate::election::watch::observer;
use crate::output::print::{json_line, millis, plain};
use crate::process::timer::pause;
use crate::store::urls::builder;

/// Maximum number of epochs in the timeline of an election's card.
const EPOCHS: usize = 50;
/// Maximum length of the leader's data on the card, in characters.
const SHOWN_DATA: usize = 2_000;
/// Interval of the checks for changes that only the passage of time causes, such as a lapse.
const LOOK: Duration = Duration::from_secs(1);
/// Interval of the checks of each store of an election across stores, each with a LIST and a GET.
const STORES_EVERY: Duration = Duration::from_secs(60);
const RETRY_EVERY: Duration = Duration::from_secs(10);
/// If two times differ by fewer milliseconds than this, the page treats them as equal, because
/// rounding can cause the difference.
const JITTER: u64 = 250;

#[derive(Debug, Clone, PartialEq, Serialize)]
struct ElectionCard {
    kind: &'static str,
    name: String,
    state: LeaseState,
    epoch: Option<u64>,
    leader: Option<String>,
    data: Option<String>,
    validity_ms: Option<u64>,
    /// Time at which the lease lapses if no renewal follows, in milliseconds since the start of
    /// this process.
    lapses_at: Option<u64>,
    answered_at: Option<u64>,
    /// The way in which the newest epoch ended. Null if this epoch is held.
    ended: Option<String>,
    error: Option<String>,
    /// A line for each store of an election across stores.
    stores: Vec<String>,
    /// The newest epochs, in ascending order.
    epochs: Vec<EpochSpan>,
}

/// An epoch in the timeline of the card, with times by the store's clock.
#[derive(Debug, Clone, PartialEq, Serialize)]
struct EpochSpan {
    epoch: u64,
    leader: Option<String>,
    from: Option<i64>,
    until: Option<i64>,
    end: String,
    /// Name of the process that ended the epoch, and the reason that it gave.
    by: Option<String>,
    reason: Option<String>,
}

impl EpochSpan {
    fn of(span: &LeadershipSpan) -> EpochSpan {
        let shown = |text: &Option<String>| text.as_deref().map(plain);
        let time = |at: Option<DateTime<Utc>>| at.map(|at| at.timestamp_millis());
        EpochSpan {
            epoch: span.epoch.get(),
            leader: shown(&span.candidate),
            from: time(span.from.at.or(span.from.latest)),
            // The end of an unsealed epoch is unknown. If its lease has lapsed, the latest possible
            // end is shown.
            until: time(span.until.at.or(span.until.latest.filter(|_| span.lapsed))),
            end: end_word(span),
            by: shown(&span.forced_by).or_else(|| shown(&span.sealed_by)),
            reason: shown(&span.reason),
        }
    }
}

/// The known epochs. A known epoch that has ended never changes, so only the newest known epoch and
/// newer epochs are read after a change.
#[derive(Debug, Default)]
struct Timeline {
    epochs: BTreeMap<u64, EpochSpan>,
    /// The newest epoch at the last successful reading of the timeline. If the newest epoch now
    /// differs in any field, the timeline is read again.
    read: Option<NewestEpoch>,
    /// The error of the last reading of the timeline, and the time of the next attempt.
    failed: Option<(String, u64)>,
}

impl Timeline {
    /// If `newest` has changed since the last call, reads the new epochs, but at most as many as
    /// the timeline shows. Also reads the newest known epoch again, because it may have ended. If
    /// the read fails, a later call repeats the read after a pause.
    async fn update(&mut self, place: &Place, layout: Layout, newest: NewestEpoch) {
        let waits = self.failed.as_ref().is_some_and(|(_, next)| place.board.now() < *next);
        if self.read == Some(newest) || waits {
            return;
        }
        // The epochs of an election only increase. So a lower epoch belongs to a new election,
        // which began after the deletion of the known epochs.
        if self.read.is_some_and(|read| newest.epoch < read.epoch) {
            self.epochs.clear();
        }
        let known = self.epochs.keys().next_back().copied().unwrap_or_default();
        let new = newest.epoch.map_or(0, |epoch| epoch.get()).abs_diff(known);
        let limit = usize::try_from(new).unwrap_or(EPOCHS).saturating_add(2).min(EPOCHS);
        let mut spans = read(place, layout, limit).await;
        // Further epochs may have begun since the poll, so the first read may leave a gap after the
        // known epochs. In this case, read again, with the timeline's maximum number of epochs.
        let oldest = spans.as_ref().ok().and_then(|spans| spans.iter().map(|it| it.epoch).min());
        if oldest > Some(known.max(1)) && limit < EPOCHS {
            spans = read(place, layout, EPOCHS).await;
        }
        match spans {
            Ok(spans) => {
                self.epochs.extend(spans.into_iter().map(|span| (span.epoch, span)));
                while self.epochs.len() > EPOCHS {
                    self.epochs.pop_first();
                }
                (self.read, self.failed) = (Some(newest), None);
            }
            Err(error) => {
                let next = place.board.now() + millis(RETRY_EVERY);
                self.failed = Some((format!("the epochs cannot be read: {error}"), next));
            }
        }
    }
}

async fn read(place: &Place, layout: Layout, limit: usize) -> Result<Vec<EpochSpan>, Error> {
    let reader = Reader::across(place.stores.iter().cloned(), &place.prefix)?;
    let history = reader.layout(layout).limit(limit).read().await?;
    Ok(history.spans.iter().map(EpochSpan::of).collect())
}

/// The newest known epoch. If any of these fields changes, the timeline must be read again.
#[derive(Debug, Clone, Copy, PartialEq)]
struct NewestEpoch {
    epoch: Option<Epoch>,
    sealed: bool,
    held: bool,
}

/// Follows an election until the future is dropped. Shows each error on the card, and retries.
pub async fn follow(place: Place, layout: Layout) {
    let election = builder(place.stores.clone(), &place.prefix).layout(layout);
    let built = observer(election, Some(place.poll)).build();
    let mut card = ElectionCard::new(&place);
    let election = match built {
        Ok(election) => election,
        Err(error) => {
            card.error = Some(plain(&error.to_string()));
            place.board.show(&place.id, &card);
            return std::future::pending().await;
        }
    };
    let mut timeline = Timeline::default();
    let (told, stores) = watch::channel(Vec::new());
    loop {
        let observed = observe(&election, &place, layout, &mut card, &mut timeline, &stores);
        let error = tokio::select! {
            Err(error) = observed => error,
            never = look_at_stores(&election, &place, &told) => match never {},
        };
        card.state = LeaseState::Unknown;
        card.error = Some(plain(&error.to_string()));
        place.board.show(&place.id, &card);
        pause(RETRY_EVERY).await;
    }
}

/// Publishes a line for each store of an election across stores, again and again.
async fn look_at_stores(
    election: &Election,
    place: &Place,
    told: &watch::Sender<Vec<String>>,
) -> Infallible {
    if place.stores.len() == 1 {
        return std::future::pending().await;
    }
    loop {
        if let Ok(set) = election.store_set().await {
            let lines = set.stores.iter().map(|it| StoreReport::of(it).line(|error| error));
            told.send_replace(lines.collect());
        }
        pause(STORES_EVERY).await;
    }
}

/// Observes the election, and updates its card, until an error occurs.
async fn observe(
    election: &Election,
    place: &Place,
    layout: Layout,
    card: &mut ElectionCard,
    timeline: &mut Timeline,
    stores: &watch::Receiver<Vec<String>>,
) -> Result<Infallible, Error> {
    let mut changes = pin!(election.observe());
    let mut observed = None;
    loop {
        tokio::select! {
            biased;
            change = changes.next() => match change {
                Some(change) => observed = Some(change?),
                None => return std::future::pending().await,
            },
            () = pause(LOOK) => {}
        }
        let Some(observation) = &observed else { continue };
        let seen = election.last_seen();
        let newest = NewestEpoch {
            epoch: seen.as_ref().map(|seen| seen.leader.epoch),
            sealed: seen.as_ref().is_some_and(|seen| seen.sealed),
            held: seen.as_ref().is_some_and(LastSeen::is_held),
        };
        timeline.update(place, layout, newest).await;
        card.update(observation, seen, election.since_last_answer(), place.board.now());
        card.error = match (&timeline.failed, election.last_failure()) {
            (_, Some(error)) if card.state == LeaseState::Unknown || needs_operator(&error) => {
                Some(plain(&error.to_string()))
            }
            (failed, _) => failed.as_ref().map(|(error, _)| plain(error)),
        };
        card.stores.clone_from(&stores.borrow());
        card.epochs = timeline.epochs.values().cloned().collect();
        place.board.show(&place.id, card);
    }
}

impl ElectionCard {
    fn new(place: &Place) -> ElectionCard {
        ElectionCard {
            kind: "election",
            name: place.name.clone(),
            state: LeaseState::Unknown,
            epoch: None,
            leader: None,
            data: None,
            validity_ms: None,
            lapses_at: None,
            answered_at: None,
            ended: None,
            error: None,
            stores: Vec::new(),
            epochs: Vec::new(),
        }
    }

    /// Updates the card to the state that the observer of the election knows at the time `now`.
    fn update(
        &mut self,
        observation: &Observation,
        seen: Option<LastSeen>,
        answered_ago: Option<Duration>,
        now: u64,
    ) {
        self.state = LeaseState::of(observation);
        let Some(seen) = seen else { return };
        self.epoch = Some(seen.leader.epoch.get());
        self.leader = seen.leader.candidate.as_deref().map(plain);
        self.validity_ms = seen.leader.validity.map(millis);
        self.data = match &seen.leader.data {
            serde_json::Value::Null => None,
            data => Some(shortened(&json_line(data))),
        };
        self.ended = match (seen.end, seen.is_held()) {
            (Some(end), _) => Some(end.to_string()),
            (None, false) => Some(if seen.sealed { "sealed" } else { "lapsed" }.to_owned()),
            (None, true) => None,
        };
        let lapses_at = seen.lapses_in.map(|left| now + millis(left));
        self.lapses_at = settled(self.lapses_at, lapses_at.filter(|_| self.ended.is_none()));
        self.answered_at =
            settled(self.answered_at, answered_ago.map(|ago| now - millis(ago).min(now)));
    }
}

/// Returns whether an operator must correct the failure. If so, a card shows the failure without a
/// delay.
pub fn needs_operator(failure: &Error) -> bool {
    failure.kind() != ErrorKind::Unavailable
}

/// Returns the new time. If it differs from the old time only by rounding, returns the old time.
pub fn settled(old: Option<u64>, new: Option<u64>) -> Option<u64> {
    match (old, new) {
        (Some(old), Some(new)) if old.abs_diff(new) < JITTER => Some(old),
        _ => new,
    }
}

/// Returns the text, or the beginning of a long text.
pub fn shortened(text: &str) -> String {
    let count = text.chars().count();
    if count <= SHOWN_DATA {
        return text.to_owned();
    }
    let start: String = text.chars().take(SHOWN_DATA).collect();
    format!("{start}… ({count} characters)")
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use tenure::store::MemoryStore;

    use super::*;
    use crate::ui::board::Board;

    fn place() -> Place {
        Place {
            board: Arc::new(Board::new(false, Duration::ZERO)),
            stores: vec![Arc::new(MemoryStore::new())],
            prefix: "p".to_owned(),
            name: String::new(),
            id: String::new(),
            poll: Duration::from_secs(5),
        }
    }

    /// Makes a candidate lead and resign this number of epochs, one after the other.
    async fn lead(place: &Place, epochs: u64) {
        let builder = Election::builder(Arc::clone(&place.stores[0]), "p").check_store(false);
        let election = builder.build().expect("valid settings");
        for _ in 0..epochs {
            let leadership = election.campaign().await.expect("no candidate leads");
            leadership.resign().await.expect("a resignation");
        }
    }

    impl Timeline {
        /// Updates the timeline after a poll that has found the epoch `newest`. Returns the known
        /// epochs.
        async fn after(&mut self, place: &Place, newest: u64) -> Vec<u64> {
            let newest = NewestEpoch { epoch: Epoch::new(newest), sealed: true, held: false };
            self.update(place, Layout::EpochFiles, newest).await;
            assert_eq!(self.failed, None);
            self.epochs.keys().copied().collect()
        }
    }

    /// Before the fix, if epochs began between a poll and the read of the epochs, the read returned
    /// these epochs instead of older ones, and the page never showed the older epochs.
    #[tokio::test]
    async fn regression_epochs_that_begin_after_the_poll_hide_no_older_epochs() {
        let (place, mut timeline) = (place(), Timeline::default());
        for (before, seen, exists) in [(0, 1, 4), (4, 5, 12)] {
            lead(&place, exists - before).await;
            let known = timeline.after(&place, seen).await;
            assert_eq!(known, (1..=exists).collect::<Vec<_>>());
        }
    }

    /// Before the fix, if the objects of an election were deleted and a new election began, the
    /// page showed the epochs of the old and the new election as one history.
    #[tokio::test]
    async fn regression_a_new_election_replaces_the_deleted_one() {
        let (mut place, mut timeline) = (place(), Timeline::default());
        lead(&place, 5).await;
        assert_eq!(timeline.after(&place, 5).await, [1, 2, 3, 4, 5]);
        place.stores = vec![Arc::new(MemoryStore::new())];
        lead(&place, 2).await;
        assert_eq!(timeline.after(&place, 2).await, [1, 2]);
    }
}
