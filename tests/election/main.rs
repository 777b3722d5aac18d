//! Elections through the public API, in paused time.

mod across;
mod across_stores;
mod answers;
mod campaign;
mod cancel;
mod costs;
mod denials;
mod examples;
mod hand_over;
mod health;
mod hidden_epochs;
mod knobs;
mod leadership;
mod metrics;
mod observe;
mod operator;
mod runtimes;
mod short_attempts;
mod single_object;
mod spans;
mod store_check;
mod work;
mod work_cancelled;
