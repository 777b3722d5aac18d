//! Logs, terminals and metrics.

mod logs;
mod metrics;
mod terminal;
