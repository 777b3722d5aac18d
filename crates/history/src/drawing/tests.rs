//! Tests of drawings. They parse each SVG with a strict XML parser.

use std::time::Duration;

use roxmltree::{Document, Node};

use super::*;
use tenure_testkit::svg;

const MARKS: [Mark; 10] = [
    Mark::GoesOn,
    Mark::Resigned,
    Mark::Lapsed,
    Mark::Deposed,
    Mark::Lost,
    Mark::Crashed,
    Mark::Superseded,
    Mark::GivenUp,
    Mark::Restored,
    Mark::Unknown,
];

fn secs(seconds: u64) -> Duration {
    Duration::from_secs(seconds)
}

fn titles<'a>(svg: &'a Document<'_>) -> Vec<&'a str> {
    let titles =
        svg.descendants().filter(|node| node.has_tag_name(("http://www.w3.org/2000/svg", "title")));
    titles.filter_map(|node| node.text()).collect()
}

fn number(node: &Node<'_, '_>, name: &str) -> Option<f64> {
    node.attribute(name)?.parse().ok()
}

/// Parses the SVG. Checks that all elements are on the page and that all numbers are finite.
#[track_caller]
fn parsed(svg: &str) -> Document<'_> {
    let document = Document::parse(svg).unwrap_or_else(|error| panic!("{error}:\n{svg}"));
    let height = number(&document.root_element(), "height").expect("a height");
    for node in document.descendants() {
        assert!(
            node.attributes().all(|a| !a.value().contains("NaN") && !a.value().contains("inf"))
        );
        let (Some(x), Some(y)) = (number(&node, "x"), number(&node, "y")) else { continue };
        assert!((0.0..=1_000.0).contains(&x) && (0.0..=height).contains(&y), "{node:?}");
        let width = number(&node, "width").unwrap_or_default();
        assert!((0.0..=1_002.0).contains(&(x + width)), "{node:?}");
    }
    document
}

/// Creates a drawing in which an epoch begins every 5 s and lasts for 4 s.
fn many(lanes: usize, epochs: usize) -> Drawing {
    let mut drawing = Drawing::new("Many");
    for epoch in 0..epochs {
        let from = secs(5 * epoch as u64);
        let (lane, mark) = (format!("worker-{}", epoch * 7 % lanes), MARKS[epoch % MARKS.len()]);
        let interval = Interval::new(lane, (epoch + 1).to_string(), from, from + secs(4), mark);
        drawing.intervals.push(interval);
    }
    drawing.find_bands();
    drawing
}

#[test]
fn large_drawings_have_a_bounded_size() {
    for lanes in [1, 3, 50, 51, 700] {
        for epochs in [0, 1, 5, 2_000, 20_000] {
            let drawing = many(lanes, epochs);
            let svg = drawing.svg();
            parsed(&svg);
            assert!(svg.len() < 2_500_000, "{lanes} lanes, {epochs} epochs: {}", svg.len());
            assert_eq!(svg, drawing.svg());
        }
    }
}

/// Before the fix, the tooltips of a drawing with 4,000 overlapping epochs were 268 MB long, and
/// the SVG of 100,000 overlapping epochs was 20 MB long.
#[test]
fn regression_overlapping_epochs_have_a_bounded_size() {
    for (lanes, epochs) in [(1, 4_000), (1, 100_000), (50, 100_000)] {
        let mut drawing = Drawing::new("Overlapping");
        for epoch in 0..epochs {
            let (from, lane) = (secs(epoch), format!("worker-{}", epoch % lanes));
            let until = from + secs(epochs / 2);
            let interval = Interval::new(lane, epoch.to_string(), from, until, Mark::Lapsed);
            drawing.intervals.push(interval);
        }
        drawing.find_bands();
        let longest = drawing.bands.iter().map(|band| band.tip.len()).max();
        assert!(longest.is_some_and(|longest| longest < 250), "{longest:?}");
        let svg = drawing.svg();
        parsed(&svg);
        assert!(svg.len() < 2_500_000, "{lanes} lanes, {epochs} epochs: {}", svg.len());
    }
}

