//! The time axis: its position on the page, and its ticks.

use std::time::Duration;

use chrono::{DateTime, TimeDelta, Utc};

use super::text::short;

const MILLI: u64 = 1;
const SECOND: u64 = 1_000;
const MINUTE: u64 = 60 * SECOND;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;
const YEAR: u64 = 365 * DAY;
/// Distances between ticks, in milliseconds. If all of them are too short for an axis, the distance
/// is ten years times a power of two.
const STEPS: [u64; 35] = [
    MILLI,
    2,
    5,
    10,
    20,
    50,
    100,
    200,
    500,
    SECOND,
    2 * SECOND,
    5 * SECOND,
    10 * SECOND,
    15 * SECOND,
    30 * SECOND,
    MINUTE,
    2 * MINUTE,
    5 * MINUTE,
    10 * MINUTE,
    15 * MINUTE,
    30 * MINUTE,
    HOUR,
    2 * HOUR,
    3 * HOUR,
    6 * HOUR,
    12 * HOUR,
    DAY,
    2 * DAY,
    7 * DAY,
    14 * DAY,
    28 * DAY,
    91 * DAY,
    182 * DAY,
    YEAR,
    5 * YEAR,
];
/// Greatest time on the axis, in milliseconds: about nine million years. The sum of this time and
/// the distance between two ticks does not overflow.
const LAST: u64 = u64::MAX / 64;
/// Minimum distance of two ticks, in pixels.
const TICK_ROOM: f64 = 84.0;

/// Maps times to pixels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Axis {
    from: Duration,
    until: Duration,
    origin: Option<DateTime<Utc>>,
    left: f64,
    right: f64,
}

/// A tick of the axis: its position in pixels, its text, and the text below that text.
#[derive(Debug, Clone, PartialEq)]
pub(super) struct Tick {
    pub(super) x: f64,
    pub(super) text: String,
    pub(super) below: String,
}

impl Axis {
    pub(super) fn new(
        (from, until): (Duration, Duration),
        origin: Option<DateTime<Utc>>,
        (left, right): (f64, f64),
    ) -> Axis {
        // The range must not be empty, because `x` divides by its length. Times above `LAST` have
        // no ticks.
        let from = from.min(Duration::from_millis(LAST));
        let until = until.min(Duration::from_millis(LAST)).max(from + Duration::from_millis(10));
        Axis { from, until, origin, left, right }
    }

    pub(super) fn x(&self, at: Duration) -> f64 {
        let part = at.saturating_sub(self.from).as_secs_f64()
            / self.until.saturating_sub(self.from).as_secs_f64();
        self.left + part.clamp(0.0, 1.0) * (self.right - self.left)
    }

    pub(super) fn ticks(&self) -> Vec<Tick> {
        let most = ((self.right - self.left) / TICK_ROOM).max(1.0) as u64;
        let length = millis(self.until.saturating_sub(self.from));
        let step = step(length, most);
        // Place the ticks at round times of day, and not at round distances from the origin.
        let shift =
            self.origin.map_or(0, |origin| origin.timestamp_millis().rem_euclid(step as i64));
        let first = (millis(self.from) + shift.unsigned_abs()).div_ceil(step) * step;
        let mut date = String::new();
        let numbers = (0..=most).map(|number| first + number * step - shift.unsigned_abs());
        let inside = numbers.take_while(|at| *at <= millis(self.until));
        inside
            .map(|at| {
                let (text, day) = self.words(at, step);
                let below = if day == date { String::new() } else { day.clone() };
                date = day;
                Tick { x: self.x(Duration::from_millis(at)), text, below }
            })
            .collect()
    }

    fn words(&self, at: u64, step: u64) -> (String, String) {
        let delta = i64::try_from(at).ok().and_then(TimeDelta::try_milliseconds);
        let time = self.origin.zip(delta).and_then(|(origin, at)| origin.checked_add_signed(at));
        let Some(time) = time else {
            return (short(Duration::from_millis(at)), String::new());
        };
        let (format, below) = match step {
            0..SECOND => ("%H:%M:%S%.3f", "%F"),
            SECOND..MINUTE => ("%H:%M:%S", "%F"),
            MINUTE..DAY => ("%H:%M", "%F"),
            DAY..YEAR => ("%b %-d", "%Y"),
            _ => ("%Y", ""),
        };
        (time.format(format).to_string(), time.format(below).to_string())
    }
}

/// Returns the shortest distance between ticks that divides a range of this length into at most
/// `most` parts.
fn step(length: u64, most: u64) -> u64 {
    let fits = |step: &u64| length / step <= most;
    STEPS.into_iter().find(fits).unwrap_or_else(|| {
        let mut step = 10 * YEAR;
        while !fits(&step) {
            step *= 2;
        }
        step
    })
}

fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn texts(from: u64, until: u64, origin: Option<&str>) -> Vec<String> {
        let range = (Duration::from_millis(from), Duration::from_millis(until));
        let origin = origin.map(|text| text.parse().expect("a time"));
        let ticks = Axis::new(range, origin, (0.0, 500.0)).ticks();
        let word = |tick: Tick| format!("{} {}", tick.text, tick.below).trim().to_owned();
        ticks.into_iter().map(word).collect()
    }

    #[test]
    fn ticks_show_the_time_since_the_origin() {
        assert_eq!(texts(0, 9_000, None), ["0ms", "2s", "4s", "6s", "8s"]);
        assert_eq!(texts(0, 300_000, None), ["0ms", "1m", "2m", "3m", "4m", "5m"]);
        assert_eq!(texts(7, 7, None), ["8ms", "10ms", "12ms", "14ms", "16ms"]);
    }

    #[test]
    fn ticks_are_at_round_times_of_day() {
        let origin = Some("2026-11-20T23:12:07.5Z");
        assert_eq!(
            texts(0, 9_000, origin),
            ["23:12:08 2026-11-20", "23:12:10", "23:12:12", "23:12:14", "23:12:16"]
        );
        assert_eq!(texts(0, 3 * HOUR, origin), ["00:00 2026-11-21", "01:00", "02:00"]);
        assert_eq!(texts(0, 4 * DAY, origin)[0], "Nov 21 2026");
    }

    #[test]
    fn an_axis_of_any_length_has_few_ticks() {
        for length in [1, 50, DAY, 400 * DAY, 9_000 * YEAR, u64::MAX / 4, u64::MAX] {
            for origin in [None, Some("2026-11-20T23:12:07.5Z"), Some("1902-01-01T00:00:00Z")] {
                let ticks = texts(0, length, origin);
                assert!((1..=7).contains(&ticks.len()), "{length}: {ticks:?}");
            }
        }
    }
}
