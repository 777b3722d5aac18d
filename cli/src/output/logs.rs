//! Logs on stderr, as lines for people or as JSON. In the lines for people, events of the command
//! are short sentences, and events of the library show their fields.

use std::ffi::OsStr;
use std::fmt;
use std::io::{self, IsTerminal as _, Write};
use std::sync::OnceLock;
use std::time::Duration;

use clap::ValueEnum as _;
use serde_json::{Value, json};
use tenure::{Error, ErrorKind, Process};
use tracing::field::{Field, Visit};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::time::FormatTime;
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::print::{self, plain};
use super::stderr;
use crate::exit::Failure;

/// The format of lines on stderr.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, clap::ValueEnum)]
pub enum LogFormat {
    /// Lines for people
    #[default]
    Text,
    /// One JSON object per line, failures included
    Json,
}

impl LogFormat {
    /// Returns the log format that the arguments select, even if another argument is invalid.
    /// Ignores the arguments after `--`, because they belong to CMD.
    pub fn asked<'a>(arguments: impl IntoIterator<Item = &'a OsStr>) -> Option<LogFormat> {
        let mut asked = None;
        let mut before = OsStr::new("");
        for argument in arguments {
            if argument == "--" {
                break;
            }
            let text = argument.to_str().unwrap_or_default();
            let value = text.strip_prefix("--log-format=");
            let value = value.or((before == OPTION).then_some(text));
            asked = value.and_then(|value| LogFormat::from_str(value, false).ok()).or(asked);
            before = argument;
        }
        asked
    }

    /// Uses this format for all later lines on stderr, including the messages of panics.
    pub fn choose(self) {
        // The format is set once, at the start. Later calls of this function do not change it.
        let _ = CHOSEN.set(self);
        if self == LogFormat::Json {
            std::panic::set_hook(Box::new(|panic| {
                let message = panic.payload_as_str().unwrap_or("a panic without a message");
                let place = panic.location().map(ToString::to_string);
                say_json(&json!({ "message": message, "outcome": "panicked", "place": place }));
                stderr::flush();
            }));
        }
    }

    /// Returns the options that make the standby, the guard and the gate use this format.
    pub fn options(self) -> &'static [&'static str] {
        match self {
            LogFormat::Text => &[],
            LogFormat::Json => &[OPTION, "json"],
        }
    }
}

const OPTION: &str = "--log-format";

static CHOSEN: OnceLock<LogFormat> = OnceLock::new();

/// Returns the chosen format of the lines on stderr.
pub fn format() -> LogFormat {
    CHOSEN.get().copied().unwrap_or_default()
}

/// Starts the logs on stderr. Their level is `RUST_LOG`, or `default_level` if `RUST_LOG` is not
/// set.
pub fn start(default_level: &str) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            complain(&format!("RUST_LOG={text:?} is ignored: {error}"));
            EnvFilter::new(default_level)
        }),
        _ => EnvFilter::new(default_level),
    };
    let logs = tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_writer(|| Stderr)
        // The subscriber must not report its internal errors: if stderr is closed, the report would
        // panic, and the lease would be lost.
        .log_internal_errors(false);
    match format() {
        LogFormat::Text => logs.with_ansi(io::stderr().is_terminal()).event_format(Lines).init(),
        LogFormat::Json => logs.json().with_current_span(false).with_timer(Utc).init(),
    }
}

/// Writes a message to stderr as one line in the chosen format.
pub fn complain(message: &str) {
    match format() {
        LogFormat::Text => write(format!("tenure: {}\n", plain(message))),
        LogFormat::Json => say_json(&json!({ "message": message })),
    }
}

/// The partition in the stderr lines of a process that has not started the logs, such as the guard.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct LoggedPartition {
    /// Name of the partition, escaped for a terminal.
    #[arg(long, required = false, requires = "partition_epoch")]
    partition: String,
    #[arg(id = "partition_epoch", long = "partition-epoch", required = false)]
    #[arg(requires = "partition")]
    epoch: u64,
}

impl LoggedPartition {
    pub fn new(name: &str, epoch: u64) -> LoggedPartition {
        LoggedPartition { partition: plain(name), epoch }
    }

