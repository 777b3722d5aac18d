//! Who gets which lane.

use std::collections::BTreeMap;
use std::time::Duration;

use super::Interval;

/// More lanes cannot be distinguished.
const MOST: usize = 50;

/// A lane: its name, and what lies in it, in the order of time.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) name: String,
    pub(super) intervals: Vec<&'a Interval>,
}

/// A lane for each name, in the order of their first interval; the names that led least share the
/// last.
pub(super) fn lanes(intervals: &[Interval]) -> Vec<Lane<'_>> {
    let mut sorted: Vec<&Interval> = intervals.iter().collect();
    sorted.sort_by_key(|interval| (interval.perhaps_from, interval.from));
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for interval in sorted {
        let number = *numbers.entry(&interval.lane).or_insert(lanes.len());
        if number == lanes.len() {
            lanes.push(Lane { name: interval.lane.clone(), intervals: Vec::new() });
        }
        lanes[number].intervals.push(interval);
    }
    if lanes.len() > MOST { pooled(lanes) } else { lanes }
}

fn pooled(lanes: Vec<Lane<'_>>) -> Vec<Lane<'_>> {
    let led = |lane: &Lane<'_>| -> Duration {
        let each =
            lane.intervals.iter().map(|interval| interval.until.saturating_sub(interval.from));
        each.fold(Duration::ZERO, Duration::saturating_add)
    };
    let mut by_length: Vec<(Duration, usize)> =
        lanes.iter().enumerate().map(|(number, lane)| (led(lane), number)).collect();
    by_length.sort_by_key(|(led, number)| (std::cmp::Reverse(*led), *number));
    let alone: Vec<usize> = by_length[..MOST - 1].iter().map(|(_, number)| *number).collect();
    let (mut kept, mut others) = (Vec::new(), Vec::new());
    let mut pooled = 0;
    for (number, lane) in lanes.into_iter().enumerate() {
        if alone.contains(&number) {
            kept.push(lane);
        } else {
            pooled += 1;
            others.extend(lane.intervals);
        }
    }
    others.sort_by_key(|interval| (interval.perhaps_from, interval.from));
    kept.push(Lane { name: format!("{pooled} others"), intervals: others });
    kept
}
