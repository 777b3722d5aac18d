//! Output to stdout, escaped for terminals.

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

/// State of the process that reads stdout, such as a pager.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
#[must_use]
pub enum StdoutReader {
    Listens,
    /// The reader has closed the pipe, as in `tenure watch | head -1`. The closed pipe is not an
    /// error.
    HasLeft,
}

/// Writes these lines to stdout and flushes stdout.
pub fn print(lines: &str) -> Result<StdoutReader, Failure> {
    let mut stdout = io::stdout().lock();
    match writeln!(stdout, "{lines}").and_then(|()| stdout.flush()) {
        Ok(()) => Ok(StdoutReader::Listens),
        Err(error) if error.kind() == ErrorKind::BrokenPipe => Ok(StdoutReader::HasLeft),
        Err(error) => Err(Failure::new(exit::OS, format!("cannot write to stdout: {error}"))),
    }
}

/// Interval between two checks of whether a process still reads stdout.
const LOOK: Duration = Duration::from_millis(100);

/// Returns within 100 ms after the last reader of stdout has left, as in `tenure watch | head -1`.
/// Waits forever if stdout is neither a pipe nor a socket.
pub async fn reader_left() {
    let kind = fstat(io::stdout()).map(|file| SFlag::from_bits_truncate(file.st_mode));
    let is = |one: SFlag| kind.is_ok_and(|kind| kind & SFlag::S_IFMT == one);
    if !is(SFlag::S_IFIFO) && !is(SFlag::S_IFSOCK) {
        return std::future::pending().await;
    }
    let stdout = io::stdout();
    loop {
        // If the pipe has no reader, `poll` reports an error or a hang-up, even if the caller
        // requests no event.
        let mut end = [PollFd::new(stdout.as_fd(), PollFlags::empty())];
        if matches!(poll(&mut end, PollTimeout::ZERO), Ok(1..)) {
            return;
        }
        pause(LOOK).await;
    }
}

/// Returns whether stdout is a terminal. On a terminal, the output is in columns.
pub fn is_for_a_terminal() -> bool {
    io::stdout().is_terminal()
}

/// Chooses whether stdout has colours, as `--color` requests.
pub fn choose_colours(choice: clap::ColorChoice) {
    let choice = match choice {
        clap::ColorChoice::Auto => ColorChoice::Auto,
        clap::ColorChoice::Always => ColorChoice::Always,
        clap::ColorChoice::Never => ColorChoice::Never,
    };
    choice.write_global();
}

/// Writes lines to stdout and flushes it. By default, colours are used on a terminal, or if
/// `CLICOLOR_FORCE` is set. `NO_COLOR` disables colours, and so does `TERM=dumb` unless `CI` is
/// set.
pub fn print_styled(lines: &str) -> Result<StdoutReader, Failure> {
    match AutoStream::choice(&io::stdout()) {
        ColorChoice::Never => print(&strip_str(lines).to_string()),
        _ => print(lines),
    }
}

/// Returns the text with the escape sequences of this style.
pub fn styled(style: Style, text: impl Display) -> String {
    format!("{style}{text}{style:#}")
}

/// The style of a healthy state.
pub const GOOD: Style = AnsiColor::Green.on_default();
/// The style of a state that needs attention.
pub const ATTENTION: Style = AnsiColor::Yellow.on_default();
/// The style of explanations.
pub const FAINT: Style = Style::new().dimmed();
/// The style of names.
pub const NAME: Style = Style::new().bold();

/// Writes one line of JSON to stdout and flushes it.
pub fn print_json(value: &impl Serialize) -> Result<StdoutReader, Failure> {
    print(&json_line(value))
}

/// Returns one line of JSON. Characters that control a terminal or end a line, such as U+202E,
/// U+0085 and U+2028, are escaped. JSON gives `\u202e` the same meaning as the character.
pub fn json_line(value: &impl Serialize) -> String {
    let json =
        serde_json::to_string(value).expect("plain structs with string keys serialize to JSON");
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

/// Returns a duration in milliseconds, rounded down, for a field of JSON.
pub fn millis(duration: Duration) -> u64 {
    u64::try_from(duration.as_millis()).unwrap_or(u64::MAX)
}

/// Formats a duration, rounded down to whole milliseconds.
pub fn in_ms(duration: Duration) -> FormattedDuration {
    let rest = Duration::from_nanos(u64::from(duration.subsec_nanos()) % 1_000_000);
    format_duration(duration.saturating_sub(rest))
}

/// Formats a duration, rounded down to whole seconds.
pub fn in_seconds(duration: Duration) -> FormattedDuration {
    format_duration(Duration::from_secs(duration.as_secs()))
}

/// Escapes text from a store or a peer, such as the name of a candidate. Unescaped control
/// characters could rewrite the terminal or forge lines. Bidi controls could make one name look
/// like another.
pub use tenure::internals::plain;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn control_characters_are_escaped() {
        assert_eq!(plain("worker-7 größe 漢"), "worker-7 größe 漢");
        assert_eq!(plain("a\nb\x1b[2J\u{9b}c"), "a\\nb\\u{1b}[2J\\u{9b}c");
    }

    #[test]
    fn regression_escaped_json_parses_to_the_same_value() {
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

    /// Before the fix, bidi controls in a name made a terminal show the rest of the line backwards.
    #[test]
    fn regression_bidi_controls_are_escaped() {
        assert_eq!(plain("a\u{202e}b\u{2066}c\u{2028}d"), "a\\u{202e}b\\u{2066}c\\u{2028}d");
        assert_eq!(plain("שלום"), "שלום", "letters are not escaped");
    }
}