    /// Returns the arguments with which a child process gets this partition.
    pub fn arguments(&self) -> [String; 2] {
        let LoggedPartition { partition, epoch } = self;
        [format!("--partition={partition}"), format!("--partition-epoch={epoch}")]
    }
}

/// Writes an event to stderr in a process that has not started the logs. `outcome` is a stable word
/// for programs. Only JSON lines contain this word.
pub fn say(partition: Option<&LoggedPartition>, outcome: &'static str, message: &str) {
    match format() {
        LogFormat::Text => {
            let of = partition.map_or(String::new(), |LoggedPartition { partition, epoch }| {
                format!("partition={partition} epoch={epoch}: ")
            });
            write(format!("{}tenure: {of}{message}\n", time()));
        }
        LogFormat::Json => {
            let level = if outcome == "resigned" { "INFO" } else { "WARN" };
            let fields = json!({ "message": message, "outcome": outcome });
            write(json_line(level, &fields, partition));
        }
    }
}

/// Writes the reason and the exit code of a failure to stderr.
pub fn complain_of(failure: &Failure) {
    let Failure { code, why, .. } = failure;
    match format() {
        LogFormat::Text => complain(why),
        LogFormat::Json => {
            say_json(&json!({ "message": why, "outcome": "failed", "exit_code": code }));
        }
    }
}

/// Returns a line that says how many lines were dropped.
fn left_out(lines: u64) -> String {
    let message = format!("{lines} lines are left out here: stderr was not read");
    match format() {
        LogFormat::Text => format!("{}tenure: WARN {message}\n", time()),
        LogFormat::Json => json_line("WARN", &json!({ "message": message }), None),
    }
}

fn write(line: String) {
    stderr::write(line.into_bytes(), left_out);
}

/// Limits the warnings about errors of the store to one warning per minute, unless the kind of
/// error changes.
#[derive(Debug, Default)]
pub struct Throttle(Option<(Duration, ErrorKind)>);

impl Throttle {
    /// Returns whether to log this error. An error of another kind than the last one is always
    /// logged.
    pub fn is_due(&mut self, error: &Error) -> bool {
        let (now, kind) = (Process::system().now().boot, error.kind());
        let due = self.0.is_none_or(|(at, before)| {
            kind != before || now.saturating_sub(at) >= Duration::from_secs(60)
        });
        if due {
            self.0 = Some((now, kind));
        }
        due
    }
}

/// The destination of the logs. Each write contains whole lines.
struct Stderr;

