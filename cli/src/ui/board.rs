//! The cards that all open pages of `tenure ui` show, and the changes of these cards.

use std::collections::{BTreeMap, VecDeque};
use std::fmt::Write as _;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use serde::Serialize;
use tenure::Process;
use tokio::sync::watch;

use super::counted_store::ReadCounts;
use crate::cost::prices::Prices;
use crate::output::print::{json_line, millis};
use crate::output::watcher::PATIENCE;
use crate::process::lock::lock;

/// The state that all open pages share. Times are milliseconds since the start of this process.
/// They are readings of the boot clock, which never steps.
#[derive(Debug)]
pub struct Board {
    pub show_tokens: bool,
    poll: Duration,
    started: Duration,
    cards: Mutex<Cards>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct Cards {
    /// Number of changes of cards so far.
    version: u64,
    /// The value of `version` after the last removal of a card.
    removed: u64,
    cards: BTreeMap<String, Card>,
    stores: Vec<(Arc<ReadCounts>, Option<Prices>)>,
    /// Samples of the request counts. Each sample has a time, and for each store the numbers of
    /// LISTs and of GETs up to this time.
    samples: VecDeque<(u64, Vec<(u64, u64)>)>,
}

/// Maximum number of samples of the request counts.
const MOST_SAMPLES: usize = 30;

/// The newest JSON of a card, and the value of `version` at its last change.
#[derive(Debug)]
struct Card {
    version: u64,
    /// JSON of the card, as the page receives it.
    json: String,
}

/// The event `tick`, which a page receives regularly. It has the current time and the cost of the
/// page.
#[derive(Debug, Serialize)]
struct Tick {
    now: u64,
    /// Wall-clock time in milliseconds since 1970.
    wall: u64,
    /// If the store's last answer is older than this number of milliseconds, the page marks the age
    /// of the answer as late.
    late: u64,
    requests: u64,
    per_minute: f64,
    /// Cost of a month at the current rate of requests. Null in the first seconds, or if the price
    /// of a store is unknown.
    dollars_a_month: Option<f64>,
}

impl Board {
    pub fn new(show_tokens: bool, poll: Duration) -> Board {
        let started = Process::system().now().boot;
        let (changes, _) = watch::channel(0);
        Board { show_tokens, poll, started, cards: Mutex::default(), changes }
    }

    /// Returns the milliseconds since the start of this process. All cards contain such times.
    pub fn now(&self) -> u64 {
        millis(Process::system().now().boot.saturating_sub(self.started))
    }

    /// Adds a store whose requests count toward the cost of the page.
    pub fn count(&self, requests: Arc<ReadCounts>, prices: Option<Prices>) {
        lock(&self.cards).stores.push((requests, prices));
    }

    /// Shows a card, or replaces it.
    pub fn show(&self, id: &str, card: &impl Serialize) {
        let json = json_line(card);
        let mut cards = lock(&self.cards);
        if cards.cards.get(id).is_some_and(|card| card.json == json) {
            return;
        }
        cards.version += 1;
        let version = cards.version;
        cards.cards.insert(id.to_owned(), Card { version, json });
        self.changes.send_replace(version);
    }

    pub fn remove(&self, id: &str) {
        let mut cards = lock(&self.cards);
        if cards.cards.remove(id).is_some() {
            cards.version += 1;
            cards.removed = cards.version;
            self.changes.send_replace(cards.version);
        }
    }

