//! Small SVG plots, light or dark as the reader's browser is.

use std::fmt::Write as _;

/// Everything carries its light colours as attributes, which every renderer knows. The style sheet
/// is for dark pages alone. Both sets keep apart, also for the colour-blind.
const DARK: &str = "<style>
@media(prefers-color-scheme:dark){
.paper{fill:#0d1117}.ink{fill:#e6edf3}.soft{fill:#9198a1}.grid{stroke:#30363d}
.own,.k0{fill:#58a6ff}.other{fill:#6e7681}.k1{fill:#f0883e}.k2{fill:#3fb950}.k3{fill:#bc8cff}
.s0{stroke:#58a6ff}.s1{stroke:#f0883e}.s2{stroke:#3fb950}.s3{stroke:#bc8cff}}
</style>
";
const SERIES: [&str; 4] = ["#0969da", "#bc4c00", "#1a7f37", "#8250df"];
const INK: &str = "class=\"ink\" fill=\"#1f2328\"";
const SOFT: &str = "class=\"soft\" fill=\"#59636e\"";
const GRID: &str = "class=\"grid\" fill=\"none\" stroke=\"#d8dee4\"";
const OWN: &str = "class=\"own\" fill=\"#0969da\"";
const OTHER: &str = "class=\"other\" fill=\"#8c959f\"";

fn open(width: u32, height: u32, title: &str) -> String {
    format!(
        "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
         width=\"{width}\" height=\"{height}\" role=\"img\" aria-label=\"{title}\" \
         font-family=\"system-ui,'Noto Sans','DejaVu Sans',sans-serif\" font-size=\"13\">\n{DARK}\
         <rect class=\"paper\" fill=\"#ffffff\" width=\"{width}\" height=\"{height}\"/>\n\
         <text {INK} font-weight=\"600\" x=\"16\" y=\"24\">{title}</text>\n"
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
        let paint = if name.starts_with("tenure") { OWN } else { OTHER };
        let _ = write!(
            svg,
            "<text {INK} text-anchor=\"end\" x=\"{}\" y=\"{}\">{name}</text>\n\
             <rect {paint} x=\"{left}\" y=\"{}\" width=\"{long:.1}\" height=\"20\" \
             rx=\"2\"/>\n<text {INK} x=\"{:.1}\" y=\"{}\">{unit}{value:.2}</text>\n",
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
            "<line {GRID} x1=\"{px:.1}\" x2=\"{px:.1}\" y1=\"{top}\" y2=\"{:.1}\"/>\n\
             <text {SOFT} text-anchor=\"middle\" x=\"{px:.1}\" y=\"{:.1}\">{text}</text>\n",
            top + h,
            top + h + 18.0,
        );
    }
    for (value, text) in &y.ticks {
        let (_, py) = at((x.from, *value));
        let _ = write!(
            svg,
            "<line {GRID} x1=\"{left}\" x2=\"{:.1}\" y1=\"{py:.1}\" y2=\"{py:.1}\"/>\n\
             <text {SOFT} text-anchor=\"end\" x=\"{}\" y=\"{:.1}\">{text}</text>\n",
            left + w,
            left - 8.0,
            py + 4.0,
        );
    }
    let _ = write!(
        svg,
        "<text {SOFT} text-anchor=\"middle\" x=\"{:.1}\" y=\"{}\">{}</text>\n\
         <text {SOFT} x=\"16\" y=\"{:.1}\">{}</text>\n",
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
        let colour = SERIES[number % SERIES.len()];
        // About as wide as the text is set.
        key -= 24.0 + 7.2 * name.len() as f64;
        let _ = write!(
            svg,
            "<polyline class=\"s{number}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"2\" \
             points=\"{}\"/>\n\
             <rect class=\"k{number}\" fill=\"{colour}\" x=\"{key:.1}\" y=\"{:.1}\" width=\"12\" \
             height=\"4\"/>\n\
             <text {INK} x=\"{:.1}\" y=\"{:.1}\">{name}</text>\n",
            path.join(" "),
            top - 28.0,
            key + 18.0,
            top - 22.0,
        );
    }
    svg + "</svg>\n"
}