impl Write for Stderr {
    fn write(&mut self, lines: &[u8]) -> io::Result<usize> {
        stderr::write(lines.to_vec(), left_out);
        Ok(lines.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Writes a line in the format of `tracing_subscriber`, even if the logs are not started or their
/// filter omits errors.
fn say_json(fields: &Value) {
    write(json_line("ERROR", fields, None));
}

fn json_line(level: &'static str, fields: &Value, partition: Option<&LoggedPartition>) -> String {
    let spans = partition.map(|LoggedPartition { partition, epoch }| {
        [json!({ "partition": partition, "epoch": epoch, "name": PARTITION_SPAN })]
    });
    let line = Line { timestamp: now(), level, fields, target: OWN, spans };
    format!("{}\n", print::json_line(&line))
}

fn time() -> impl fmt::Display {
    Process::system().now().time_of_day().format("%FT%TZ ")
}

/// A JSON line whose fields have the same order as the fields of `tracing_subscriber`.
#[derive(serde::Serialize)]
struct Line<'a> {
    timestamp: String,
    level: &'static str,
    fields: &'a Value,
    target: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    spans: Option<[Value; 1]>,
}

fn now() -> String {
    Process::system().now().time_of_day().format("%FT%T%.3fZ").to_string()
}

struct Utc;

impl FormatTime for Utc {
    fn format_time(&self, writer: &mut Writer<'_>) -> fmt::Result {
        writer.write_str(&now())
    }
}

/// Formats an event in a line such as `2026-11-20T23:12:00Z tenure: elected: epoch 3`. The text
/// after `tenure:` begins with the level, unless the level is INFO. For an event of a library other
/// than `tenure-groups`, the text also contains the target and the spans.
struct Lines;

impl<S, N> FormatEvent<S, N> for Lines
where
    S: Subscriber + for<'a> LookupSpan<'a>,
    N: for<'a> FormatFields<'a> + 'static,
{
    fn format_event(
        &self,
        context: &FmtContext<'_, S, N>,
        mut writer: Writer<'_>,
        event: &Event<'_>,
    ) -> fmt::Result {
        let metadata = event.metadata();
        write!(writer, "{}tenure: ", time())?;
        if *metadata.level() != Level::INFO {
            write!(writer, "{} ", metadata.level())?;
        }
        let spans = || context.event_scope().into_iter().flat_map(|scope| scope.from_root());
        let own = |target: &str| target.starts_with(OWN);
        let is_of_group = metadata.target().starts_with(GROUPS);
        if own(metadata.target()) || is_of_group {
            // The text contains these spans, because they distinguish concurrent events. The text
            // omits all other spans.
            for span in spans().filter(|span| [PARTITION_SPAN, SERVED_SPAN].contains(&span.name()))
            {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map_or("", |f| f.as_str());
                write!(writer, "{fields}: ")?;
            }
            // Such a span belongs to one group, so the text does not repeat the group.
            let has_group = spans().any(|span| [GROUP_SPAN, SERVED_SPAN].contains(&span.name()));
            let omitted = match (is_of_group, has_group) {
                (false, _) => &OMITTED[..1],
                (true, false) => &OMITTED[..3],
                (true, true) => &OMITTED[..],
            };
            let mut words = Words { text: String::new(), omitted };
            event.record(&mut words);
            return writeln!(writer, "{}", words.text);
        }
        write!(writer, "{}: ", metadata.target())?;
        // Only the spans of libraries are written, because the text format omits the spans of the
        // command.
        for span in spans().filter(|span| !own(span.metadata().target())) {
            let extensions = span.extensions();
            let fields = extensions.get::<FormattedFields<N>>().map_or("", |f| f.as_str());
            write!(writer, "{}{{{fields}}}: ", span.name())?;
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The name of the span around all work for one partition.
pub const PARTITION_SPAN: &str = "partition";
/// The name of the span around all work of `group run`.
pub const GROUP_SPAN: &str = "group";
/// The name of the span around all work of `serve` for one election or group.
pub const SERVED_SPAN: &str = "served";

/// Fields that the text omits. Events of the command omit the first field. Events of
/// `tenure-groups` omit the first three fields, because the message of a join names the member and
/// the session. They omit all four fields within a span of one group.
const OMITTED: [&str; 4] = ["outcome", "member", "session", "group"];

/// The message and the other fields of an event as text. The text omits the prefix of a group in a
/// directory, because it is empty.
struct Words {
    text: String,
    omitted: &'static [&'static str],
}

impl Visit for Words {
    fn record_debug(&mut self, field: &Field, value: &dyn fmt::Debug) {
        use std::fmt::Write as _;
        let Words { text, omitted } = self;
        let value = format!("{value:?}");
        // Writing to a String cannot fail.
        let _ = match field.name() {
            "group" if value == r#""""# => Ok(()),
            name if omitted.contains(&name) => Ok(()),
            "message" if text.is_empty() => write!(text, "{value}"),
            "message" => write!(text, " {value}"),
            name => write!(text, " {name}={value}"),
        };
    }
}

/// The targets of the command's events begin with this prefix.
const OWN: &str = "tenure_cli";
/// The targets of the events of `tenure-groups` begin with this prefix.
const GROUPS: &str = "tenure_groups";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_format_is_found_among_invalid_arguments() {
        let asked = |line: &str| LogFormat::asked(line.split(' ').map(OsStr::new));
        for json in ["--log-format json", "x --log-format=json y", "run --log-format json --"] {
            assert_eq!(asked(json), Some(LogFormat::Json), "{json}");
        }
        for text in ["--log-format text", "--log-format json --log-format=text"] {
            assert_eq!(asked(text), Some(LogFormat::Text), "{text}");
        }
        for nothing in ["", "json", "--log-format", "--log-format x", "-- --log-format json"] {
            assert_eq!(asked(nothing), None, "{nothing}");
        }
    }
}
