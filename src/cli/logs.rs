//! Logs on stderr. What the command itself says is short; what the library says has its fields.

use std::fmt;
use std::io::{self, IsTerminal as _};

use tenure::{Clock as _, SystemClock};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::fmt::format::{FormatEvent, FormatFields, Writer};
use tracing_subscriber::fmt::{FmtContext, FormattedFields};
use tracing_subscriber::registry::LookupSpan;

use super::complain;

/// Starts the logs, at this level unless `RUST_LOG` says otherwise.
pub fn start(default_level: &str) {
    let filter = match std::env::var("RUST_LOG") {
        Ok(text) if !text.is_empty() => EnvFilter::try_new(&text).unwrap_or_else(|error| {
            complain(&format!("RUST_LOG={text:?} is ignored: {error}"));
            EnvFilter::new(default_level)
        }),
        _ => EnvFilter::new(default_level),
    };
    tracing_subscriber::fmt()
        .with_env_filter(filter)
        .with_ansi(io::stderr().is_terminal())
        .with_writer(io::stderr)
        // It would panic where stderr is closed, and take the lease along.
        .log_internal_errors(false)
        .event_format(Lines)
        .init();
}

/// `2026-11-20T23:12:00Z tenure: elected: epoch 3`, and after the time a level that is not INFO, and
/// a target and spans that are not the command's own.
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
        write!(writer, "{} tenure: ", SystemClock.now().time_of_day().format("%FT%TZ"))?;
        if *metadata.level() != Level::INFO {
            write!(writer, "{} ", metadata.level())?;
        }
        if !metadata.target().starts_with(OWN) {
            write!(writer, "{}: ", metadata.target())?;
            for span in context.event_scope().into_iter().flat_map(|scope| scope.from_root()) {
                let extensions = span.extensions();
                let fields = extensions.get::<FormattedFields<N>>().map_or("", |f| f.as_str());
                write!(writer, "{}{{{fields}}}: ", span.name())?;
            }
        }
        context.format_fields(writer.by_ref(), event)?;
        writeln!(writer)
    }
}

/// The target of what the command says itself.
const OWN: &str = "tenure::cli";