#[test]
fn many_short_epochs_are_combined_and_counted() {
    let svg = many(1, 2_000).svg();
    let svg = parsed(&svg);
    let told = titles(&svg);
    let sum = |of: &str| -> usize {
        let counts = told.iter().filter_map(|title| title.split_once(of));
        counts.map(|(count, _)| count.parse::<usize>().expect("a number")).sum()
    };
    // The tooltip of a bar that shows a single band contains no count.
    let single = told.iter().filter(|title| title.starts_with("vacant for ")).count();
    assert_eq!((sum(" epochs, "), sum(" times, ") + single), (2_000, 1_999));
    // The drawing also combines and counts short epochs between long epochs.
    let mut drawing = Drawing::new("");
    let mut from = secs(0);
    for (number, length) in [1_000, 1, 1, 1, 1_000].into_iter().enumerate() {
        let label = (number + 1).to_string();
        drawing.intervals.push(Interval::new("a", label, from, from + secs(length), Mark::Lapsed));
        from += secs(length);
    }
    let svg = drawing.svg();
    let svg = parsed(&svg);
    let told = titles(&svg);
    assert_eq!(
        told[1..],
        ["1: a, 16m 40s, lapsed", "3 epochs, 2 to 4: 3 lapsed", "5: a, 16m 40s, lapsed"]
    );
}

#[test]
fn candidates_beyond_the_limit_share_the_last_lane() {
    let svg = many(60, 600).svg();
    let svg = parsed(&svg);
    let titles = titles(&svg);
    let lanes =
        titles.iter().filter(|title| title.starts_with("worker-") || title.ends_with(" others"));
    assert_eq!(lanes.count(), 50);
    assert!(titles.contains(&"11 others"), "{titles:?}");
}

#[test]
fn names_are_escaped_and_cut() {
    let long = "x".repeat(300);
    let names = [
        "<script>alert(1)</script>",
        "]]>&amp;\"'",
        "\u{202e}gpj.exe",
        "\u{1b}[2J\u{0}\u{fffe}",
        "שלום עולם",
        &long,
    ];
    let mut drawing = Drawing::new(names[0]);
    names[1].clone_into(&mut drawing.subtitle);
    for (number, name) in names.into_iter().enumerate() {
        let at = secs(number as u64);
        let interval = Interval::new(name, name, at, at + secs(1), Mark::Resigned);
        drawing.intervals.push(interval.tip(name));
        drawing.notes.push(Note { at, text: name.to_owned() });
        let tip = name.to_owned();
        drawing.bands.push(Band { kind: BandKind::Several, from: at, until: at, tip });
    }
    let svg = drawing.svg();
    let document = parsed(&svg);
    let elements = document.descendants().filter(|node| node.tag_name().name() == "script");
    assert_eq!(elements.count(), 0);
    let titles = titles(&document);
    for shown in ["<script>alert(1)</script>", "]]>&amp;\"'", "\\u{202e}gpj.exe", "שלום עולם"]
    {
        assert!(titles.contains(&shown), "{shown}: {titles:?}");
    }
    assert!(titles.contains(&"\\u{1b}[2J\\u{0}\\u{fffe}"), "{titles:?}");
    let texts = document.descendants().filter(|node| node.tag_name().name() == "text");
    let longest = texts.filter_map(|node| node.last_child()?.text()).map(|t| t.chars().count());
    assert!(longest.max().is_some_and(|longest| longest <= 110));
}

#[test]
fn every_mark_has_a_distinct_shape_and_a_legend_entry() {
    let mut shapes: Vec<String> =
        MARKS.iter().map(|mark| style::shape(*mark, 0.0, 0.0, 1.0)).collect();
    shapes.sort();
    shapes.dedup();
    assert_eq!(shapes.len(), MARKS.len());
    let svg = many(3, MARKS.len()).svg();
    for mark in MARKS {
        assert!(svg.contains(&format!(">{}</text>", mark.name())), "{mark:?}");
    }
    let plain = many(1, 1).svg();
    assert!(!plain.contains(">lapsed</text>") && !plain.contains(">vacant</text>"));
}

#[test]
fn bands_show_times_with_no_leader_and_times_with_several() {
    let interval = |lane: &str, label: &str, from, until| {
        Interval::new(lane, label, secs(from), secs(until), Mark::Lost)
    };
    let mut drawing = Drawing::new("");
    drawing.intervals = vec![
        interval("a", "1", 0, 5),
        interval("b", "2", 4, 9),
        interval("c", "3", 12, 15),
        interval("d", "4", 3, 3),
    ];
    drawing.find_bands();
    let told: Vec<_> = drawing.bands.iter().map(|b| (b.kind, b.from, b.until, &*b.tip)).collect();
    assert_eq!(
        told,
        [
            (
                BandKind::Several,
                secs(4),
                secs(5),
                "a (epoch 1), b (epoch 2) lead at the same time for 1s"
            ),
            (BandKind::Vacant, secs(9), secs(12), "vacant for 3s"),
        ]
    );
}

