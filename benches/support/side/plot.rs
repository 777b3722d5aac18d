//! Small SVG plots, light or dark as the reader's browser is.

use std::fmt::Write as _;

/// Colours that keep apart in both schemes, also for the colour-blind.
const STYLE: &str = "<style>
svg{font:13px system-ui,sans-serif;--ink:#1f2328;--soft:#59636e;--grid:#d8dee4;--paper:#ffffff;\
--a:#0969da;--b:#bc4c00;--c:#1a7f37;--d:#8250df;--bar:#8c959f}
@media(prefers-color-scheme:dark){svg{--ink:#e6edf3;--soft:#9198a1;--grid:#30363d;--paper:#0d1117;\
--a:#58a6ff;--b:#f0883e;--c:#3fb950;--d:#bc8cff;--bar:#6e7681}}
.paper{fill:var(--paper)}text{fill:var(--ink)}.soft{fill:var(--soft)}.title{font-weight:600}
.grid{stroke:var(--grid)}.own{fill:var(--a)}.other{fill:var(--bar)}
.line{fill:none;stroke-width:2}.s0{stroke:var(--a)}.s1{stroke:var(--b)}.s2{stroke:var(--c)}\
.s3{stroke:var(--d)}
.k0{fill:var(--a)}.k1{fill:var(--b)}.k2{fill:var(--c)}.k3{fill:var(--d)}
.end{text-anchor:end}.middle{text-anchor:middle}
</style>
";

fn open(width: u32, height: u32, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\">\n{STYLE}\
         <rect class=\"paper\" width=\"{width}\" height=\"{height}\"/>\n\
         <text class=\"title\" x=\"16\" y=\"24\">{title}</text>\n"
    )
}

/// One horizontal bar for each; tenure's in its own colour.
pub fn bars(title: &str, values: &[(&str, f64)], unit: &str) -> String {
    let (width, left, row) = (720, 250, 30);
    let height = 48 + row * values.len() as u32;
    let mut svg = open(width, height, title);
    let most = values.iter().map(|(_, value)| *value).fold(f64::MIN_POSITIVE, f64::max);
    for (number, (name, value)) in values.iter().enumerate() {
        let y = 40 + row * number as u32;
        let long = value / most * f64::from(width - left - 90);
        let class = if name.starts_with("tenure") { "own" } else { "other" };
        let _ = write!(
            svg,
            "<text class=\"end\" x=\"{}\" y=\"{}\">{name}</text>\n\
             <rect class=\"{class}\" x=\"{left}\" y=\"{}\" width=\"{long:.1}\" height=\"20\" \
             rx=\"2\"/>\n<text x=\"{:.1}\" y=\"{}\">{unit}{value:.2}</text>\n",
            left - 10,
            y + 15,
            y,
            f64::from(left) + long + 8.0,
            y + 15,
        );
    }
    svg + "</svg>\n"
}

/// An axis: its name, its ticks, and where a value lies on it, from 0 to 1.
pub struct Axis {
    pub name: &'static str,
    pub ticks: Vec<(f64, String)>,
    pub from: f64,
    pub to: f64,
    pub log: bool,
}

impl Axis {
    fn place(&self, value: f64) -> f64 {
        let scale = |value: f64| if self.log { value.log10() } else { value };
        (scale(value) - scale(self.from)) / (scale(self.to) - scale(self.from))
    }
}

/// A line through the points of each series.
pub fn lines(title: &str, x: &Axis, y: &Axis, series: &[(&str, Vec<(f64, f64)>)]) -> String {
    let (width, height) = (720, 400);
    let (left, right, top, bottom) = (70.0, 44.0, 66.0, 56.0);
    let (w, h) = (f64::from(width) - left - right, f64::from(height) - top - bottom);
    let mut svg = open(width, height, title);
    let at = |point: (f64, f64)| (left + x.place(point.0) * w, top + (1.0 - y.place(point.1)) * h);
    for (value, text) in &x.ticks {
        let (px, _) = at((*value, y.from));
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{px:.1}\" x2=\"{px:.1}\" y1=\"{top}\" y2=\"{:.1}\"/>\n\
             <text class=\"soft middle\" x=\"{px:.1}\" y=\"{:.1}\">{text}</text>\n",
            top + h,
            top + h + 18.0,
        );
    }
    for (value, text) in &y.ticks {
        let (_, py) = at((x.from, *value));
        let _ = write!(
            svg,
            "<line class=\"grid\" x1=\"{left}\" x2=\"{:.1}\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>\n\
             <text class=\"soft end\" x=\"{}\" y=\"{:.1}\">{text}</text>\n",
            left + w,
            left - 8.0,
            py + 4.0,
        );
    }
    let _ = write!(
        svg,
        "<text class=\"soft middle\" x=\"{:.1}\" y=\"{}\">{}</text>\n\
         <text class=\"soft\" x=\"16\" y=\"{:.1}\">{}</text>\n",
        left + w / 2.0,
        height - 14,
        x.name,
        top - 22.0,
        y.name,
    );
    let mut key = left + w;
    for (number, (name, points)) in series.iter().enumerate().rev() {
        let path: Vec<_> = points
            .iter()
            .map(|point| at(*point))
            .map(|(px, py)| format!("{px:.1},{py:.1}"))
            .collect();
        // About as wide as the text is set.
        key -= 24.0 + 7.2 * name.len() as f64;
        let _ = write!(
            svg,
            "<polyline class=\"line s{number}\" points=\"{}\"/>\n\
             <rect class=\"k{number}\" x=\"{key:.1}\" y=\"{:.1}\" width=\"12\" height=\"4\"/>\n\
             <text x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
            path.join(" "),
            top - 28.0,
            key + 18.0,
            top - 22.0,
        );
    }
    svg + "</svg>\n"
}
