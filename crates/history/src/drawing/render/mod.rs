//! Converts the lanes and blocks of a drawing to the text of the SVG.

mod legend;

use std::collections::{BTreeMap, BTreeSet};
use std::fmt::Write as _;
use std::time::Duration;

use super::axis::Axis;
use super::blocks::{Block, blocks};
use super::lanes::{Lane, lanes};
use super::style::{
    DARK, DARK_OWNERS, FONT, GRID, LABEL, LEADS, MUTED, NOTE, PAPER, PATTERNS, PERHAPS, STRIPE,
    TEXT, TITLE, band, owner, shape,
};
use super::text::{cut, escaped, pixels, short};
use super::{Band, BandKind, Drawing, Interval, Mark, Subject};

const WIDTH: f64 = 1_000.0;
const EDGE: f64 = 16.0;
/// Font size of most elements, in pixels.
const SMALL: f64 = 12.0;
const LARGE: f64 = 16.0;
/// Maximum width of a name, in pixels. Longer names are cut.
const LONGEST_NAME: f64 = 200.0;
/// Minimum distance between two marks, in pixels. Nearer marks would overlap.
const MARK_ROOM: f64 = 12.0;
const AXIS_HEIGHT: f64 = 40.0;
/// Distance between the edge of a lane and its bars, in pixels.
const PAD: f64 = 5.0;

pub(super) fn svg(drawing: &Drawing) -> String {
    Page::new(drawing).svg()
}

/// The layout of the page.
struct Page<'a> {
    drawing: &'a Drawing,
    lanes: Vec<Lane<'a>>,
    kinds: Vec<BandKind>,
    /// The number of each owner, by the owner's name. Owners are numbered in the order of
    /// appearance. The map is empty if the lanes are candidates.
    owners: BTreeMap<&'a str, usize>,
    axis: Axis,
    left: f64,
    top: f64,
    lane_height: f64,
    out: String,
}

