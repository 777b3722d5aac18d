//! The settings of an election, and their validation.

use std::time::Duration;

use serde_json::Value;

use crate::driver::intervals::{
    DEFAULT_VALIDITY, observer_poll_interval, poll_interval, renew_interval,
};
use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::protocol::lease::Drift;
use crate::protocol::message::Nonce;
use crate::record::{ACROSS_FORMAT, FORMAT, Formats, MAX_WRITTEN_BYTES, Record, Validity};

const MIN_VALIDITY: Duration = Duration::from_millis(100);
const MAX_VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);
/// Minimum of each interval and each timeout. This minimum bounds the request rate of a process.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = MAX_VALIDITY;
/// The value of `expires_at` with the most digits. A record with this value must not be too long.
const MAX_EXPIRY: Duration = Duration::new(253_402_300_799, 123_456_789);
const MIN_STORE_CLOCK_MARGIN: Duration = Duration::from_secs(2);
const MAX_DRIFT: f64 = 0.5;
const DEFAULT_DRIFT: f64 = 0.01;
const DEFAULT_RETRY_DENIED: Duration = Duration::from_secs(10);
const MAX_NAME_BYTES: usize = 256;
/// Maximum length of an operator's reason, in bytes.
const MAX_REASON: usize = 1_000;
/// Maximum nesting of data. JSON parsers refuse more than about 128 levels in total, and the record
/// adds some levels, so data may have fewer levels.
pub(crate) const MAX_DATA_LEVELS: usize = 100;

/// The settings of the builder. An interval or timeout of `None` means a default that depends on
/// the validity.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
    /// True for an election across stores.
    pub(crate) across: bool,
    pub(crate) layout: Layout,
    pub(crate) name: Option<String>,
    pub(crate) reason: Option<String>,
    pub(crate) name_is_unique: bool,
    pub(crate) never_paused: bool,
    pub(crate) validity: Duration,
    pub(crate) renew_interval: Option<Duration>,
    pub(crate) polling: Polling,
    pub(crate) poll_backoff: Option<Duration>,
    pub(crate) request_timeout: Option<Duration>,
    pub(crate) clock_drift_max: f64,
    pub(crate) store_clock_margin: Option<Duration>,
    pub(crate) verify_renewals: bool,
    pub(crate) takeover_delay: Duration,
    pub(crate) priority_delay: Duration,
    pub(crate) check_store: bool,
    pub(crate) retry_denied: Option<Duration>,
    pub(crate) resign_on_drop: bool,
    pub(crate) data: Value,
    /// Function that takes the data of a record, and returns the part that a seal keeps.
    pub(crate) kept_in_seals: fn(&Value) -> Value,
}

/// The times at which a follower polls the leader's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Polling {
    /// The follower polls six times per validity of the lease.
    #[default]
    Usual,
    Every(Duration),
    /// The follower does not poll before the time at which the lease would lapse (PR4).
    AtLapse,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            across: false,
            layout: Layout::default(),
            name: None,
            reason: None,
            name_is_unique: false,
            never_paused: false,
            validity: DEFAULT_VALIDITY,
            renew_interval: None,
            polling: Polling::default(),
            poll_backoff: None,
            request_timeout: None,
            clock_drift_max: DEFAULT_DRIFT,
            store_clock_margin: None,
            verify_renewals: false,
            takeover_delay: Duration::ZERO,
            priority_delay: Duration::ZERO,
            check_store: true,
            retry_denied: Some(DEFAULT_RETRY_DENIED),
            resign_on_drop: false,
            data: Value::Null,
            kept_in_seals: |_| Value::Null,
        }
    }
}

/// Validated settings.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    /// True for an election across stores.
    pub(crate) across: bool,
    pub(crate) layout: Layout,
    pub(crate) name: String,
    pub(crate) reason: Option<String>,
    pub(crate) name_is_unique: bool,
    pub(crate) never_paused: bool,
    pub(crate) validity: Duration,
    pub(crate) renew_interval: Duration,
    pub(crate) poll_interval: Duration,
    /// True if the application did not call `poll_interval`. In this case, observers derive their
    /// interval from the validity of the leader.
    pub(crate) polls_by_default: bool,
    /// True if a candidate does not poll before the time at which the leader's lease would lapse
    /// (PR4).
    pub(crate) poll_at_lapse: bool,
    /// Maximum poll interval. Up to this maximum, the interval doubles with each poll of the same
    /// leader. `None` means a constant interval.
    pub(crate) poll_backoff: Option<Duration>,
    pub(crate) request_timeout: Duration,
    pub(crate) drift: Drift,
    pub(crate) store_clock_margin: Option<Duration>,
    pub(crate) verify_renewals: bool,
    pub(crate) takeover_delay: Duration,
    pub(crate) priority_delay: Duration,
    pub(crate) check_store: bool,
    /// Time for which denied requests are retried, or `None` for no limit (E17).
    pub(crate) retry_denied: Option<Duration>,
    pub(crate) resign_on_drop: bool,
    pub(crate) data: Value,
    pub(crate) kept_in_seals: fn(&Value) -> Value,
}

