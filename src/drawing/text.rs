//! Text of others in a drawing: cut, escaped, and kept from reordering what stands around it.

use std::time::Duration;

use crate::escape::plain;

/// Plain text, escaped for XML's content and attributes.
pub(super) fn escaped(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for character in plain(text).chars() {
        match character {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            _ => escaped.push(character),
        }
    }
    escaped
}

/// At most so many columns of it, with an ellipsis for the rest.
pub(super) fn cut(text: &str, columns: usize) -> String {
    let text = plain(text);
    if width(&text) <= columns {
        return text;
    }
    let mut kept = String::new();
    let mut used = 1;
    for character in text.chars() {
        used += columns_of(character);
        if used > columns {
            break;
        }
        kept.push(character);
    }
    kept.push('…');
    kept
}

/// How many columns it takes, roughly: no font is known here.
pub(super) fn width(text: &str) -> usize {
    text.chars().map(columns_of).sum()
}

fn columns_of(character: char) -> usize {
    // From Hangul and CJK on, most are twice as wide as Latin.
    if matches!(character, '\u{1100}'..='\u{115f}' | '\u{2e80}'..) { 2 } else { 1 }
}

/// A duration in the two greatest units that it has.
pub(crate) fn short(duration: Duration) -> String {
    let (seconds, millis) = (duration.as_secs(), duration.subsec_millis());
    let two = |big: u64, unit: &str, small: u64, part: &str| match small {
        0 => format!("{big}{unit}"),
        _ => format!("{big}{unit} {small}{part}"),
    };
    match seconds {
        0 => format!("{millis}ms"),
        1..10 if millis > 0 => {
            let text = format!("{seconds}.{millis:03}");
            format!("{}s", text.trim_end_matches('0'))
        }
        1..60 => format!("{seconds}s"),
        60..3_600 => two(seconds / 60, "m", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds / 60 % 60, "m"),
        _ => two(seconds / 86_400, "d", seconds / 3_600 % 24, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hostile_names_are_shown_not_obeyed() {
        assert_eq!(
            escaped("<script>&\"'\u{202e}\0\u{1b}"),
            "&lt;script&gt;&amp;&quot;&#39;\\u{202e}\\u{0}\\u{1b}"
        );
        assert_eq!(escaped("größe 漢 שלום"), "größe 漢 שלום");
    }

    #[test]
    fn long_names_are_cut_by_columns() {
        assert_eq!(cut("worker-7", 8), "worker-7");
        assert_eq!(cut("worker-70", 8), "worker-…");
        assert_eq!(cut("漢漢漢漢", 5), "漢漢…");
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = |ms| short(Duration::from_millis(ms));
        let all = [0, 999, 1_500, 2_000, 12_345, 90_000, 3_600_000, 5_400_000, 90_000_000];
        let all: Vec<_> = all.into_iter().map(shown).collect();
        assert_eq!(all, ["0ms", "999ms", "1.5s", "2s", "12s", "1m 30s", "1h", "1h 30m", "1d 1h"]);
    }
}
