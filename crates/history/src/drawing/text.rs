//! Functions that cut and escape untrusted text in a drawing. They also escape characters that
//! change the direction of the text after them.

use std::time::Duration;

use tenure::internals::plain;

/// Returns the text on one line. Escapes control characters, and all characters that have a meaning
/// in XML content or attributes.
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

/// Returns the text. If the text is wider than `room` pixels at this font size, cuts the text and
/// adds an ellipsis.
pub(super) fn cut(text: &str, room: f64, size: f64) -> String {
    let whole = plain(text);
    if pixels(&whole, size) <= room {
        return whole;
    }
    let mut kept = String::new();
    let mut used = ems('…') * size;
    for character in text.chars() {
        let shown = plain(character.encode_utf8(&mut [0; 4]));
        used += pixels(&shown, size);
        if used > room {
            break;
        }
        kept.push_str(&shown);
    }
    kept.push('…');
    kept
}

/// Returns the width of the text in pixels at this font size. The reader's font is unknown, so the
/// function assumes DejaVu Sans, which is wider than most fonts.
pub(super) fn pixels(text: &str, size: f64) -> f64 {
    text.chars().map(ems).sum::<f64>() * size
}

fn ems(character: char) -> f64 {
    match character {
        'i' | 'j' | 'l' | 'I' | '.' | ',' | ':' | ';' | '\'' | '|' | '!' | ' ' => 0.36,
        'f' | 'r' | 't' | 'J' | '-' | '(' | ')' | '/' | '\\' | '"' | '[' | ']' => 0.44,
        'm' | 'w' | 'M' | 'W' | '@' | '%' | '…' | '—' => 1.03,
        'A'..='Z' | '+' | '<' | '=' | '>' | '~' | '#' | '&' => 0.84,
        '\u{20}'..='\u{7e}' => 0.65,
        // Most Hangul and CJK characters are square, and so are most characters with greater code
        // points.
        '\u{1100}'..='\u{115f}' | '\u{2e80}'.. => 1.0,
        _ => 0.86,
    }
}

/// Formats a duration in at most two units, such as `1m 10s`.
pub fn short(duration: Duration) -> String {
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
    fn control_characters_in_names_are_escaped() {
        assert_eq!(
            escaped("<script>&\"'\u{202e}\0\u{1b}"),
            "&lt;script&gt;&amp;&quot;&#39;\\u{202e}\\u{0}\\u{1b}"
        );
        assert_eq!(escaped("größe 漢 שלום"), "größe 漢 שלום");
    }

    #[test]
    fn long_names_are_cut_to_a_width() {
        let room = pixels("worker-7…", 12.0);
        assert_eq!(cut("worker-7", room, 12.0), "worker-7");
        assert_eq!(cut("worker-700000", room, 12.0), "worker-7…");
        assert_eq!(cut("漢漢漢漢", 37.0, 12.0), "漢漢…");
        assert!(pixels("WWWW", 12.0) > 2.0 * pixels("illi", 12.0));
    }

    #[test]
    fn durations_have_two_units_at_most() {
        let shown = |ms| short(Duration::from_millis(ms));
        let all = [0, 999, 1_500, 2_000, 12_345, 90_000, 3_600_000, 5_400_000, 90_000_000];
        let all: Vec<_> = all.into_iter().map(shown).collect();
        assert_eq!(all, ["0ms", "999ms", "1.5s", "2s", "12s", "1m 30s", "1h", "1h 30m", "1d 1h"]);
    }
}