impl<'a> Page<'a> {
    fn new(drawing: &'a Drawing) -> Page<'a> {
        let lanes = lanes(&drawing.intervals, drawing.subject);
        let owners = owners(drawing);
        let kinds: BTreeSet<BandKind> = drawing.bands.iter().map(|band| band.kind).collect();
        let names = lanes.iter().map(|lane| pixels(&cut(&lane.name, LONGEST_NAME, SMALL), SMALL));
        let bands = kinds.iter().map(|kind| pixels(kind.name(), SMALL));
        let left = EDGE + names.chain(bands).fold(42.0, f64::max).ceil();
        let axis = Axis::new(range(drawing), drawing.origin, (left + 8.0, WIDTH - EDGE - 10.0));
        let notes = if drawing.notes.is_empty() { 0.0 } else { 20.0 };
        let top = if drawing.subtitle.is_empty() { 46.0 } else { 64.0 } + notes;
        let lane_height = match lanes.len() {
            0..=12 => 30.0,
            13..=25 => 24.0,
            26..=50 => 19.0,
            _ => 14.0,
        };
        let kinds = kinds.into_iter().collect();
        let out = String::new();
        Page { drawing, lanes, kinds, owners, axis, left, top, lane_height, out }
    }

    fn svg(mut self) -> String {
        let rows = (self.lanes.len() + self.kinds.len()).max(1) as f64;
        let bottom = self.top + rows * self.lane_height;
        let legend = self.legend(bottom + AXIS_HEIGHT);
        let height = legend.1;
        self.head(height);
        self.stripes();
        self.grid(bottom);
        self.tints();
        for row in 0..self.lanes.len() {
            self.lane(row);
        }
        for (number, kind) in self.kinds.clone().into_iter().enumerate() {
            self.band_lane(self.lanes.len() + number, kind);
        }
        self.notes(bottom);
        self.out.push_str(&legend.0);
        self.out.push_str("</svg>\n");
        self.out
    }

    fn put(&mut self, what: std::fmt::Arguments<'_>) {
        // Writing to a String cannot fail.
        let _ = self.out.write_fmt(what);
        self.out.push('\n');
    }

    fn head(&mut self, height: f64) {
        let Drawing { title, subtitle, .. } = self.drawing;
        let room = WIDTH - 2.0 * EDGE;
        let heading = escaped(&cut(title, room, LARGE));
        let (title, line) = (escaped(title), escaped(&cut(subtitle, room, SMALL)));
        let subtitle = escaped(subtitle);
        let owners = if self.owners.is_empty() { "" } else { DARK_OWNERS };
        self.put(format_args!(
            "<svg xmlns=\"http://www.w3.org/2000/svg\" class=\"tenure\" {FONT} role=\"img\" \
             aria-label=\"{title}\" width=\"{WIDTH}\" height=\"{height}\" \
             viewBox=\"0 0 {WIDTH} {height}\">\n<title>{title}</title>\n\
             <desc>{subtitle}</desc>\n<style>{DARK}{owners}</style>\n{PATTERNS}\n\
             <rect {PAPER} width=\"{WIDTH}\" height=\"{height}\"/>\n\
             <text {TITLE} x=\"{EDGE}\" y=\"28\">{heading}</text>"
        ));
        if !subtitle.is_empty() {
            self.put(format_args!("<text {MUTED} x=\"{EDGE}\" y=\"48\">{line}</text>"));
        }
    }

    fn row(&self, row: usize) -> f64 {
        self.top + row as f64 * self.lane_height
    }

    fn stripes(&mut self) {
        let rows = self.lanes.len() + self.kinds.len();
        for row in (0..rows.max(1)).step_by(2) {
            let (y, height, width) = (self.row(row), self.lane_height, WIDTH - 2.0 * EDGE);
            self.put(format_args!(
                "<rect {STRIPE} x=\"{EDGE}\" y=\"{y}\" width=\"{width}\" height=\"{height}\"/>"
            ));
        }
        if rows == 0 {
            let (x, y) = (self.left, self.top + 20.0);
            let nothing = match self.drawing.subject {
                Subject::Leaders => "no process has led",
                Subject::Owners => "nothing has been owned yet",
            };
            self.put(format_args!("<text {MUTED} x=\"{x}\" y=\"{y}\">{nothing}</text>"));
        }
    }

    fn grid(&mut self, bottom: f64) {
        if self.lanes.is_empty() && self.kinds.is_empty() {
            return;
        }
        let top = self.top;
        for tick in self.axis.ticks() {
            let (x, text, below) = (tick.x, tick.text, tick.below);
            let (first, second) = (bottom + 16.0, bottom + 30.0);
            let end = bottom + 4.0;
            self.put(format_args!(
                "<path {GRID} d=\"M{x:.1} {top}V{end}\"/>\
                 <text {MUTED} x=\"{x:.1}\" y=\"{first}\" text-anchor=\"middle\">{text}</text>"
            ));
            if !below.is_empty() {
                self.put(format_args!(
                    "<text {MUTED} x=\"{x:.1}\" y=\"{second}\" text-anchor=\"middle\">{below}</text>"
                ));
            }
        }
    }

    /// Draws each band as a faint area behind all lanes.
    fn tints(&mut self) {
        let (top, height) = (self.top, self.lanes.len() as f64 * self.lane_height);
        for band in &self.drawing.bands {
            let (from, until) = (self.axis.x(band.from), self.axis.x(band.until));
            if band.kind == BandKind::Unknown || until - from < 2.0 {
                continue;
            }
            let (paint, width) = (self::band(band.kind), until - from);
            self.put(format_args!(
                "<rect {paint} fill-opacity=\"0.1\" x=\"{from:.1}\" y=\"{top}\" width=\"{width:.1}\" \
                 height=\"{height}\"/>"
            ));
        }
    }

    fn name(&mut self, row: usize, name: &str) {
        let (x, y) = (self.left, self.row(row) + self.lane_height / 2.0 + 4.0);
        let (short, whole) = (escaped(&cut(name, LONGEST_NAME, SMALL)), escaped(name));
        self.put(format_args!(
            "<text {TEXT} x=\"{x}\" y=\"{y}\" text-anchor=\"end\"><title>{whole}</title>{short}</text>"
        ));
    }

    fn lane(&mut self, row: usize) {
        let name = self.lanes[row].name.clone();
        self.name(row, &name);
        let intervals = self.lanes[row].intervals.clone();
        let stretch = |interval: &&Interval| {
            (self.axis.x(interval.perhaps_from), self.axis.x(interval.perhaps_until))
        };
        let blocks = blocks(intervals.iter().map(stretch));
        for block in &blocks {
            match &intervals[block.first..block.first + block.count] {
                [interval] => self.interval(row, interval),
                several => self.together(row, block, several),
            }
        }
        // Draw the marks after all bars of their lane, so that no bar covers a mark.
        let y = self.row(row) + self.lane_height / 2.0;
        let size = match self.lane_height {
            ..19.0 => 0.6,
            ..24.0 => 0.75,
            _ => 1.0,
        };
        let mut free_from = f64::NEG_INFINITY;
        for block in blocks.iter().filter(|block| block.count == 1) {
            let interval = intervals[block.first];
            if interval.end == Mark::Moved {
                continue;
            }
            // A mark at the end of a narrow bar would hide the bar. So draw the mark of a narrow
            // bar to the right of the bar.
            let (length, end) = (block.until - block.from, self.axis.x(interval.perhaps_until));
            let x = if length > 0.0 && length < MARK_ROOM { end + 6.0 * size } else { end };
            if x >= free_from {
                self.put(format_args!("{}", shape(interval.end, x, y, size)));
                free_from = x + MARK_ROOM * size;
            }
        }
    }

    /// Returns the class and the colour of an interval's bar.
    fn paint(&self, interval: &Interval) -> &'static str {
        self.owners.get(&*interval.label).map_or(LEADS, |number| owner(*number))
    }

