//! CMD, hooks and signals: the processes that the verbs start, and this process itself.

pub mod cmd;
pub mod exec;
pub mod lock;
pub mod margins;
pub mod resign;
pub mod signals;
pub mod timer;
