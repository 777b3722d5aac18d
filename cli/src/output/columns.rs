//! Text and tables that fit into a terminal of 80 columns.

use anstream::adapter::strip_str;
use unicode_width::UnicodeWidthStr as _;

use crate::output::print::{FAINT, styled};

/// Maximum width of a line for people, in columns of a terminal.
pub const WIDTH: usize = 80;
/// Number of spaces between two cells of a table.
const GAP: usize = 2;
/// Minimum width of a shortened column of a table.
const LEAST: usize = 6;

/// Returns the width of a styled text in columns of a terminal. Characters of some scripts fill two
/// columns.
fn width(text: &str) -> usize {
    strip_str(text).to_string().width()
}

/// Shortens a text to this number of columns. `…` marks the cut. Styles are kept. An escape such as
/// `\u{1b}` is kept whole or removed.
pub fn fit(text: &str, columns: usize) -> String {
    let shown = strip_str(text).to_string();
    if shown.width() <= columns {
        return text.to_owned();
    }
    // The width of an emoji sequence differs from the sum of the widths of its characters, so each
    // prefix is measured. A limit of `4 * columns` prefixes bounds the work for characters without
    // a width.
    let ends = shown.char_indices().map(|(end, _)| end).take(4 * columns);
    let end = ends.take_while(|end| shown[..*end].width() < columns).last().unwrap_or(0);
    let kept = shown[..before_escape(&shown, end)].chars().count();
    let (mut cut, mut seen, mut in_style) = (String::new(), 0, false);
    for character in text.chars() {
        let is_style = in_style || character == '\u{1b}';
        in_style = is_style && character != 'm';
        if is_style || seen < kept {
            cut.push(character);
        } else if seen == kept {
            cut.push('…');
        }
        seen += usize::from(!is_style);
    }
    cut
}

/// Returns the start of the escape, such as `\u{200e}`, that contains the position `end`. Returns
/// `end` if no escape contains it.
fn before_escape(text: &str, end: usize) -> usize {
    let Some(start) = text[..end].rfind('\\') else { return end };
    let escape = &text[start..];
    let length = if escape.starts_with("\\u{") { escape.find('}').unwrap_or(0) + 1 } else { 2 };
    if start + length > end { start } else { end }
}

/// Breaks a text at spaces into lines that end before column [`WIDTH`]. The first line follows
/// other text that fills `indent` columns. All other lines begin with `indent` spaces.
pub fn wrap(text: &str, indent: usize) -> String {
    let columns = WIDTH - indent;
    let (mut lines, mut used) = (String::new(), 0);
    for (place, word) in text.split(' ').enumerate() {
        let word = fit(word, columns);
        if place > 0 && used + 1 + width(&word) > columns {
            lines += &format!("\n{:indent$}", "");
            used = 0;
        } else if place > 0 {
            lines.push(' ');
            used += 1;
        }
        used += width(&word);
        lines += &word;
    }
    lines
}

/// Returns a table with a heading and aligned columns. If the table is wider than [`WIDTH`], the
/// widest of the `flexible` columns are shortened. The last column is not padded.
pub fn table<const N: usize>(
    heading: [&str; N],
    rows: &[[String; N]],
    flexible: &[usize],
) -> String {
    let wide = |column: usize| {
        let cells = rows.iter().map(|row| width(&row[column]));
        cells.chain([heading[column].width()]).max().unwrap_or(0)
    };
    let mut wide: [usize; N] = std::array::from_fn(wide);
    while wide.iter().sum::<usize>() + GAP * (N - 1) > WIDTH {
        let widest = flexible.iter().copied().filter(|column| wide[*column] > LEAST);
        let Some(widest) = widest.max_by_key(|column| wide[*column]) else { break };
        wide[widest] -= 1;
    }
    let line = |cells: [&str; N]| {
        let mut line = String::new();
        for (cell, wide) in cells.iter().zip(wide) {
            let cell = fit(cell, wide);
            let gap = wide - width(&cell) + GAP;
            line += &format!("{cell}{:gap$}", "");
        }
        line.trim_end().to_owned()
    };
    let heading = styled(FAINT, line(heading));
    let rows = rows.iter().map(|row| line(row.each_ref().map(|cell| &**cell)));
    std::iter::once(heading).chain(rows).collect::<Vec<_>>().join("\n")
}

/// Returns one line with the meaning of each symbol that occurs in `list`.
pub fn legend(list: &str, symbols: &[(char, &str)]) -> String {
    let list = strip_str(list).to_string();
    let used = symbols.iter().filter(|(symbol, _)| list.contains(*symbol));
    used.map(|(symbol, meaning)| {
        format!("\n{}", styled(FAINT, format_args!("{symbol}  {meaning}")))
    })
    .collect()
}

/// The symbol `…` and its meaning, for [`legend`].
pub const SHORTENED: (char, &str) = ('…', "shortened; --json prints the whole text");

#[cfg(test)]
mod tests {
    use super::*;
    use crate::output::print::NAME;

    #[test]
    fn texts_are_cut_by_their_width_and_keep_their_style() {
        assert_eq!(fit("anna", 4), "anna");
        assert_eq!(fit("anna-7", 5), "anna…");
        assert_eq!(fit("漢字漢字", 6), "漢字…");
        assert_eq!(fit(&styled(NAME, "anna-7"), 5), styled(NAME, "anna…"));
        for name in ["❤\u{fe0f}".repeat(60), "e\u{301}".repeat(600), "👩\u{200d}🚀".repeat(60)]
        {
            assert!(fit(&name, 20).width() <= 20, "{name}");
        }
    }

    /// Before the fix, the cut of a long name could leave a part such as `\u{20` of an escape.
    #[test]
    fn regression_an_escape_is_not_cut() {
        let name = crate::output::print::plain("a\u{202e}b\nc");
        let cuts = [3, 9, 10, 11, 12, 13].map(|columns| fit(&name, columns));
        assert_eq!(cuts, ["a…", "a…", "a\\u{202e}…", "a\\u{202e}b…", "a\\u{202e}b…", &*name]);
    }

    #[test]
    fn lines_break_at_spaces() {
        let text = ["word"; 30].join(" ");
        let wrapped = wrap(&text, 11);
        assert!(wrapped.lines().all(|line| line.width() <= WIDTH), "{wrapped}");
        assert_eq!(wrapped.replace(&format!("\n{:11}", ""), " "), text);
        assert_eq!(wrap(&"x".repeat(100), 20), "x".repeat(59) + "…");
    }

    #[test]
    fn only_flexible_columns_are_shortened() {
        let row = ["x".repeat(60), "2026-11-20 12:00:00Z".to_owned(), "y".repeat(40)];
        let table = table(["name", "from", "end"], &[row], &[0, 2]);
        let row = table.lines().nth(1).expect("a row");
        assert_eq!(row.width(), WIDTH, "{table}");
        assert!(row.contains("…  2026-11-20 12:00:00Z  yyy"), "{table}");
    }
}