impl Config {
    /// Validates the settings. If two settings contradict each other, the error contains their
    /// values.
    pub(crate) fn new(settings: Settings) -> Result<Config, Error> {
        let validity = settings.validity;
        let config = Config {
            across: settings.across,
            layout: settings.layout,
            name: settings.name.unwrap_or_else(default_name),
            reason: settings.reason,
            name_is_unique: settings.name_is_unique,
            never_paused: settings.never_paused,
            validity,
            renew_interval: settings.renew_interval.unwrap_or(renew_interval(validity)),
            poll_interval: match settings.polling {
                Polling::Every(interval) => interval,
                Polling::Usual | Polling::AtLapse => poll_interval(validity),
            },
            polls_by_default: settings.polling == Polling::Usual,
            poll_at_lapse: settings.polling == Polling::AtLapse,
            poll_backoff: settings.poll_backoff,
            request_timeout: settings.request_timeout.unwrap_or(validity / 5),
            drift: drift(settings.clock_drift_max)?,
            store_clock_margin: settings.store_clock_margin,
            verify_renewals: settings.verify_renewals,
            takeover_delay: settings.takeover_delay,
            priority_delay: settings.priority_delay,
            check_store: settings.check_store,
            retry_denied: settings.retry_denied,
            resign_on_drop: settings.resign_on_drop,
            data: settings.data,
            kept_in_seals: settings.kept_in_seals,
        };
        Config::check_name(&config.name)?;
        if let Some(length) = config.reason.as_ref().map(String::len).filter(|it| *it > MAX_REASON)
        {
            let why = format!("the reason must have at most {MAX_REASON} bytes, got {length}");
            return Err(Error::new(ErrorKind::InvalidInput, why));
        }
        config.check_times()?;
        config.check_data(&config.data)?;
        Ok(config)
    }

    /// Returns the time between two polls of an observer that follows a lease of this validity.
    pub(crate) fn poll_interval_for(&self, validity: Option<Duration>) -> Duration {
        match validity.filter(|_| self.polls_by_default) {
            Some(validity) => observer_poll_interval(validity, self.poll_interval),
            None => self.poll_interval,
        }
    }

    /// Refuses settings that an election across this number of stores cannot have.
    pub(crate) fn check_across(&self, stores: usize) -> Result<(), Error> {
        if !matches!(stores, 3 | 5) {
            return refuse(format!("an election across stores needs 3 or 5 stores, got {stores}"));
        }
        for (setting, is_default) in [
            ("layout", self.layout == Layout::EpochFiles),
            ("name_is_unique", !self.name_is_unique),
            ("verify_renewals", !self.verify_renewals),
        ] {
            if !is_default {
                let why = "must keep its default in an election across stores";
                return refuse(format!("{setting} {why}"));
            }
        }
        Ok(())
    }

    /// Refuses a name that is empty, is too long or has control characters.
    pub(crate) fn check_name(name: &str) -> Result<(), Error> {
        if name.is_empty() || name.len() > MAX_NAME_BYTES || name.chars().any(char::is_control) {
            return refuse(format!(
                "the name {name:?} must have 1 to {MAX_NAME_BYTES} bytes and no control characters"
            ));
        }
        Ok(())
    }

