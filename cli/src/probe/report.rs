//! The report of a probe, for people and as JSON.

use std::collections::BTreeMap;
use std::fmt::Write as _;

use serde::Serialize;
use tenure::store::Store as _;
use tenure_conformance::race::{Tally, WRITERS};

use super::advice::{self, Advice, Setting};
use super::clock_skew::Skew;
use super::metered_store::{Account, Meter};
use super::missed_faults::{Power, no_fault_seen, power};
use super::quantile::quantile;
use crate::cost::prices::Prices;
use crate::exit;
use crate::output::print::plain;

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Verdict {
    NoFaultSeen,
    Unsafe,
    Inconclusive,
}

/// The result of the checks of one promise of the store.
#[derive(Debug, Clone, Serialize)]
pub struct Finding {
    pub name: &'static str,
    pub promise: &'static str,
    pub kept: PromiseStatus,
    /// How the store broke the promise, or the reason why the result is unknown.
    pub seen: Option<String>,
    /// True if an election in this layout relies on this promise of the store.
    pub needed: bool,
    /// Number of attempts of the check in which the answer was unclear.
    pub unclear: u32,
    /// How many races were run, and their results. `None` if races do not check this promise.
    pub race: Option<Tally>,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum PromiseStatus {
    Yes,
    No,
    Unknown,
}

/// Latencies of requests of one kind.
#[derive(Debug, Clone, Serialize)]
struct Latency {
    request: &'static str,
    answers: usize,
    p50_ms: f64,
    p99_ms: f64,
    max_ms: f64,
}

#[derive(Debug, Clone, Serialize)]
struct Clock {
    /// The store's clock minus the local clock, in milliseconds.
    ahead_ms: f64,
    within_ms: f64,
    answers: usize,
}

/// The object that `--json` prints.
#[derive(Debug, Serialize)]
pub struct ProbeReport {
    pub verdict: Verdict,
    /// The reason for the verdict, with a remedy.
    pub why: String,
    store: String,
    keys: String,
    rounds: u32,
    writers: usize,
    /// Length in bytes of the body of a long write in the races.
    long_bytes: Option<usize>,
    power: Vec<Power>,
    pub promises: Vec<Finding>,
    latency: Vec<Latency>,
    clock: Option<Clock>,
    settings: Vec<Setting>,
    pub warnings: Vec<Advice>,
    requests: BTreeMap<&'static str, u64>,
    cost_usd: Option<f64>,
    pub left_behind: Vec<String>,
}

/// The results of the checks of all promises.
#[derive(Debug, Default)]
pub struct Asked {
    pub promises: Vec<Finding>,
    pub long_bytes: Option<usize>,
    /// The reason why no promise was checked. It is set if the store does not support deletions.
    pub not_tried: Option<String>,
}

impl ProbeReport {
    /// Returns the report about the promises, the requests that `meter` counted, and the settings
    /// of the bucket.
    pub fn new(
        meter: &Meter,
        asked: Asked,
        (settings, mut warnings): (Vec<Setting>, Vec<Advice>),
        left_behind: Vec<String>,
        prices: Option<Prices>,
    ) -> ProbeReport {
        let Asked { promises, long_bytes, not_tried } = asked;
        let account = &*meter.account();
        let skew = Skew::of(&account.sightings);
        warnings.extend(advice::all(account, skew, &left_behind));
        let races = || promises.iter().filter_map(|one| one.race.as_ref());
        let rounds = races().map(|tally| tally.rounds).min().unwrap_or_default();
        // Undecided races are not counted, because they show nothing about the store: their winner
        // is unknown.
        let decided = races().map(|tally| tally.races - tally.undecided).min().unwrap_or_default();
        let (verdict, why) = match not_tried {
            Some(why) => (Verdict::Inconclusive, nothing_tried(&why)),
            None => verdict(&promises, decided),
        };
        let requests = requests(account);
        let cost_usd = prices.map(|prices| cost(&prices, &requests, account.deleted_keys));
        let ms = |seconds: f64| (seconds * 1e4).round() / 10.0;
        let clock = skew.map(|skew| Clock {
            ahead_ms: ms(skew.ahead),
            within_ms: ms(skew.within),
            answers: skew.answers,
        });
        ProbeReport {
            verdict,
            why,
            store: meter.describe(),
            keys: meter.start().to_owned(),
            rounds,
            writers: WRITERS,
            long_bytes,
            power: power(decided),
            promises,
            latency: latencies(account),
            clock,
            settings,
            warnings,
            requests,
            cost_usd,
            left_behind,
        }
    }