#[test]
fn uncertain_times_are_hatched() {
    let mut interval = Interval::new("a", "1", secs(0), secs(5), Mark::Lapsed);
    interval.perhaps_until = secs(9);
    let mut drawing = Drawing::new("");
    drawing.intervals.push(interval);
    let svg = drawing.svg();
    assert_eq!(svg.matches("class=\"p\"").count(), 2, "the interval and the legend are hatched");
    drawing.intervals[0].perhaps_until = secs(5);
    assert_eq!(drawing.svg().matches("class=\"p\"").count(), 0);
}

#[test]
fn extreme_times_are_drawn() {
    let mut drawing = Drawing::new("");
    drawing.origin = Some(DateTime::<Utc>::MAX_UTC);
    drawing.intervals.push(Interval::new("a", "1", secs(0), Duration::MAX, Mark::Lapsed));
    parsed(&drawing.svg());
    drawing.origin = Some(DateTime::<Utc>::MIN_UTC);
    parsed(&drawing.svg());
    drawing.intervals[0].from = Duration::MAX;
    drawing.intervals[0].perhaps_from = Duration::MAX;
    parsed(&drawing.svg());
}

/// Returns a drawing with every kind of mark, band and other element.
fn everything() -> Drawing {
    let mut drawing = many(3, MARKS.len());
    drawing.subtitle = "all elements".to_owned();
    let (from, until, tip) = (secs(0), secs(3), String::new());
    for kind in [BandKind::Vacant, BandKind::Several, BandKind::Unknown] {
        drawing.bands.push(Band { kind, from, until, tip: tip.clone() });
    }
    drawing.intervals[0].perhaps_until = secs(5);
    drawing.notes.push(Note { at: secs(2), text: "a note".to_owned() });
    drawing
}