    /// Returns the upper edge and the height of the bars of a lane.
    fn bar(&self, row: usize) -> (f64, f64) {
        let pad = if self.lane_height < 19.0 { PAD / 2.0 } else { PAD };
        (self.row(row) + pad, self.lane_height - 2.0 * pad)
    }

    fn interval(&mut self, row: usize, interval: &Interval) {
        let (y, height) = self.bar(row);
        let paint = self.paint(interval);
        let x = |at: Duration| self.axis.x(at);
        let (from, until) = (x(interval.from), x(interval.until));
        let (first, last) = (x(interval.perhaps_from), x(interval.perhaps_until));
        let (wide, width) = ((last - first).max(2.0), (until - from).max(2.0));
        let label = escaped(&interval.label);
        let tip = if interval.tip.is_empty() {
            let length = short(interval.until.saturating_sub(interval.from));
            format!("{}: {}, {length}, {}", interval.label, interval.lane, interval.end.name())
        } else {
            interval.tip.clone()
        };
        self.put(format_args!("<g><title>{}</title>", escaped(&tip)));
        if interval.perhaps_from < interval.from || interval.perhaps_until > interval.until {
            self.put(format_args!(
                "<rect {PERHAPS} x=\"{first:.1}\" y=\"{y}\" width=\"{wide:.1}\" height=\"{height}\"/>"
            ));
        }
        // An interval without a length shows only its mark.
        if interval.until > interval.from {
            self.put(format_args!(
                "<rect {paint} x=\"{from:.1}\" y=\"{y}\" width=\"{width:.1}\" \
                 height=\"{height}\" rx=\"2\"/>"
            ));
        }
        // Draw the label only if it does not overlap the mark at the end of the bar.
        if width > pixels(&interval.label, SMALL) + 18.0 {
            let (x, y) = (from + 8.0, y + height / 2.0 + 4.0);
            self.put(format_args!("<text {LABEL} x=\"{x:.1}\" y=\"{y}\">{label}</text>"));
        }
        self.put(format_args!("</g>"));
    }

    /// Draws several narrow intervals as one bar. The tooltip of the bar lists the kinds of their
    /// ends or, with [`Subject::Owners`], their owners.
    fn together(&mut self, row: usize, block: &Block, several: &[&Interval]) {
        let (y, height) = self.bar(row);
        let (x, width) = (block.from, (block.until - block.from).max(2.0));
        let one = several.iter().all(|interval| interval.label == several[0].label);
        let (tip, paint) = match self.drawing.subject {
            Subject::Leaders => (ends(several), LEADS),
            Subject::Owners if one => (owned(several), self.paint(several[0])),
            Subject::Owners => (owned(several), MUTED),
        };
        let tip = escaped(&tip);
        // The height of the bar shows the fraction of its width that the intervals cover. The bar
        // is always lower than the bar of a single epoch.
        let tall = (height * block.share()).max(2.0).min(height - 3.0);
        let y = y + height - tall;
        self.put(format_args!(
            "<g><title>{tip}</title><rect {paint} x=\"{x:.1}\" y=\"{y:.1}\" \
             width=\"{width:.1}\" height=\"{tall:.1}\"/></g>"
        ));
    }