    pub fn exit_code(&self) -> u8 {
        match self.verdict {
            Verdict::Unsafe => exit::UNSAFE,
            Verdict::Inconclusive => exit::UNAVAILABLE,
            Verdict::NoFaultSeen if !self.left_behind.is_empty() => exit::UNAVAILABLE,
            Verdict::NoFaultSeen => 0,
        }
    }

    pub fn for_people(&self) -> String {
        let mut text = format!(
            "{}, keys {}…, {} rounds of {} writers{}, long writes of {} KiB\n\n",
            plain(&self.store),
            plain(&self.keys),
            self.rounds,
            self.writers,
            if self.stopped_early() { ", ended by a fault" } else { "" },
            self.long_bytes.unwrap_or_default() >> 10
        );
        self.add_promises(&mut text);
        self.add_latency(&mut text);
        if let Some(clock) = &self.clock {
            let (way, ahead) = if clock.ahead_ms < 0.0 {
                ("behind", -clock.ahead_ms)
            } else {
                ("ahead of", clock.ahead_ms)
            };
            let _ = writeln!(
                text,
                "{:<12} the store's clock is {ahead} ms {way} the local clock, ± {} ms \
                 ({} answers)",
                "clock", clock.within_ms, clock.answers
            );
        }
        for Setting { name, value } in &self.settings {
            let _ = writeln!(text, "{name:<12} {}", plain(value));
        }
        let _ = writeln!(text, "{:<12} {}", "requests", self.costs());
        for Advice { about, what, todo } in &self.warnings {
            let _ = writeln!(text, "\nwarning: {about}: {}\n  to do: {}", plain(what), plain(todo));
        }
        let _ = write!(text, "\n{}", plain(&self.why));
        text
    }

    /// Returns whether the races ended with a fault, before the requested number of rounds.
    fn stopped_early(&self) -> bool {
        let mut races = self.promises.iter().filter(|one| one.race.is_some());
        races.any(|one| one.kept == PromiseStatus::No)
    }

    fn add_promises(&self, text: &mut String) {
        let _ = writeln!(text, "{:<50} {:<8} seen", "promise", "kept");
        for Finding { promise, kept, seen, needed, unclear, race, .. } in &self.promises {
            let kept = match (kept, needed) {
                (PromiseStatus::Yes, _) => "yes",
                (PromiseStatus::No, true) => "NO",
                (PromiseStatus::No, false) => "no",
                (PromiseStatus::Unknown, _) => "unknown",
            };
            let mut notes = Vec::new();
            if let Some(race) = race {
                let Tally { rounds, races, done, refused, unknown, undecided, .. } = race;
                let open = match undecided {
                    0 => String::new(),
                    races => format!(", {races} races undecided"),
                };
                notes.push(format!(
                    "{races} races in {rounds} rounds: {done} done, {refused} refused, \
                     {unknown} unknown{open}"
                ));
            }
            notes.extend(seen.as_ref().map(|seen| plain(seen)));
            if *unclear > 0 && seen.is_none() {
                notes.push(format!("{unclear} unclear answers, retried"));
            }
            if !needed {
                notes.push("not needed in this layout".to_owned());
            }
            let line = format!("{promise:<50} {kept:<8} {}", notes.join("; "));
            let _ = writeln!(text, "{}", line.trim_end());
        }
        text.push('\n');
    }

    fn add_latency(&self, text: &mut String) {
        let _ = writeln!(
            text,
            "{:<26} {:>7} {:>9} {:>9} {:>9}",
            "latency, ms", "answers", "p50", "p99", "most"
        );
        for Latency { request, answers, p50_ms, p99_ms, max_ms } in &self.latency {
            let _ = writeln!(
                text,
                "{request:<26} {answers:>7} {p50_ms:>9.1} {p99_ms:>9.1} {max_ms:>9.1}"
            );
        }
        text.push('\n');
    }

