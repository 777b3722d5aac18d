//! The legend of a drawing.

use super::*;

const LINE: f64 = 22.0;
/// Maximum number of names in the legend. The legend shows only the number of any further owners.
const NAMED_OWNERS: usize = 24;
/// Maximum width of an owner's name, in pixels.
const LONGEST_OWNER: f64 = 160.0;

/// Places the symbols of the legend, each with its name, from left to right and line by line.
struct Legend {
    x: f64,
    y: f64,
    out: String,
}

impl Legend {
    fn item(&mut self, sign: impl Fn(f64, f64) -> String, name: &str) {
        let room = 24.0 + pixels(name, SMALL) + 16.0;
        if self.x + room > WIDTH - EDGE {
            (self.x, self.y) = (EDGE + 8.0, self.y + LINE);
        }
        let (text, base) = (self.x + 22.0, self.y + 4.0);
        let (sign, name) = (sign(self.x, self.y), escaped(name));
        // Writing to a String cannot fail.
        let _ =
            writeln!(self.out, "{sign}<text {MUTED} x=\"{text:.1}\" y=\"{base}\">{name}</text>");
        self.x += room;
    }
}

fn bar_of(paint: &'static str, height: f64) -> impl Fn(f64, f64) -> String {
    move |x, y| {
        let (x, y) = (x - 2.0, y + 5.0 - height);
        format!("<rect {paint} x=\"{x:.1}\" y=\"{y}\" width=\"18\" height=\"{height}\"/>")
    }
}

fn bar(paint: &'static str) -> impl Fn(f64, f64) -> String {
    bar_of(paint, 10.0)
}

impl Page<'_> {
    /// Returns the SVG of the legend, and the resulting height of the page. The legend explains
    /// only symbols that occur in the drawing.
    pub(super) fn legend(&self, top: f64) -> (String, f64) {
        let intervals = &self.drawing.intervals;
        let marks: BTreeSet<Mark> = intervals.iter().map(|interval| interval.end).collect();
        let mut legend = Legend { x: EDGE + 8.0, y: top + 8.0, out: String::new() };
        let leads = self.drawing.subject == Subject::Leaders;
        if leads && marks.iter().any(|mark| !matches!(mark, Mark::GivenUp | Mark::Restored)) {
            legend.item(bar(LEADS), "leads; the number is its epoch");
        }
        self.name_owners(&mut legend);
        let doubt = |i: &Interval| i.perhaps_from < i.from || i.perhaps_until > i.until;
        if intervals.iter().any(doubt) {
            legend.item(bar(PERHAPS), "may lead: not known when it began or ended");
        }
        if self.dense() {
            let paint = if leads { LEADS } else { MUTED };
            let many = "many short intervals: the height is their share of the time";
            legend.item(bar_of(paint, 4.0), many);
        }
        for mark in marks.into_iter().filter(|mark| *mark != Mark::Moved) {
            let owned = !leads && mark == Mark::GoesOn;
            let name = if owned { "owned still" } else { mark.name() };
            legend.item(move |x, y| shape(mark, x + 7.0, y, 1.0), name);
        }
        for kind in &self.kinds {
            legend.item(bar(band(*kind)), kind.name());
        }
        (legend.out, legend.y + 18.0)
    }

    fn name_owners(&self, legend: &mut Legend) {
        let mut owners: Vec<_> =
            self.owners.iter().map(|(name, number)| (*number, *name)).collect();
        owners.sort_unstable();
        for (number, name) in owners.iter().take(NAMED_OWNERS) {
            legend.item(bar(owner(*number)), &cut(name, LONGEST_OWNER, SMALL));
        }
        if let Some(more) = owners.len().checked_sub(NAMED_OWNERS).filter(|more| *more > 0) {
            legend.item(|_, _| String::new(), &format!("and {more} others in these colours"));
        }
    }

    /// Returns whether the drawing combines some intervals into one bar.
    fn dense(&self) -> bool {
        let stretch = |i: &&Interval| (self.axis.x(i.perhaps_from), self.axis.x(i.perhaps_until));
        let mut lanes = self.lanes.iter();
        lanes.any(|lane| blocks(lane.intervals.iter().map(stretch)).iter().any(|b| b.count > 1))
    }
}
