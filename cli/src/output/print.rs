//! What goes to stdout, and how it is made fit for a terminal.

use std::fmt::{Display, Write as _};
use std::io::{self, ErrorKind, IsTerminal as _, Write as _};
use std::os::fd::AsFd as _;
use std::time::Duration;

use anstream::adapter::strip_str;
use anstream::{AutoStream, ColorChoice};
use anstyle::{AnsiColor, Style};
use humantime::{FormattedDuration, format_duration};
use nix::poll::{PollFd, PollFlags, PollTimeout, poll};
use nix::sys::stat::{SFlag, fstat};
use serde::Serialize;

use crate::exit::{self, Failure};
use crate::process::timer::pause;

/// Whether somebody still reads what is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum Reader {
    Listens,
    /// As in `tenure watch | head -1`: no error, but nothing is left to do.
    HasLeft,
}

/// Writes lines to stdout at once.
pub fn print(lines: &str) -> Result<Reader, Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{lines}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(Reader::Listens),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(Reader::HasLeft),
        Err(error) => Err(Failure::new(exit::OS, format!("cannot write to stdout: {error}"))),
    }
}

/// How often it is looked whether somebody still reads.
const LOOK: Duration = Duration::from_millis(100);

/// Returns soon after the last reader of stdout has left, as in `tenure watch | head -1`. Where
/// stdout is no pipe and no socket it does not return.
pub async fn reader_left() {
    let kind = fstat(io::stdout()).map(|file| SFlag::from_bits_truncate(file.st_mode));
    let is = |one: SFlag| kind.is_ok_and(|kind| kind & SFlag::S_IFMT == one);
    if !is(SFlag::S_IFIFO) && !is(SFlag::S_IFSOCK) {
        return std::future::pending().await;
    }
    let stdout = io::stdout();
    loop {
        // Without a reader there is an error, or a hang-up, though none was asked for.
        let mut end = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        if matches!(poll(&mut end, PollTimeout::ZERO), Ok(1..)) {
            return;
        }
        pause(LOOK).await;
    }
}

/// Whether a person most likely reads stdout, so that lines may be laid out for the eye.
pub fn is_for_the_eye() -> bool {
    io::stdout().is_terminal()
}

/// Writes lines to stdout at once, in colour where that is wanted: on a terminal, unless `NO_COLOR`
/// is set or `TERM` is `dumb` (without `CI`, whose logs show colours), and elsewhere with
/// `CLICOLOR_FORCE`.
pub fn print_styled(lines: &str) -> Result<Reader, Failure> {
    match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => print(&strip_str(lines).to_string()),
        _ => print(lines),
    }
}

/// This text in this style.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// Of what goes well, what wants attention, what only explains, and a name.
pub const GOOD: Style = AnsiColor::Green.on_default();
pub const ATTENTION: Style = AnsiColor::Yellow.on_default();
pub const FAINT: Style = Style::new().dimmed();
pub const NAME: Style = Style::new().bold();

/// Writes one line of JSON to stdout at once.
pub fn print_json(value: &impl Serialize) -> Result<Reader, Failure> {
    print(&json_line(value))
}

/// One line of JSON. What acts on a terminal or ends a line elsewhere, such as U+202E, U+0085 and
/// U+2028, is escaped: JSON allows it as it is in strings, and means the same by `\u202e`.
pub fn json_line(value: &impl Serialize) -> String {
    let json =
        serde_json::to_string(value).expect("plain structs with string keys always make JSON");
    let mut line = String::with_capacity(json.len());
    for character in json.chars() {
        let (mut utf8, mut utf16) = ([0; 4], [0; 2]);
        let printable = matches!(character, ' '..='~')
            || plain(character.encode_utf8(&mut utf8)).chars().eq([character]);
        if printable {
            line.push(character);
            continue;
        }
        for unit in character.encode_utf16(&mut utf16) {
            // Writing to a String cannot fail.
            let _ = write!(line, "\\u{unit:04x}");
        }
    }
    line
}

/// As fields of JSON have it.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Without the rest of a division: in whole milliseconds, cut.
pub fn in_ms(duration: Duration) -> FormattedDuration {
    let rest = Duration::from_nanos(u64::from(duration.subsec_nanos()) % 1_000_000);
    format_duration(duration.saturating_sub(rest))
}

/// In whole seconds, cut.
pub fn in_seconds(duration: Duration) -> FormattedDuration {
    format_duration(Duration::from_secs(duration.as_secs()))
}

/// Text of others, such as the name of a candidate: control characters would let it rewrite the
/// terminal or pass for lines of its own, and those that turn the direction of writing let one name
/// pass for another.
pub use tenure::internals::plain;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_shown_not_obeyed() {
        assert_eq!(plain("worker-7 größe 漢"), "worker-7 größe 漢");
        assert_eq!(plain("a\nb\x1b[2J\u{9b}c"), "a\\nb\\u{1b}[2J\\u{9b}c");
    }

    #[test]
    fn regression_json_is_escaped_for_terminals_and_means_the_same() {
        let names =
            ["a\u{202e}b", "\u{85}\u{9b}2J", "\u{2028}\u{7f}", "\u{e0041}", "größe 漢 🦀\n\"\\"];
        let line = json_line(&names);
        assert!(
            line.starts_with(r#"["a\u202eb","\u0085\u009b2J","\u2028\u007f","\udb40\udc41""#),
            "{line}"
        );
        assert!(line.ends_with(r#""größe 漢 🦀\n\"\\"]"#), "{line}");
        assert_eq!(serde_json::from_str::<Vec<String>>(&line).expect("JSON"), names);
    }

    /// Found by reading: the text of a terminal with bidi support showed the name backwards.
    #[test]
    fn regression_a_name_cannot_turn_the_direction_of_its_line() {
        assert_eq!(plain("a\u{202e}b\u{2066}c\u{2028}d"), "a\\u{202e}b\\u{2066}c\\u{2028}d");
        assert_eq!(plain("שלום"), "שלום", "letters stay as they are");
    }
}
