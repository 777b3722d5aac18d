//! Assigns the intervals of a drawing to lanes.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use super::{Interval, Subject};

/// Maximum number of lanes for candidates. A person cannot distinguish more lanes.
const MOST: usize = 50;
/// Maximum number of lanes with [`Subject::Owners`]. A page with more lanes is too long to read.
const MOST_OWNED: usize = 1_000;

/// A lane of a drawing: its name, and its intervals in the order of time.
#[derive(Debug)]
pub(super) struct Lane<'a> {
    pub(super) name: String,
    pub(super) intervals: Vec<&'a Interval>,
}

/// Returns a lane for each name. The lane with the earliest interval comes first. With
/// [`Subject::Owners`], the lanes appear in the order of `intervals`. If there are more names than
/// the maximum number of lanes, the names with the least total time share the last lane.
pub(super) fn lanes(intervals: &[Interval], subject: Subject) -> Vec<Lane<'_>> {
    let mut sorted: Vec<&Interval> = intervals.iter().collect();
    if subject == Subject::Leaders {
        sorted.sort_by_key(|interval| (interval.perhaps_from, interval.from));
    }
    let mut numbers: BTreeMap<&str, usize> = BTreeMap::new();
    let mut lanes: Vec<Lane<'_>> = Vec::new();
    for interval in sorted {
        let number = *numbers.entry(&interval.lane).or_insert(lanes.len());
        if number == lanes.len() {
            lanes.push(Lane { name: interval.lane.clone(), intervals: Vec::new() });
        }
        lanes[number].intervals.push(interval);
    }
    let most = match subject {
        Subject::Leaders => MOST,
        Subject::Owners => MOST_OWNED,
    };
    let mut lanes = if lanes.len() > most { pooled(lanes, most) } else { lanes };
    for lane in &mut lanes {
        lane.intervals.sort_by_key(|interval| (interval.perhaps_from, interval.from));
    }
    lanes
}

fn pooled(lanes: Vec<Lane<'_>>, most: usize) -> Vec<Lane<'_>> {
    let led = |lane: &Lane<'_>| -> Duration {
        let each =
            lane.intervals.iter().map(|interval| interval.until.saturating_sub(interval.from));
        each.fold(Duration::ZERO, Duration::saturating_add)
    };
    let mut by_length: Vec<(Duration, usize)> =
        lanes.iter().enumerate().map(|(number, lane)| (led(lane), number)).collect();
    by_length.sort_by_key(|(led, number)| (std::cmp::Reverse(*led), *number));
    let alone: BTreeSet<usize> = by_length[..most - 1].iter().map(|(_, number)| *number).collect();
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
    kept.push(Lane { name: format!("{pooled} others"), intervals: others });
    kept
}
