//! Colours for light and dark pages, and the shapes of the marks.
//!
//! Each shape has its colours for light pages as attributes, because every renderer supports
//! attributes. On dark pages, a style sheet with a media query replaces these colours. Many
//! renderers ignore media queries and custom properties. With such a renderer the drawing has the
//! light colours.

use super::{BandKind, Mark};

/// Number of owner colours.
pub(super) const COLOURS: usize = 8;

/// Rules for dark pages. The colours are the lighter colours of Okabe and Ito's palette for
/// colour-blind readers. Every rule applies only within the class `tenure`, because a page may
/// embed the SVG.
pub(super) const DARK: &str = "@media (prefers-color-scheme:dark){\
.tenure .bg{fill:#0d1117}\
.tenure .v,.tenure .h{fill:#e6edf3}\
.tenure .m{fill:#9198a1}\
.tenure .l{fill:#151b23}\
.tenure .g{stroke:#2f3742}\
.tenure .i{fill:#56b4e9}\
.tenure .p{stroke:#56b4e9}\
.tenure .e{fill:#04121d}\
.tenure .k{fill:#0d1117;stroke:#e6edf3}\
.tenure .f{fill:#e6edf3;stroke:#0d1117}\
.tenure .x{stroke:#e6edf3}\
.tenure .o{stroke:#0d1117}\
.tenure .q{fill:#e6edf3;stroke:#0d1117}\
.tenure .n{fill:#e69f00}\
.tenure .s{fill:#e58fc0}\
.tenure .u{stroke:#7d8590}\
.tenure .w{stroke:#e6edf3}\
.tenure .hl{stroke:#56b4e9}\
.tenure .hu{stroke:#7d8590}}";

/// Owner colours for dark pages. They are light enough for dark labels.
pub(super) const DARK_OWNERS: &str = "@media (prefers-color-scheme:dark){\
.tenure .c0{fill:#56b4e9}\
.tenure .c1{fill:#f0883e}\
.tenure .c2{fill:#2fc6a0}\
.tenure .c3{fill:#e58fc0}\
.tenure .c4{fill:#e6c229}\
.tenure .c5{fill:#b0a6ff}\
.tenure .c6{fill:#c3cad3}\
.tenure .c7{fill:#ff8a80}}";

/// Owner colours for light pages. They are dark enough for white labels.
const OWNERS: [&str; COLOURS] = [
    "class=\"c0\" fill=\"#0072b2\"",
    "class=\"c1\" fill=\"#b34e00\"",
    "class=\"c2\" fill=\"#00765a\"",
    "class=\"c3\" fill=\"#a3467d\"",
    "class=\"c4\" fill=\"#7a5c00\"",
    "class=\"c5\" fill=\"#5b4fc4\"",
    "class=\"c6\" fill=\"#4b5563\"",
    "class=\"c7\" fill=\"#b3261e\"",
];

/// Returns the class and the colour of the owner with this number.
pub(super) fn owner(number: usize) -> &'static str {
    OWNERS[number % COLOURS]
}

pub(super) const FONT: &str = "font-family=\"system-ui,-apple-system,'Segoe UI',Roboto,\
'Noto Sans','DejaVu Sans',sans-serif\" font-size=\"12\"";

pub(super) const PAPER: &str = "class=\"bg\" fill=\"#ffffff\"";
pub(super) const TITLE: &str = "class=\"h\" fill=\"#1f2328\" font-size=\"16\" font-weight=\"600\"";
pub(super) const TEXT: &str = "class=\"v\" fill=\"#1f2328\"";
pub(super) const MUTED: &str = "class=\"m\" fill=\"#59636e\"";
pub(super) const STRIPE: &str = "class=\"l\" fill=\"#f6f8fa\"";
pub(super) const GRID: &str = "class=\"g\" fill=\"none\" stroke=\"#d8dee4\" stroke-width=\"1\"";
pub(super) const LEADS: &str = "class=\"i\" fill=\"#0072b2\"";
pub(super) const PERHAPS: &str =
    "class=\"p\" fill=\"url(#tenure-perhaps)\" stroke=\"#0072b2\" stroke-width=\"1\"";