/// Before the fix, all colours were CSS custom properties. So librsvg, Inkscape and most
/// previewers, which ignore these properties, drew black shapes.
#[test]
fn regression_every_shape_has_its_colours_without_styles() {
    for drawing in [everything(), many(1, 2_000), Drawing::new("nothing")] {
        let wrong = svg::without_styles(&drawing.svg());
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    // The function `without_styles` must detect an SVG that uses custom properties.
    let var = "<svg xmlns='http://www.w3.org/2000/svg'><rect fill='var(--a)'/><text>a</text></svg>";
    assert_eq!(svg::without_styles(var).len(), 3);
}

/// If a class of shapes has light colours as attributes, the style sheet has a rule that sets the
/// same properties to dark colours.
#[test]
fn dark_pages_change_every_colour() {
    let svg = everything().svg();
    let document = parsed(&svg);
    for node in document.descendants().filter(|node| !node.has_tag_name("svg")) {
        let Some(class) = node.attribute("class").filter(|class| *class != "tenure") else {
            continue;
        };
        let rule = style::DARK.split_once(&format!(".tenure .{class}{{"));
        let rule = rule.or(style::DARK.split_once(&format!(".tenure .{class},")));
        let (_, rule) = rule.unwrap_or_else(|| panic!("no dark rule for {class}"));
        let rule = rule.split_once('}').expect("its end").0;
        for property in ["fill", "stroke"] {
            let light = node.attribute(property).filter(|paint| paint.starts_with('#'));
            assert_eq!(light.is_some(), rule.contains(&format!("{property}:#")), "{class}");
        }
    }
}

/// Before the fix, names were cut at 40 characters of any width, so a name of 40 wide characters
/// extended beyond the picture.
#[test]
fn regression_a_long_name_stays_inside_the_picture() {
    for name in
        ["W".repeat(40), "worker-7.eu-central-1.compute.internal-aa".to_owned(), "漢".repeat(40)]
    {
        let mut drawing = Drawing::new(format!("Who led {}", name.repeat(5)));
        drawing.subtitle = name.repeat(6);
        drawing.intervals.push(Interval::new(&name, "1", secs(0), secs(9), Mark::Lost));
        drawing.notes.push(Note { at: secs(4), text: name.repeat(5) });
        let svg = drawing.svg();
        for text in parsed(&svg).descendants().filter(|node| node.tag_name().name() == "text") {
            let shown = text.last_child().and_then(|child| child.text()).unwrap_or_default();
            let size = number(&text, "font-size").unwrap_or(12.0);
            let (x, long) = (number(&text, "x").unwrap_or_default(), text::pixels(shown, size));
            let (from, until) = match text.attribute("text-anchor") {
                Some("end") => (x - long, x),
                Some("middle") => (x - long / 2.0, x + long / 2.0),
                _ => (x, x + long),
            };
            assert!(from >= 0.0 && until <= 1_000.0, "{shown}: {from} to {until}");
        }
    }
}

/// Creates a drawing with this number of lanes. Each lane has two owners in succession, and all
/// lanes together have `owners` owners.
fn owned(rows: usize, owners: usize) -> Drawing {
    let mut drawing = Drawing::new("Owned");
    drawing.subject = Subject::Owners;
    for row in 0..rows {
        for turn in 0..2 {
            let (owner, from) =
                (format!("worker-{}", (row + turn) % owners), secs(100 * turn as u64));
            let end = if turn == 0 { Mark::Moved } else { Mark::GoesOn };
            let name = format!("p{row}");
            drawing.intervals.push(Interval::new(name, owner, from, from + secs(90), end));
        }
    }
    drawing
}

fn fills(svg: &Document<'_>, class: &str) -> usize {
    svg.descendants().filter(|node| node.attribute("class") == Some(class)).count()
}

#[test]
fn owners_have_one_colour_and_a_legend_entry() {
    let svg = owned(3, 2).svg();
    assert_eq!(svg::without_styles(&svg), [""; 0]);
    let document = parsed(&svg);
    // In each of the three lanes, each owner has one bar. The fourth bar of each owner is in the
    // legend.
    assert_eq!([fills(&document, "c0"), fills(&document, "c1")], [4, 4]);
    assert_eq!(fills(&document, "i"), 0, "no shape has the colour of leaders");
    let words: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(words.contains(&"owned still") && !words.contains(&"leads on"), "{words:?}");
    assert!(!words.contains(&"moved"), "{words:?}");
    // Lanes follow the order of the list `intervals`, and not the order of time.
    let mut late = owned(2, 2);
    late.intervals.reverse();
    let svg = late.svg();
    let document = parsed(&svg);
    let rows: Vec<_> = titles(&document).into_iter().filter(|it| it.len() == 2).collect();
    assert_eq!(rows, ["p1", "p0"]);
    assert!(!many(2, 5).svg().contains(".c0"), "a drawing of leaders has no colours of owners");
}

#[test]
fn many_lanes_and_owners_are_drawn() {
    for (rows, owners) in [(0, 1), (1, 1), (50, 9), (1_000, 30), (1_200, 1_200)] {
        let svg = owned(rows, owners).svg();
        assert_eq!(svg::without_styles(&svg), [""; 0]);
        let document = parsed(&svg);
        assert!(svg.len() < 2_500_000, "{rows} rows: {}", svg.len());
        let shared = titles(&document).contains(&"201 others");
        assert_eq!(shared, rows == 1_200);
        let words: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
        let more = owners.saturating_sub(24);
        let told = words.contains(&&*format!("and {more} others in these colours"));
        assert_eq!(told, more > 0 && rows > 0);
    }
}

#[test]
fn combined_ownerships_list_their_owners() {
    let mut drawing = Drawing::new("Restless");
    drawing.subject = Subject::Owners;
    for turn in 0..2_000_u64 {
        let (from, owner) = (secs(turn * 5), format!("<w{}>", turn % 7));
        drawing.intervals.push(Interval::new("p", owner, from, from + secs(5), Mark::Moved));
    }
    let svg = drawing.svg();
    assert_eq!(svg::without_styles(&svg), [""; 0]);
    let document = parsed(&svg);
    let told = titles(&document);
    let counted = told.iter().filter_map(|it| it.strip_prefix("owned ")?.split_once(" times, by "));
    let counted: Vec<_> = counted.collect();
    let all: usize =
        counted.iter().map(|(count, _)| count.parse::<usize>().expect("a count")).sum();
    assert_eq!(all, 2_000);
    assert!(counted.iter().any(|(_, by)| *by == "<w0>, <w1>, <w2>, <w3>, <w4> and 2 others"));
}
