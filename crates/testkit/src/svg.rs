//! Checks that a renderer without support for style sheets draws an SVG correctly.

use roxmltree::{Document, Node};

const SHAPES: [&str; 7] = ["rect", "path", "circle", "line", "polyline", "polygon", "text"];

/// Returns a description of each element that a renderer without style sheets would draw wrongly: a
/// shape or a text without a colour.
pub fn without_styles(svg: &str) -> Vec<String> {
    let document = match Document::parse(svg) {
        Ok(document) => document,
        Err(error) => return vec![error.to_string()],
    };
    let mut wrong = Vec::new();
    if svg.contains("var(") {
        wrong.push("uses custom properties".to_owned());
    }
    for node in document.descendants().filter(|node| SHAPES.contains(&node.tag_name().name())) {
        if let Some(why) = unpainted(&document, &node) {
            let source = &svg[node.range()];
            wrong.push(format!("{why}: {}", source.chars().take(120).collect::<String>()));
        }
    }
    wrong
}

fn unpainted(document: &Document<'_>, node: &Node<'_, '_>) -> Option<String> {
    let (fill, stroke) = (node.attribute("fill"), node.attribute("stroke"));
    // A renderer uses black for an element that has no `fill`.
    let Some(fill) = fill else { return Some("no fill".to_owned()) };
    let text = node.tag_name().name() == "text";
    for paint in [Some(fill), stroke].into_iter().flatten() {
        if !is_paint(document, paint) {
            return Some(format!("no paint: {paint:?}"));
        }
    }
    let shows = |paint: Option<&str>| paint.is_some_and(|paint| paint != "none");
    match (shows(Some(fill)), shows(stroke)) {
        (false, _) if text => Some("text without a fill".to_owned()),
        (false, false) => Some("neither fill nor stroke".to_owned()),
        _ => None,
    }
}

fn is_paint(document: &Document<'_>, paint: &str) -> bool {
    let id = paint.strip_prefix("url(#").and_then(|rest| rest.strip_suffix(')'));
    if let Some(id) = id {
        return document.descendants().any(|node| node.attribute("id") == Some(id));
    }
    let hex = paint.strip_prefix('#').filter(|hex| hex.len() == 6);
    paint == "none" || hex.is_some_and(|hex| hex.chars().all(|digit| digit.is_ascii_hexdigit()))
}