    fn costs(&self) -> String {
        let all: u64 = self.requests.values().sum();
        let each = self.requests.iter().map(|(kind, count)| format!("{count} {kind}"));
        let money = match self.cost_usd {
            Some(usd) => format!("; about {} at list prices", dollars(usd)),
            None => String::new(),
        };
        format!("{all}: {}{money}", each.collect::<Vec<_>>().join(", "))
    }
}

fn nothing_tried(why: &str) -> String {
    format!(
        "inconclusive: the store does not delete ({why}), so the probe wrote no keys. \
         Elections need no deletions, but a compactor does. Allow DELETE under the prefix, and \
         probe again"
    )
}

fn verdict(promises: &[Finding], races: u32) -> (Verdict, String) {
    let of = |kept| promises.iter().filter(move |one| one.needed && one.kept == kept);
    let words = |one: &Finding| one.seen.clone().unwrap_or_default();
    if let Some(first) = of(PromiseStatus::No).next() {
        let seen: Vec<_> = of(PromiseStatus::No).map(words).collect();
        let more = match seen.len() {
            1 => String::new(),
            all => format!(" ({all} promises are broken, see above)"),
        };
        let why = format!(
            "UNSAFE: do not hold elections on this store: it {}{more}. An election may \
             have two leaders, or none; use a store that keeps its promises",
            words(first)
        );
        return (Verdict::Unsafe, why);
    }
    if let Some(first) = of(PromiseStatus::Unknown).next() {
        let why = format!(
            "inconclusive: too few clear answers about this promise: {} ({}). Check that the store \
             can be reached and is not overloaded, and probe again",
            first.promise,
            words(first)
        );
        return (Verdict::Inconclusive, why);
    }
    (Verdict::NoFaultSeen, no_fault_seen(races))
}

fn requests(account: &Account) -> BTreeMap<&'static str, u64> {
    let mut requests = BTreeMap::new();
    for (kind, count) in &account.requests {
        let (_, counted_as) = kind.names();
        *requests.entry(counted_as).or_default() += count;
    }
    requests
}

fn cost(prices: &Prices, requests: &BTreeMap<&'static str, u64>, deleted_keys: u64) -> f64 {
    let count = |name| requests.get(name).copied().unwrap_or(0) as f64;
    let reads = count("reads") + count("settings");
    let counts = [count("writes"), count("lists"), reads, count("deletes"), deleted_keys as f64];
    // Rounds to a hundred-millionth of a dollar, because a read costs less than a millionth of a
    // dollar.
    (prices.cost(counts) * 1e8).round() / 1e8
}

/// Formats an amount in dollars with three decimals, or with more to show two significant digits.
fn dollars(usd: f64) -> String {
    let mut decimals = 3;
    while decimals < 8 && usd > 0.0 && usd * 10f64.powi(decimals) < 10.0 {
        decimals += 1;
    }
    format!("${usd:.*}", decimals as usize)
}

fn latencies(account: &Account) -> Vec<Latency> {
    let mut latencies = Vec::new();
    for (kind, took) in &account.took {
        let (request, _) = kind.names();
        let mut took = took.clone();
        took.sort();
        let ms = |part| {
            let took = quantile(&took, part).unwrap_or_default();
            (took.as_secs_f64() * 1e4).round() / 10.0
        };
        let answers = took.len();
        let (p50_ms, p99_ms, max_ms) = (ms(0.5), ms(0.99), ms(1.0));
        latencies.push(Latency { request, answers, p50_ms, p99_ms, max_ms });
    }
    latencies
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cost::prices;

    #[test]
    fn regression_each_deleted_key_has_a_price_on_dynamodb() {
        let dynamodb = prices::built_in().pop().expect("a list");
        let deletes = BTreeMap::from([("deletes", 2)]);
        assert_eq!(cost(&dynamodb, &deletes, 160), 160.0 * 0.625 / 1e6);
    }

    #[test]
    fn regression_a_small_cost_shows_two_digits() {
        let shown = |usd: f64| dollars(usd);
        assert_eq!([0.0, 1.234, 0.0113].map(shown), ["$0.000", "$1.234", "$0.011"]);
        assert_eq!(
            [0.004_44, 0.000_315, 0.000_000_4].map(shown),
            ["$0.0044", "$0.00032", "$0.00000040"]
        );
    }
}
