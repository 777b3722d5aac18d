//! Tests of log lines, of the output on terminals, and of metrics.

mod logs;
mod metrics;
mod terminal;
