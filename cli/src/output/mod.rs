//! The output of the command: stdout, stderr and logs.

pub mod columns;
pub mod logs;
pub mod print;
pub mod progress;
pub mod stderr;
pub mod watcher;