pub(super) const LABEL: &str = "class=\"e\" fill=\"#ffffff\" font-size=\"11\"";
pub(super) const NOTE: &str = "class=\"w\" fill=\"none\" stroke=\"#1f2328\" stroke-width=\"1.2\" \
                               stroke-dasharray=\"4 3\"";
const HOLLOW: &str = "class=\"k\" fill=\"#ffffff\" stroke=\"#1f2328\" stroke-width=\"1.6\" \
                      stroke-linejoin=\"round\"";
const SOLID: &str = "class=\"f\" fill=\"#1f2328\" stroke=\"#ffffff\" stroke-width=\"1.2\" \
                     paint-order=\"stroke\"";
const LINES: &str = "class=\"x\" fill=\"none\" stroke=\"#1f2328\" stroke-width=\"2\" \
                     stroke-linecap=\"round\"";
const HALO: &str = "class=\"o\" fill=\"none\" stroke=\"#ffffff\" stroke-width=\"5\" \
                    stroke-linecap=\"round\"";
const QUERY: &str = "class=\"q\" fill=\"#1f2328\" stroke=\"#ffffff\" stroke-width=\"3\" \
                     font-weight=\"700\" paint-order=\"stroke\"";

pub(super) const PATTERNS: &str = "<defs>\
<pattern id=\"tenure-perhaps\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(45)\"><path class=\"hl\" fill=\"none\" stroke=\"#0072b2\" \
stroke-width=\"2.4\" d=\"M0 0V5\"/></pattern>\
<pattern id=\"tenure-unknown\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(-45)\"><path class=\"hu\" fill=\"none\" stroke=\"#818b98\" \
stroke-width=\"1.6\" d=\"M0 0V6\"/></pattern></defs>";

/// Returns the shape of a mark with its centre at (`x`, `y`). At size 1 the shape is about 12
/// pixels wide.
pub(super) fn shape(mark: Mark, x: f64, y: f64, size: f64) -> String {
    let at = format!("transform=\"translate({x:.1} {y:.1}) scale({size})\"");
    let path = |paint: &str, d: &str| format!("<path {paint} {at} d=\"{d}\"/>");
    // A halo makes lines visible on a bar of a similar colour.
    let lines = |d: &str| path(HALO, d) + &path(LINES, d);
    match mark {
        Mark::GoesOn => path(SOLID, "M-3 -6L6 0L-3 6Z"),
        Mark::Resigned => format!("<circle {HOLLOW} {at} r=\"4.4\"/>"),
        Mark::Lapsed => lines("M-4 -4L4 4M-4 4L4 -4"),
        Mark::Deposed => path(SOLID, "M-6 -4H6L0 6Z"),
        Mark::Lost => path(HOLLOW, "M-4 -4H4V4H-4Z"),
        Mark::Crashed => lines("M0 -5.5V5.5M-4.8 -2.8L4.8 2.8M-4.8 2.8L4.8 -2.8"),
        Mark::Superseded => lines("M-4 -4.5L0 0L-4 4.5M1 -4.5L5 0L1 4.5"),
        Mark::GivenUp => path(HOLLOW, "M0 -6L6 0L0 6L-6 0Z"),
        Mark::Restored => path(HOLLOW, "M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z"),
        Mark::Moved => String::new(),
        Mark::Unknown => {
            format!("<text {QUERY} {at} y=\"4.2\" text-anchor=\"middle\">?</text>")
        }
    }
}

pub(super) fn band(kind: BandKind) -> &'static str {
    match kind {
        BandKind::Vacant => "class=\"n\" fill=\"#d55e00\"",
        BandKind::Several => "class=\"s\" fill=\"#a3467d\"",
        BandKind::Unknown => {
            "class=\"u\" fill=\"url(#tenure-unknown)\" stroke=\"#818b98\" stroke-width=\"1\""
        }
    }
}
