//! Draws a timeline of leaders as an SVG for light and dark pages. Each candidate has a lane. Each
//! epoch is an interval in the lane of its leader, with a mark at its end. Bands show the times
//! with no leader, or with more than one leader. With [`Subject::Owners`] a drawing shows the
//! owners of things, such as partitions, with a lane for each thing.
//!
//! The functions are pure: equal drawings give the same SVG. `tenure history`, the example
//! `failover` and the project's simulation use this module.
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
//! assert_eq!(drawing.bands.len(), 1); // no leader from 4 s to 6 s
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

/// The content of a drawing. All times are durations since a common moment, the origin.
#[derive(Debug, Clone, Default, PartialEq)]
#[non_exhaustive]
pub struct Drawing {
    /// Meaning of the lanes.
    pub subject: Subject,
    /// Heading of the drawing.
    pub title: String,
    /// Text below the heading. It may be empty.
    pub subtitle: String,
    /// Date and time of the origin. If this field is set, ticks show times of day. If it is not
    /// set, ticks show the time since the origin.
    pub origin: Option<DateTime<Utc>>,
    /// Intervals in any order. The lane with the earliest interval comes first. With
    /// [`Subject::Owners`], lanes appear in the order of this list.
    pub intervals: Vec<Interval>,
    /// Bands in any order.
    pub bands: Vec<Band>,
    /// Notes in any order.
    pub notes: Vec<Note>,
}

/// The meaning of the lanes of a drawing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default, Hash)]
#[non_exhaustive]
pub enum Subject {
    /// A lane for each candidate. The label of an interval is its epoch.
    #[default]
    Leaders,
    /// A lane for each thing that has one owner at a time, such as a partition. The label of an
    /// interval is its owner. An owner has the same colour in all lanes. There are eight colours,
    /// so owners can share a colour. Labels and tooltips distinguish such owners.
    Owners,
}

/// One epoch in the lane of its leader, or one ownership in the lane of the owned thing.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Interval {
    /// Name of the lane. The name may be untrusted text: the drawing escapes it and cuts it to a
    /// maximum width.
    pub lane: String,
    /// Label of the interval, such as the number of its epoch.
    pub label: String,
    /// Start of the solid part, during which the leader certainly led.
    pub from: Duration,
    /// End of the solid part, during which the leader certainly led.
    pub until: Duration,
    /// Earliest possible start, at or before `from`. The part between this time and `from` is
    /// hatched.
    pub perhaps_from: Duration,
    /// Latest possible end, at or after `until`. The part between `until` and this time is hatched.
    pub perhaps_until: Duration,
    /// Kind of the end.
    pub end: Mark,
    /// Text of the tooltip.
    pub tip: String,
}

/// The end of an interval. Each kind has a different shape, so the drawing is readable without
/// colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum Mark {
    /// The interval has not ended.
    GoesOn,
    /// The leader resigned.
    Resigned,
    /// The lease expired, and another candidate sealed the epoch.
    Lapsed,
    /// An operator deposed the leader.
    Deposed,
    /// The leader lost the epoch for another reason.
    Lost,
    /// The leader crashed.
    Crashed,
    /// A greater epoch was created although this epoch was not sealed.
    Superseded,
    /// The candidate sealed its own epoch, and never led.
    GivenUp,
    /// The epoch had no leader. A restore created the epoch, to raise the epoch floor.
    Restored,
    /// The ownership moved to another owner, or ended. This end has no mark.
    Moved,
    /// The end is unknown.
    Unknown,
}

/// A period that the drawing shows across all lanes, such as a time without a leader.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Band {
    /// Kind of the period.
    pub kind: BandKind,
    /// Start of the period.
    pub from: Duration,
    /// End of the period.
    pub until: Duration,
    /// Text of the tooltip.
    pub tip: String,
}

/// The kind of a band.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
#[non_exhaustive]
pub enum BandKind {
    /// No candidate led.
    Vacant,
    /// More than one candidate led.
    Several,
    /// The leader is unknown.
    Unknown,
}

/// A moment with a name, drawn as a line across all lanes.
#[derive(Debug, Clone, PartialEq)]
#[non_exhaustive]
pub struct Note {
    /// Time of the moment.
    pub at: Duration,
    /// Text of the note, a few words.
    pub text: String,
}

impl Drawing {
    /// Creates an empty drawing with this heading.
    pub fn new(title: impl Into<String>) -> Drawing {
        Drawing { title: title.into(), ..Drawing::default() }
    }

    /// Adds a band for each period that is in the solid part of no interval, or in the solid parts
    /// of several intervals. In the solid part of an interval, its leader certainly led. The search
    /// covers the time from the start of the first solid part to the end of the last solid part.
    pub fn find_bands(&mut self) {
        self.bands.extend(bands::found(&self.intervals));
    }

    /// Returns the drawing as an SVG that is 1,000 pixels wide. The height grows with the number of
    /// lanes. A drawing has at most 50 lanes, or 1,000 with [`Subject::Owners`], and further names
    /// share the last lane. The drawing combines very narrow intervals into one bar, and the
    /// tooltip of the bar shows their number.
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
    /// Creates a note at this moment.
    pub fn new(at: Duration, text: impl Into<String>) -> Note {
        Note { at, text: text.into() }
    }
}

impl Interval {
    /// Creates an interval with a start and an end that are known exactly.
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

    /// Sets the tooltip.
    #[must_use]
    pub fn tip(mut self, tip: impl Into<String>) -> Interval {
        self.tip = tip.into();
        self
    }
}

impl Mark {
    /// Returns the name of the mark in the legend.
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
    /// Returns the name of the band in the legend.
    #[must_use]
    pub fn name(self) -> &'static str {
        match self {
            BandKind::Vacant => "vacant",
            BandKind::Several => "several lead",
            BandKind::Unknown => "not known",
        }
    }
}
