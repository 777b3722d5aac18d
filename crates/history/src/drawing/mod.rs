//! Draws who led when, as an SVG for light and dark pages: a lane per candidate, an interval per
//! epoch, how each ended, and the times at which nobody or more than one led; or who owned each of
//! many things, such as partitions ([`Subject::Owners`]).
//!
//! Pure: values in, text out, and the same text for the same values. `tenure history`, the example
//! `failover` and the failures of the project's simulation are drawn with it.
//!
//! ```
//! use std::time::Duration;
//! use tenure_history::drawing::{Drawing, Interval, Mark};
//!
//! let at = Duration::from_secs;
//! let mut drawing = Drawing::new("Two leaders");
//! drawing.intervals.push(Interval::new("anna", "1", at(0), at(4), Mark::Crashed));
//! drawing.intervals.push(Interval::new("ben", "2", at(6), at(9), Mark::Resigned));
//! drawing.find_bands();
//! assert_eq!(drawing.bands.len(), 1); // nobody led from 4 s to 6 s
//! assert!(drawing.svg().starts_with("<svg "));
//! ```

mod axis;
mod bands;
mod blocks;
mod lanes;
mod render;
mod style;
#[cfg(test)]
mod tests;
mod text;

pub use text::short;

use std::time::Duration;

use chrono::{DateTime, Utc};

/// What is to be drawn. All times are counted from one moment, its origin.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Drawing {
    /// What its lanes are, and what it says of them.
    pub subject: Subject,
    /// The heading.
    pub title: String,
    /// A line below the heading; may be empty.
    pub subtitle: String,
    /// The time of day of the origin: ticks then show times of day. `None`: they count from it.
    pub origin: Option<DateTime<Utc>>,
    /// In any order. Lanes appear in the order of their first interval: in time, or with
    /// [`Subject::Owners`] in this list.
    pub intervals: Vec<Interval>,
    /// In any order.
    pub bands: Vec<Band>,
    /// In any order.
    pub notes: Vec<Note>,
}

/// What the lanes of a drawing are.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// A lane for each candidate. The label of an interval is its epoch.
    #[default]
    Leaders,
    /// A lane for each thing that has one owner at a time, such as a partition. The label of an
    /// interval is its owner, which has one colour in all lanes. There are eight; further owners
    /// share them, and are told apart by their labels and tooltips.
    Owners,
}

/// One epoch in the lane of its leader, or one ownership in the lane of what is owned.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// The name of the lane: text of others, which is escaped and cut here.
    pub lane: String,
    /// What the interval is called, such as the number of its epoch.
    pub label: String,
    /// When it led, for certain or almost: solid.
    pub from: Duration,
    /// The end of that.
    pub until: Duration,
    /// It may have led from here on: hatched. At or before `from`.
    pub perhaps_from: Duration,
    /// It may have led until here. At or after `until`.
    pub perhaps_until: Duration,
    /// How it ended.
    pub end: Mark,
    /// The tooltip.
    pub tip: String,
}

/// How an interval ended. Each has a shape of its own, so that none depends on its colour alone.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mark {
    /// It has not.
    GoesOn,
    /// The leader resigned.
    Resigned,
    /// The lease ran out, and another candidate sealed the epoch.
    Lapsed,
    /// An operator deposed the leader.
    Deposed,
    /// The leader lost it.
    Lost,
    /// The leader crashed.
    Crashed,
    /// A greater epoch was created without a seal of this one.
    Superseded,
    /// Its own candidate sealed it before it was of use.
    GivenUp,
    /// Nobody led it: an operator restored the election above it.
    Restored,
    /// It passed to another owner, or to none, as the lane itself shows: without a shape.
    Moved,
    /// It is not known.
    Unknown,
}

/// A period that is shown across all lanes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Band {
    /// What it says.
    pub kind: BandKind,
    /// Its begin.
    pub from: Duration,
    /// Its end.
    pub until: Duration,
    /// The tooltip.
    pub tip: String,
}

/// What a band says.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BandKind {
    /// Nobody led.
    Nobody,
    /// More than one led.
    Several,
    /// It is not known who led.
    Unknown,
}

/// A moment with a name: a line across all lanes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Note {
    /// When.
    pub at: Duration,
    /// A few words.
    pub text: String,
}

impl Drawing {
    /// A drawing of nothing yet, under this heading.
    pub fn new(title: impl Into<String>) -> Drawing {
        Drawing { title: title.into(), ..Drawing::default() }
    }

    /// Adds a band for each period between the first and the last moment of the solid intervals in
    /// which nobody, or more than one candidate, led.
    pub fn find_bands(&mut self) {
        self.bands.extend(bands::found(&self.intervals));
    }

    /// The drawing as an SVG of 1,000 pixels in width, whose height grows with the lanes: at most
    /// 50, or 1,000 of [`Subject::Owners`]; the others share one. What is too narrow to be seen is drawn together and counted.
    #[must_use]
    pub fn svg(&self) -> String {
        render::svg(self)
    }
}

impl Band {
    /// Creates a band of this kind. Its tooltip is empty.
    #[must_use]
    pub fn new(kind: BandKind, from: Duration, until: Duration) -> Band {
        Band { kind, from, until, tip: String::new() }
    }
}

impl Note {
    /// A line at this moment.
    pub fn new(at: Duration, text: impl Into<String>) -> Note {
        Note { at, text: text.into() }
    }
}

impl Interval {
    /// Creates an interval without any uncertainty.
    pub fn new(
        lane: impl Into<String>,
        label: impl Into<String>,
        from: Duration,
        until: Duration,
        end: Mark,
    ) -> Interval {
        let (lane, label, until) = (lane.into(), label.into(), until.max(from));
        let tip = String::new();
        Interval { lane, label, from, until, perhaps_from: from, perhaps_until: until, end, tip }
    }

    /// The same, with a tooltip.
    #[must_use]
    pub fn tip(mut self, tip: impl Into<String>) -> Interval {
        self.tip = tip.into();
        self
    }
}

impl Mark {
    /// What the legend calls it.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            Mark::GoesOn => "leads on",
            Mark::Resigned => "resigned",
            Mark::Lapsed => "lapsed",
            Mark::Deposed => "deposed",
            Mark::Lost => "lost",
            Mark::Crashed => "crashed",
            Mark::Superseded => "superseded",
            Mark::GivenUp => "given up",
            Mark::Restored => "restored",
            Mark::Moved => "moved",
            Mark::Unknown => "end not known",
        }
    }
}

impl BandKind {
    /// What its lane is called.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BandKind::Nobody => "nobody leads",
            BandKind::Several => "several lead",
            BandKind::Unknown => "not known",
        }
    }
}
