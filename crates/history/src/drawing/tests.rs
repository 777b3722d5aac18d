//! What is drawn, read back by a strict parser of XML.

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

/// Whatever is drawn lies on the page, and says no `NaN`.
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

/// So many epochs over so many lanes, each led for 4 s of 5.
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
fn any_number_of_lanes_and_epochs_is_xml_of_a_bounded_size() {
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

/// 4,000 of them made tooltips of 268 MB, and 100,000 an SVG of 20 MB.
#[test]
fn regression_any_number_of_overlapping_epochs_is_of_a_bounded_size() {
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
fn many_short_epochs_are_drawn_together_and_counted() {
    let svg = many(1, 2_000).svg();
    let svg = parsed(&svg);
    let told = titles(&svg);
    let sum = |of: &str| -> usize {
        let counts = told.iter().filter_map(|title| title.split_once(of));
        counts.map(|(count, _)| count.parse::<usize>().expect("a number")).sum()
    };
    assert_eq!((sum(" epochs, "), sum(" times, ")), (2_000, 1_999));
    // Between long ones, too, and none is lost.
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
fn more_lanes_than_can_be_told_apart_share_the_last() {
    let svg = many(60, 600).svg();
    let svg = parsed(&svg);
    let titles = titles(&svg);
    let lanes =
        titles.iter().filter(|title| title.starts_with("worker-") || title.ends_with(" others"));
    assert_eq!(lanes.count(), 50);
    assert!(titles.contains(&"11 others"), "{titles:?}");
}

#[test]
fn names_are_escaped_cut_and_keep_their_direction() {
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
fn every_end_has_a_shape_of_its_own_and_a_word_in_the_legend() {
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
    assert!(!plain.contains(">lapsed</text>") && !plain.contains(">nobody leads</text>"));
}

#[test]
fn nobody_and_several_are_found() {
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
            (BandKind::Several, secs(4), secs(5), "a (epoch 1), b (epoch 2) lead at once for 1s"),
            (BandKind::Nobody, secs(9), secs(12), "nobody leads for 3s"),
        ]
    );
}

#[test]
fn what_is_in_doubt_is_hatched() {
    let mut interval = Interval::new("a", "1", secs(0), secs(5), Mark::Lapsed);
    interval.perhaps_until = secs(9);
    let mut drawing = Drawing::new("");
    drawing.intervals.push(interval);
    let svg = drawing.svg();
    assert_eq!(svg.matches("class=\"p\"").count(), 2, "the interval, and the legend");
    drawing.intervals[0].perhaps_until = secs(5);
    assert_eq!(drawing.svg().matches("class=\"p\"").count(), 0);
}

#[test]
fn times_at_the_ends_of_time_are_drawn() {
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

/// All that can be drawn.
fn everything() -> Drawing {
    let mut drawing = many(3, MARKS.len());
    drawing.subtitle = "all of it".to_owned();
    let (from, until, tip) = (secs(0), secs(3), String::new());
    for kind in [BandKind::Nobody, BandKind::Several, BandKind::Unknown] {
        drawing.bands.push(Band { kind, from, until, tip: tip.clone() });
    }
    drawing.intervals[0].perhaps_until = secs(5);
    drawing.notes.push(Note { at: secs(2), text: "a note".to_owned() });
    drawing
}

/// librsvg, Inkscape and most previewers drew black shapes: all colours were custom properties.
#[test]
fn regression_every_shape_has_its_colours_without_styles() {
    for drawing in [everything(), many(1, 2_000), Drawing::new("nothing")] {
        let wrong = svg::without_styles(&drawing.svg());
        assert!(wrong.is_empty(), "{wrong:#?}");
    }
    // The check itself.
    let var = "<svg xmlns='http://www.w3.org/2000/svg'><rect fill='var(--a)'/><text>a</text></svg>";
    assert_eq!(svg::without_styles(var).len(), 3);
}

/// A class whose light colours are attributes has a rule with dark ones for the same properties.
#[test]
fn dark_changes_every_colour() {
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

/// 40 characters, as many as a table shows, ran out of the picture where they were wide.
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

/// So many rows, each with two owners of so many.
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
fn owners_have_a_colour_in_all_rows_and_a_name_in_the_legend() {
    let svg = owned(3, 2).svg();
    assert_eq!(svg::without_styles(&svg), [""; 0]);
    let document = parsed(&svg);
    // Three rows with a bar of each, and the legend.
    assert_eq!([fills(&document, "c0"), fills(&document, "c1")], [4, 4]);
    assert_eq!(fills(&document, "i"), 0, "no colour of leaders");
    let words: Vec<_> = document.descendants().filter_map(|node| node.text()).collect();
    assert!(words.contains(&"owned still") && !words.contains(&"leads on"), "{words:?}");
    assert!(!words.contains(&"moved"), "{words:?}");
    // In the order given, not in that of time.
    let mut late = owned(2, 2);
    late.intervals.reverse();
    let svg = late.svg();
    let document = parsed(&svg);
    let rows: Vec<_> = titles(&document).into_iter().filter(|it| it.len() == 2).collect();
    assert_eq!(rows, ["p1", "p0"]);
    assert!(!many(2, 5).svg().contains(".c0"), "leaders need no colours of owners");
}

#[test]
fn any_number_of_rows_and_owners_is_drawn() {
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
fn short_ownerships_are_drawn_together_and_say_whose_they_are() {
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
