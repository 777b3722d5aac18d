//! The processes that the verbs start, and the signals, locks and timers of this process.

pub mod app_health;
pub mod cmd;
pub mod exec;
pub mod lock;
pub mod margins;
pub mod resign;
pub mod signals;
pub mod systemd;
pub mod timer;
