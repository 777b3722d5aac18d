//! Colours for light and dark, and the shapes of the marks.

use super::{BandKind, Mark};

/// The colours are Okabe and Ito's, which people tell apart whatever colours they see; on dark pages
/// their lighter ones. Every rule is bound to the class of the drawing, as it may stand inside a page.
pub(super) const STYLE: &str = "\
.tenure{--bg:#ffffff;--text:#1f2328;--muted:#59636e;--grid:#d8dee4;--lane:#f6f8fa;\
--lead:#0072b2;--on-lead:#ffffff;--nobody:#d55e00;--several:#a3467d;--unknown:#818b98;\
font-family:system-ui,-apple-system,'Segoe UI',Roboto,'Noto Sans','DejaVu Sans',sans-serif;\
font-size:12px}\
@media (prefers-color-scheme:dark){.tenure{--bg:#0d1117;--text:#e6edf3;--muted:#9198a1;\
--grid:#2f3742;--lane:#151b23;--lead:#56b4e9;--on-lead:#04121d;--nobody:#e69f00;\
--several:#e58fc0;--unknown:#7d8590}}\
.tenure .bg{fill:var(--bg)}\
.tenure text{fill:var(--text)}\
.tenure .h{font-size:16px;font-weight:600}\
.tenure .m{fill:var(--muted)}\
.tenure .l{fill:var(--lane)}\
.tenure .g{stroke:var(--grid);stroke-width:1}\
.tenure .i{fill:var(--lead)}\
.tenure .p{fill:url(#tenure-perhaps);stroke:var(--lead);stroke-width:1}\
.tenure .e{fill:var(--on-lead);font-size:11px}\
.tenure .k{fill:var(--bg);stroke:var(--text);stroke-width:1.6;stroke-linejoin:round}\
.tenure .f{fill:var(--text);stroke:var(--bg);stroke-width:1.2;paint-order:stroke}\
.tenure .x{fill:none;stroke:var(--text);stroke-width:2;stroke-linecap:round}\
.tenure .o{fill:none;stroke:var(--bg);stroke-width:5;stroke-linecap:round}\
.tenure .q{font-weight:700;stroke:var(--bg);stroke-width:3;paint-order:stroke}\
.tenure .n{fill:var(--nobody)}\
.tenure .s{fill:var(--several)}\
.tenure .u{fill:url(#tenure-unknown);stroke:var(--unknown);stroke-width:1}\
.tenure .t{fill-opacity:.1}\
.tenure .w{stroke:var(--text);stroke-width:1.2;stroke-dasharray:4 3}\
.tenure .hl{stroke:var(--lead);stroke-width:2.4}\
.tenure .hu{stroke:var(--unknown);stroke-width:1.6}";

pub(super) const PATTERNS: &str = "<defs>\
<pattern id=\"tenure-perhaps\" width=\"5\" height=\"5\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(45)\"><path class=\"hl\" d=\"M0 0V5\"/></pattern>\
<pattern id=\"tenure-unknown\" width=\"6\" height=\"6\" patternUnits=\"userSpaceOnUse\" \
patternTransform=\"rotate(-45)\"><path class=\"hu\" d=\"M0 0V6\"/></pattern></defs>";

/// The shape of a mark around a point, at a size of 1 some 12 pixels wide.
pub(super) fn shape(mark: Mark, x: f64, y: f64, size: f64) -> String {
    let at = format!("transform=\"translate({x:.1} {y:.1}) scale({size})\"");
    let path = |class: &str, d: &str| format!("<path class=\"{class}\" {at} d=\"{d}\"/>");
    // Lines alone are lost on a bar of their own colour, so they have a halo.
    let lines = |d: &str| path("o", d) + &path("x", d);
    match mark {
        Mark::GoesOn => path("f", "M-3 -6L6 0L-3 6Z"),
        Mark::Resigned => format!("<circle class=\"k\" {at} r=\"4.4\"/>"),
        Mark::Lapsed => lines("M-4 -4L4 4M-4 4L4 -4"),
        Mark::Deposed => path("f", "M-6 -4H6L0 6Z"),
        Mark::Lost => path("k", "M-4 -4H4V4H-4Z"),
        Mark::Crashed => lines("M0 -5.5V5.5M-4.8 -2.8L4.8 2.8M-4.8 2.8L4.8 -2.8"),
        Mark::Superseded => lines("M-4 -4.5L0 0L-4 4.5M1 -4.5L5 0L1 4.5"),
        Mark::GivenUp => path("k", "M0 -6L6 0L0 6L-6 0Z"),
        Mark::Restored => path("k", "M-2 -6H2V-2H6V2H2V6H-2V2H-6V-2H-2Z"),
        Mark::Unknown => {
            format!("<text class=\"q\" {at} y=\"4.2\" text-anchor=\"middle\">?</text>")
        }
    }
}

pub(super) fn class(kind: BandKind) -> &'static str {
    match kind {
        BandKind::Nobody => "n",
        BandKind::Several => "s",
        BandKind::Unknown => "u",
    }
}