    /// Returns a receiver that is notified of each change of a card.
    pub fn subscribe(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    /// Returns the events for the changes after `version`, and the new version. If a card was
    /// removed, the first event contains the keys of all cards, and the page removes all other
    /// cards. So the board need not keep the keys of removed cards. A new stream has version 0, and
    /// also gets this event, because a page may open its stream again after a restart of this
    /// process.
    pub fn events_since(&self, version: u64) -> (String, u64) {
        let cards = lock(&self.cards);
        let mut text = String::new();
        if version == 0 || cards.removed > version {
            let ids: Vec<&String> = cards.cards.keys().collect();
            text = format!("event: ids\ndata: {}\n\n", json_line(&ids));
        }
        for (id, card) in cards.cards.iter().filter(|(_, card)| card.version > version) {
            let (id, json) = (json_line(id), &card.json);
            writeln!(text, "event: card\ndata: {{\"id\":{id},\"card\":{json}}}\n")
                .expect("writing to a String cannot fail");
        }
        (text, cards.version)
    }

    /// Returns the text of the event `tick`.
    pub fn tick(&self) -> String {
        format!("event: tick\ndata: {}\n\n", json_line(&self.cost()))
    }

    /// Records the numbers of requests so far as a sample. [`tick`](Board::tick) computes the rate
    /// of the last minutes from the samples.
    pub fn sample(&self) {
        let now = self.now();
        let mut cards = lock(&self.cards);
        let counts = cards.counts();
        cards.samples.push_back((now, counts));
        if cards.samples.len() > MOST_SAMPLES {
            cards.samples.pop_front();
        }
    }

    fn cost(&self) -> Tick {
        let now = self.now();
        let cards = lock(&self.cards);
        let counts = cards.counts();
        // Before the first sample, the rate includes the requests that this process sent at its
        // start, which are more frequent than the later ones. So it gives no cost.
        let first = cards.samples.front().map(|_| 0.0);
        let (since, before) = cards.samples.front().cloned().unwrap_or_default();
        let minutes = now.saturating_sub(since).max(1) as f64 / 60_000.0;
        let (mut recent, mut dollars) = (0, first);
        for (index, (_, prices)) in cards.stores.iter().enumerate() {
            let (lists, reads) = before.get(index).copied().unwrap_or_default();
            let (lists, reads) = (counts[index].0 - lists, counts[index].1 - reads);
            recent += lists + reads;
            // An f64 represents all realistic counts of requests exactly.
            let price = |prices: &Prices| prices.cost([0.0, lists as f64, reads as f64, 0.0, 0.0]);
            dollars = dollars.zip(prices.as_ref()).map(|(sum, prices)| sum + price(prices));
        }
        const MINUTES_A_MONTH: f64 = 60.0 * 24.0 * 30.0;
        Tick {
            now,
            wall: millis(Process::system().now().wall),
            late: millis((self.poll * 2).max(PATIENCE)),
            requests: counts.iter().map(|(lists, reads)| lists + reads).sum(),
            per_minute: recent as f64 / minutes,
            dollars_a_month: dollars.map(|dollars| dollars / minutes * MINUTES_A_MONTH),
        }
    }
}

impl Cards {
    /// Returns the numbers of LISTs and GETs of each store so far.
    fn counts(&self) -> Vec<(u64, u64)> {
        self.stores.iter().map(|(counted, _)| counted.counts()).collect()
    }
}

#[cfg(test)]
mod tests {
    use tenure::store::Store as _;

    use super::super::counted_store::CountedStore;
    use super::*;

    #[test]
    fn a_stream_gets_only_newer_cards() {
        let board = Board::new(false, Duration::ZERO);
        board.show("a", &1);
        board.show("b", &2);
        let (text, seen) = board.events_since(0);
        assert!(text.starts_with("event: ids\ndata: [\"a\",\"b\"]\n\n"), "{text}");
        assert_eq!(text.matches("event: card").count(), 2);
        board.show("a", &1);
        assert_eq!(board.events_since(seen), (String::new(), seen));
        board.show("a", &3);
        let (text, seen) = board.events_since(seen);
        assert_eq!(text, "event: card\ndata: {\"id\":\"a\",\"card\":3}\n\n");
        board.remove("a");
        board.remove("unknown");
        let (text, seen) = board.events_since(seen);
        assert_eq!(text, "event: ids\ndata: [\"b\"]\n\n");
        assert_eq!(board.events_since(seen), (String::new(), seen));
    }

    /// Before the fix, the board kept the key of each removed card, so its memory grew without
    /// limit.
    #[test]
    fn regression_removed_cards_need_no_memory() {
        let board = Board::new(false, Duration::ZERO);
        for number in 0..1_000 {
            let id = number.to_string();
            board.show(&id, &number);
            board.remove(&id);
        }
        assert!(lock(&board.cards).cards.is_empty());
        assert_eq!(board.events_since(7).0, "event: ids\ndata: []\n\n");
    }

    #[tokio::test]
    async fn the_rate_leaves_out_the_requests_before_the_first_sample() {
        let board = Board::new(false, Duration::ZERO);
        let requests = Arc::<ReadCounts>::default();
        let store = Arc::new(tenure::store::MemoryStore::new());
        let counted = CountedStore { store, requests: Arc::clone(&requests) };
        board.count(requests, None);
        counted.list("", "", 1).await.expect("a page");
        assert!(board.cost().per_minute > 0.0 && board.cost().dollars_a_month.is_none());
        board.sample();
        let cost = board.cost();
        assert_eq!((cost.requests, cost.per_minute), (1, 0.0));
        for _ in 0..2 * MOST_SAMPLES {
            board.sample();
        }
        assert_eq!(lock(&board.cards).samples.len(), MOST_SAMPLES);
    }

    #[test]
    fn a_page_has_no_cost_if_the_price_of_a_store_is_unknown() {
        let board = Board::new(false, Duration::ZERO);
        board.sample();
        assert_eq!(board.cost().dollars_a_month, Some(0.0));
        board.count(Arc::default(), None);
        assert_eq!(board.cost().dollars_a_month, None);
    }
}
