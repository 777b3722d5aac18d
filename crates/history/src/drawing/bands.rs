//! Finds the times with no leader, or with more than one leader.

use std::collections::BTreeSet;
use std::time::Duration;

use super::text::short;
use super::{Band, BandKind, Interval};

/// Returns a band for each period in which no interval is solid, or several intervals are solid. An
/// interval is solid from `from` to `until`, the time in which its leader certainly led. The bands
/// are in ascending order.
pub(super) fn found(intervals: &[Interval]) -> Vec<Band> {
    let solid = || intervals.iter().filter(|interval| interval.until > interval.from);
    let edges: BTreeSet<Duration> = solid().flat_map(|i| [i.from, i.until]).collect();
    let edges: Vec<Duration> = edges.into_iter().collect();
    let mut by_begin: Vec<&Interval> = solid().collect();
    by_begin.sort_by_key(|interval| interval.from);
    // `leading` contains the intervals that have begun and not ended, as positions in `by_begin`.
    // `ends` contains the end and the position of each such interval.
    let (mut next, mut leading, mut ends) = (0, BTreeSet::new(), BTreeSet::new());
    let mut bands: Vec<(BandKind, Duration, Duration, String)> = Vec::new();
    for two in edges.windows(2) {
        while let Some((_, over)) = ends.first().copied().filter(|(until, _)| *until <= two[0]) {
            ends.pop_first();
            leading.remove(&over);
        }
        while let Some(interval) = by_begin.get(next).filter(|i| i.from <= two[0]) {
            leading.insert(next);
            ends.insert((interval.until, next));
            next += 1;
        }
        let kind = match leading.len() {
            0 => BandKind::Vacant,
            1 => continue,
            _ => BandKind::Several,
        };
        let leaders = names(leading.iter().map(|place| by_begin[*place]), leading.len());
        match bands.last_mut() {
            Some(last) if (last.0, last.2) == (kind, two[0]) && last.3 == leaders => {
                last.2 = two[1]
            }
            _ => bands.push((kind, two[0], two[1], leaders)),
        }
    }
    let band = |(kind, from, until, leaders): (BandKind, Duration, Duration, String)| {
        let length = short(until.saturating_sub(from));
        let tip = match kind {
            BandKind::Several => format!("{leaders} lead at the same time for {length}"),
            _ => format!("vacant for {length}"),
        };
        Band { kind, from, until, tip }
    };
    bands.into_iter().map(band).collect()
}

/// Maximum number of names in a tooltip. The tooltip shows only the number of any further leaders.
const NAMED: usize = 5;

fn names<'a>(leading: impl Iterator<Item = &'a Interval>, count: usize) -> String {
    let named = leading.take(NAMED).map(|i| format!("{} (epoch {})", i.lane, i.label));
    let named = named.collect::<Vec<_>>().join(", ");
    match count.saturating_sub(NAMED) {
        0 => named,
        others => format!("{named} and {others} others"),
    }
}