    fn check_times(&self) -> Result<(), Error> {
        let Config { validity, renew_interval, poll_interval, request_timeout, .. } = self;
        if !(MIN_VALIDITY..=MAX_VALIDITY).contains(validity)
            || validity.subsec_nanos() % 1_000_000 != 0
        {
            return refuse(format!(
                "validity must be {MIN_VALIDITY:?} to {MAX_VALIDITY:?} in whole milliseconds, got \
                 {validity:?}"
            ));
        }
        let most = *validity / 5;
        if !(MIN_INTERVAL..=most).contains(request_timeout) {
            return refuse(format!(
                "request_timeout must be {MIN_INTERVAL:?} to {most:?} (validity / 5) with a \
                 validity of {validity:?}, got {request_timeout:?}"
            ));
        }
        let needed = renew_interval.saturating_add(*request_timeout * 2);
        if *renew_interval < MIN_INTERVAL {
            return refuse(format!(
                "renew_interval must be at least {MIN_INTERVAL:?}, got {renew_interval:?}"
            ));
        }
        if needed > *validity {
            return refuse(format!(
                "renew_interval plus two request timeouts, for a renewal and its retry, must be at \
                 most the validity of {validity:?}, got {renew_interval:?} + 2 × \
                 {request_timeout:?} = {needed:?}"
            ));
        }
        if !(MIN_INTERVAL..=*validity).contains(poll_interval) {
            return refuse(format!(
                "poll_interval must be {MIN_INTERVAL:?} to {validity:?} (validity), got \
                 {poll_interval:?}"
            ));
        }
        if let Some(longest) = self.poll_backoff {
            if self.poll_at_lapse {
                return refuse(format!(
                    "poll_backoff must be unset with a poll_interval of None, as the candidate \
                     then polls only when the lease would lapse, got {longest:?}"
                ));
            }
            if !(*poll_interval..=*validity).contains(&longest) {
                return refuse(format!(
                    "poll_backoff must be {poll_interval:?} (poll_interval) to {validity:?} \
                     (validity), got {longest:?}"
                ));
            }
        }
        if let Some(margin) = self.store_clock_margin.filter(|m| *m < MIN_STORE_CLOCK_MARGIN) {
            return refuse(format!(
                "store_clock_margin must be at least {MIN_STORE_CLOCK_MARGIN:?}, as the store's \
                 dates have whole seconds, got {margin:?}"
            ));
        }
        for (setting, delay) in
            [("takeover_delay", self.takeover_delay), ("priority_delay", self.priority_delay)]
        {
            if delay > MAX_DELAY {
                return refuse(format!("{setting} must be at most {MAX_DELAY:?}, got {delay:?}"));
            }
        }
        Ok(())
    }

    /// Refuses data that would make the record too long (B5).
    pub(crate) fn check_data(&self, data: &Value) -> Result<(), Error> {
        if nests_beyond(data, MAX_DATA_LEVELS) {
            return refuse(format!("the data must have at most {MAX_DATA_LEVELS} nested levels"));
        }
        let mut record = self.record(Nonce::from_bits(0), u64::MAX, data.clone());
        record.elected_at = Some(chrono::DateTime::<chrono::Utc>::MAX_UTC);
        record.renewed_at = record.elected_at;
        let length = record.encode(self.layout, Epoch::MAX, MAX_EXPIRY).len();
        if length > MAX_WRITTEN_BYTES {
            return refuse(format!(
                "the record with the data must have at most {MAX_WRITTEN_BYTES} bytes, got {length}"
            ));
        }
        Ok(())
    }

    /// Returns the record that this candidate writes.
    pub(crate) fn record(&self, nonce: Nonce, heartbeat: u64, data: Value) -> Record {
        let millis = u64::try_from(self.validity.as_millis()).unwrap_or(u64::MAX);
        Record {
            validity_ms: Validity::Millis(millis),
            candidate: Some(self.name.clone()),
            nonce: Some(nonce),
            heartbeat,
            data,
            ..self.blank()
        }
    }

    /// Returns an unsealed record of this election. The record has no writer, no nonce and no data.
    pub(crate) fn blank(&self) -> Record {
        let format = if self.across { ACROSS_FORMAT } else { FORMAT };
        Record { format, ..Record::blank() }
    }

    /// Returns the formats of this election's records.
    pub(crate) fn formats(&self) -> Formats {
        if self.across { Formats::Across } else { Formats::OneStore }
    }
}

fn drift(ratio: f64) -> Result<Drift, Error> {
    if !(0.0..=MAX_DRIFT).contains(&ratio) {
        return refuse(format!(
            "clock_drift_max must be a ratio from 0 to {MAX_DRIFT}, got {ratio}"
        ));
    }
    // The drift is at most 500,000 ppm, so the conversion to `u32` does not overflow.
    Ok(Drift::from_ppm((ratio * 1e6).ceil() as u32))
}

/// Returns true if arrays and objects are nested more than `levels` deep.
pub(crate) fn nests_beyond(data: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return data.is_array() || data.is_object() };
    match data {
        Value::Array(items) => items.iter().any(|it| nests_beyond(it, below)),
        Value::Object(fields) => fields.values().any(|it| nests_beyond(it, below)),
        _ => false,
    }
}

/// Returns the default display name of this process. The name need not be unique.
fn default_name() -> String {
    let host = std::env::var("HOSTNAME").unwrap_or_default();
    let host = host.trim();
    let host = if host.is_empty() { "candidate" } else { host };
    format!("{host}-{}", std::process::id())
}

fn refuse<T>(why: String) -> Result<T, Error> {
    Err(Error::new(ErrorKind::InvalidInput, why))
}

#[cfg(test)]
mod tests;
