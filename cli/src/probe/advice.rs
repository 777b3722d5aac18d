//! Warnings of the probe, with remedies, about conditions that break no promise of the store.

use std::time::Duration;

use serde::Serialize;

use super::clock_skew::Skew;
use super::metered_store::{Account, RequestKind};
use super::quantile::quantile;

/// A warning about a condition that breaks no promise of the store, and the remedy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Advice {
    pub about: &'static str,
    pub what: String,
    pub todo: String,
}

impl Advice {
    pub fn new(about: &'static str, what: impl Into<String>, todo: impl Into<String>) -> Advice {
        Advice { about, what: what.into(), todo: todo.into() }
    }
}

/// A setting of the probed bucket, as the report shows it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Setting {
    pub name: &'static str,
    pub value: String,
}

/// Returns the warnings about the clocks, the latencies of the requests, and the keys that were not
/// deleted.
pub fn all(account: &Account, skew: Option<Skew>, left_behind: &[String]) -> Vec<Advice> {
    let all = [skew.and_then(clock_advice), latency_advice(account), left_advice(left_behind)];
    all.into_iter().flatten().collect()
}

/// Warns if writes are slow. The timeout of a request is at most a fifth of the validity. The
/// advised validity is ten times the measured latency, so the timeout is twice this latency.
fn latency_advice(account: &Account) -> Option<Advice> {
    let writes = [RequestKind::Create, RequestKind::Replace]
        .iter()
        .filter_map(|kind| account.took.get(kind));
    let mut took: Vec<_> = writes.flatten().copied().collect();
    took.sort();
    let p99 = quantile(&took, 0.99)?;
    let validity = p99 * 10;
    (validity > Duration::from_secs(30)).then(|| {
        Advice::new(
            "latency",
            format!("one write in a hundred takes {} ms or more", p99.as_millis()),
            format!("use a --validity of {} s or more", validity.as_secs() + 1),
        )
    })
}

fn clock_advice(skew: Skew) -> Option<Advice> {
    let Skew { ahead, within, .. } = skew;
    if skew.disagree {
        return Some(Advice::new(
            "clock",
            "no single difference fits all of the store's dates: its servers' clocks differ, or a \
             clock was set during the probe",
            "leave store_clock_margin off; elections without it do not use the store's clock",
        ));
    }
    // Elections work even if this machine's clock differs from the store's clock, because they do
    // not compare these clocks. A difference above about 1 s harms other uses, such as times in
    // records.
    (ahead.abs() - within > 1.0).then(|| {
        Advice::new(
            "clock",
            format!(
                "the clocks of this machine and the store differ by {ahead:.1} s, ± {within:.1} s"
            ),
            "set the clock of this machine by NTP. Elections do not depend on it, but S3 refuses \
             requests at a difference of 15 minutes, and times in records are wrong",
        )
    })
}

fn left_advice(left: &[String]) -> Option<Advice> {
    left.first().map(|first| {
        Advice::new(
            "left behind",
            format!("{} objects could not be deleted, such as {first}", left.len()),
            "delete them; elections ignore them",
        )
    })
}
