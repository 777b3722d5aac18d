//! Escapes foreign text for events, errors, spans, drawings and terminals.

use std::fmt::Write as _;

/// Returns the text on one line, with its active characters escaped, such as `\n` and `\u{202e}`. A
/// character is active if it controls a terminal or the direction of writing, ends a line, or is
/// invisible. A second call does not change the text.
#[must_use]
pub fn plain(text: &str) -> String {
    let mut plain = String::with_capacity(text.len());
    for character in text.chars() {
        if acts(character) {
            // A write to a `String` cannot fail.
            let _ = write!(plain, "{}", character.escape_default());
        } else {
            plain.push(character);
        }
    }
    plain
}

/// Returns true for Unicode's control, format, line separator and paragraph separator characters,
/// variation selectors, fillers (letters without a shape), and the two code points that XML
/// forbids.
fn acts(character: char) -> bool {
    character.is_control()
        || matches!(character,
            '\u{ad}' | '\u{34f}' | '\u{600}'..='\u{605}' | '\u{61c}' | '\u{6dd}' | '\u{70f}'
            | '\u{890}' | '\u{891}' | '\u{8e2}' | '\u{115f}' | '\u{1160}' | '\u{17b4}' | '\u{17b5}'
            | '\u{180b}'..='\u{180f}' | '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}'
            | '\u{2060}'..='\u{206f}' | '\u{3164}' | '\u{fe00}'..='\u{fe0f}' | '\u{feff}'
            | '\u{ffa0}' | '\u{fff0}'..='\u{fffb}' | '\u{fffe}' | '\u{ffff}' | '\u{110bd}'
            | '\u{110cd}' | '\u{13430}'..='\u{1343f}' | '\u{1bca0}'..='\u{1bca3}'
            | '\u{1d173}'..='\u{1d17a}' | '\u{e0000}'..='\u{e0fff}')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn active_characters_are_escaped() {
        for (text, shown) in [
            ("a\nb\r\tc", "a\\nb\\r\\tc"),
            ("\u{1b}[2J\u{9b}\u{85}\0", "\\u{1b}[2J\\u{9b}\\u{85}\\u{0}"),
            ("a\u{202e}b\u{2066}c\u{200e}", "a\\u{202e}b\\u{2066}c\\u{200e}"),
            ("\u{2028}\u{2029}", "\\u{2028}\\u{2029}"),
            ("ad\u{200b}min\u{feff}\u{2060}", "ad\\u{200b}min\\u{feff}\\u{2060}"),
        ] {
            assert_eq!(plain(text), shown);
            assert_eq!(plain(shown), shown);
        }
    }

    #[test]
    fn letters_are_not_escaped() {
        for text in ["worker-7", "größe a+b", "漢字", "שלום", "a\\b \"c\" 'd' {e}", "🦀"]
        {
            assert_eq!(plain(text), text);
        }
    }

    /// A derived `Debug` prints the strings in a value with the `Debug` of `str`. The `Debug` of
    /// `str` escapes the active characters, except a few harmless ones.
    #[test]
    fn debug_output_escapes_harmful_characters() {
        for character in (0..=0x10_ffff).filter_map(char::from_u32) {
            let debug = format!("{:?}", character.to_string());
            if debug.contains(character) && acts(character) {
                let number = u32::from(character);
                let harmless = matches!(number, 0xad | 0x115f | 0x1160 | 0x3164 | 0xffa0);
                assert!(harmless, "{number:x} passes Debug");
            }
        }
    }
}