    fn band_lane(&mut self, row: usize, kind: BandKind) {
        self.name(row, kind.name());
        let mut bands: Vec<&Band> =
            self.drawing.bands.iter().filter(|band| band.kind == kind).collect();
        bands.sort_by_key(|band| (band.from, band.until));
        let (y, height) = (self.row(row) + 8.0, self.lane_height - 16.0);
        let paint = band(kind);
        let stretch = |band: &&Band| (self.axis.x(band.from), self.axis.x(band.until));
        for block in blocks(bands.iter().map(stretch)) {
            let several = &bands[block.first..block.first + block.count];
            let tip = match several {
                [band] => band.tip.clone(),
                _ => {
                    let each = several.iter().map(|band| band.until.saturating_sub(band.from));
                    let all = each.fold(Duration::ZERO, Duration::saturating_add);
                    format!("{} times, {} together: {}", several.len(), short(all), kind.name())
                }
            };
            let (x, width, tip) = (block.from, (block.until - block.from).max(2.0), escaped(&tip));
            let tall = (height * block.share()).max(1.5);
            let y = y + height - tall;
            self.put(format_args!(
                "<g><title>{tip}</title><rect {paint} x=\"{x:.1}\" y=\"{y:.1}\" \
                 width=\"{width:.1}\" height=\"{tall:.1}\"/></g>"
            ));
        }
    }

    fn notes(&mut self, bottom: f64) {
        for note in &self.drawing.notes {
            let (x, top) = (self.axis.x(note.at), self.top);
            let (anchor, y) = (if x > WIDTH / 2.0 { "end" } else { "start" }, top - 7.0);
            let room = if x > WIDTH / 2.0 { x - EDGE } else { WIDTH - EDGE - x };
            let (start, text) = (top - 4.0, escaped(&cut(&note.text, room, SMALL)));
            self.put(format_args!(
                "<path {NOTE} d=\"M{x:.1} {start}V{bottom}\"/>\
                 <text {TEXT} x=\"{x:.1}\" y=\"{y}\" text-anchor=\"{anchor}\">{text}</text>"
            ));
        }
    }
}

/// Returns a number for each owner. Owners are numbered in the order of appearance.
fn owners(drawing: &Drawing) -> BTreeMap<&str, usize> {
    let mut owners = BTreeMap::new();
    if drawing.subject == Subject::Owners {
        for interval in &drawing.intervals {
            let next = owners.len();
            owners.entry(&*interval.label).or_insert(next);
        }
    }
    owners
}

/// Describes the kinds of ends of these intervals, for a tooltip.
fn ends(several: &[&Interval]) -> String {
    let ends: BTreeSet<Mark> = several.iter().map(|interval| interval.end).collect();
    let ends = ends.into_iter().map(|end| {
        let count = several.iter().filter(|interval| interval.end == end).count();
        format!("{count} {}", end.name())
    });
    let ends = ends.collect::<Vec<_>>().join(", ");
    let (first, last) = (&several[0].label, &several[several.len() - 1].label);
    format!("{} epochs, {first} to {last}: {ends}", several.len())
}

/// Maximum number of names in a tooltip. The tooltip shows only the number of any further owners.
const NAMED: usize = 5;

/// Lists the owners of these intervals, for a tooltip.
fn owned(several: &[&Interval]) -> String {
    let owners: BTreeSet<&str> = several.iter().map(|interval| &*interval.label).collect();
    let named = owners.iter().take(NAMED).copied().collect::<Vec<_>>().join(", ");
    let more = match owners.len().saturating_sub(NAMED) {
        0 => String::new(),
        more => format!(" and {more} others"),
    };
    format!("owned {} times, by {named}{more}", several.len())
}

/// Returns the times of the first and the last element of the drawing.
fn range(drawing: &Drawing) -> (Duration, Duration) {
    let intervals = drawing.intervals.iter().flat_map(|i| [i.perhaps_from, i.perhaps_until]);
    let bands = drawing.bands.iter().flat_map(|band| [band.from, band.until]);
    let all = || intervals.clone().chain(bands.clone()).chain(drawing.notes.iter().map(|n| n.at));
    (all().min().unwrap_or_default(), all().max().unwrap_or_default())
}
