//! The settings of an election, and the relations between them.

use std::time::Duration;

use serde_json::Value;

use crate::epoch::Epoch;
use crate::error::{Error, ErrorKind};
use crate::protocol::layout::Layout;
use crate::protocol::lease::Drift;
use crate::protocol::message::Nonce;
use crate::record::{MAX_WRITTEN_BYTES, Record, Validity};

const MIN_VALIDITY: Duration = Duration::from_millis(100);
const MAX_VALIDITY: Duration = Duration::from_secs(24 * 60 * 60);
/// Of intervals and timeouts. A process sends at most so many requests as fit.
const MIN_INTERVAL: Duration = Duration::from_millis(10);
const MAX_DELAY: Duration = MAX_VALIDITY;
/// Some `expires_at` with as many digits as any has.
const MAX_EXPIRY: Duration = Duration::new(253_402_300_799, 123_456_789);
const MIN_STORE_CLOCK_MARGIN: Duration = Duration::from_secs(2);
const MAX_DRIFT: f64 = 0.5;
const DEFAULT_DRIFT: f64 = 0.01;
const DEFAULT_RETRY_DENIED: Duration = Duration::from_secs(10);
const MAX_NAME_BYTES: usize = 256;
/// The longest reason of an operator, in bytes.
const MAX_REASON: usize = 1_000;
/// Of data. Parsers of JSON refuse what nests deeper than some 128 levels, the record's own among
/// them.
pub(crate) const MAX_DATA_LEVELS: usize = 100;

/// The builder's settings; those that are `None` follow from the validity.
#[derive(Debug, Clone)]
pub(crate) struct Settings {
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
    /// The part of the data that a seal keeps.
    pub(crate) kept_in_seals: fn(&Value) -> Value,
}

/// When a follower looks at the leader's record.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Polling {
    /// Six times a validity.
    #[default]
    Usual,
    Every(Duration),
    /// When the lease would lapse, and not before.
    AtLapse,
}

impl Default for Settings {
    fn default() -> Settings {
        Settings {
            layout: Layout::default(),
            name: None,
            reason: None,
            name_is_unique: false,
            never_paused: false,
            validity: Duration::from_secs(30),
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

/// Settings that fit together.
#[derive(Debug, Clone)]
pub(crate) struct Config {
    pub(crate) layout: Layout,
    pub(crate) name: String,
    pub(crate) reason: Option<String>,
    pub(crate) name_is_unique: bool,
    pub(crate) never_paused: bool,
    pub(crate) validity: Duration,
    pub(crate) renew_interval: Duration,
    pub(crate) poll_interval: Duration,
    /// The followed record is looked at when its lease would lapse, and not before.
    pub(crate) poll_at_lapse: bool,
    /// Up to how long a candidate backs off while one leader leads.
    pub(crate) poll_backoff: Option<Duration>,
    pub(crate) request_timeout: Duration,
    pub(crate) drift: Drift,
    pub(crate) store_clock_margin: Option<Duration>,
    pub(crate) verify_renewals: bool,
    pub(crate) takeover_delay: Duration,
    pub(crate) priority_delay: Duration,
    pub(crate) check_store: bool,
    /// `None`: without an end.
    pub(crate) retry_denied: Option<Duration>,
    pub(crate) resign_on_drop: bool,
    pub(crate) data: Value,
    pub(crate) kept_in_seals: fn(&Value) -> Value,
}

impl Config {
    /// Refuses what cannot work, with the numbers.
    pub(crate) fn new(settings: Settings) -> Result<Config, Error> {
        let validity = settings.validity;
        let config = Config {
            layout: settings.layout,
            name: settings.name.unwrap_or_else(default_name),
            reason: settings.reason,
            name_is_unique: settings.name_is_unique,
            never_paused: settings.never_paused,
            validity,
            renew_interval: settings.renew_interval.unwrap_or(validity / 3),
            poll_interval: match settings.polling {
                Polling::Every(interval) => interval,
                Polling::Usual | Polling::AtLapse => validity / 6,
            },
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

    /// Refuses a name that no candidate can have.
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
                "a validity of {validity:?} is not possible: it is {MIN_VALIDITY:?} to \
                 {MAX_VALIDITY:?}, in whole milliseconds"
            ));
        }
        let most = *validity / 5;
        if !(MIN_INTERVAL..=most).contains(request_timeout) {
            return refuse(format!(
                "a request_timeout of {request_timeout:?} is not possible: with a validity of \
                 {validity:?} it is {MIN_INTERVAL:?} to {most:?} (validity / 5)"
            ));
        }
        let needed = renew_interval.saturating_add(*request_timeout * 2);
        if *renew_interval < MIN_INTERVAL {
            return refuse(format!(
                "a renew_interval of {renew_interval:?} is not possible: it is at least \
                 {MIN_INTERVAL:?}"
            ));
        }
        if needed > *validity {
            return refuse(format!(
                "a renew_interval of {renew_interval:?} leaves no room for a renewal and its \
                 retry: with two requests of up to {request_timeout:?} each it takes {needed:?} of \
                 a validity of {validity:?}"
            ));
        }
        if !(MIN_INTERVAL..=*validity).contains(poll_interval) {
            return refuse(format!(
                "a poll_interval of {poll_interval:?} is not possible: with a validity of \
                 {validity:?} it is {MIN_INTERVAL:?} to {validity:?}"
            ));
        }
        if let Some(longest) = self.poll_backoff {
            if self.poll_at_lapse {
                return refuse(format!(
                    "a poll_backoff of {longest:?} is not possible with a poll_interval of None: the \
                     candidate looks when the lease would lapse, and not before"
                ));
            }
            if !(*poll_interval..=*validity).contains(&longest) {
                return refuse(format!(
                    "a poll_backoff of {longest:?} is not possible: with a poll_interval of \
                     {poll_interval:?} and a validity of {validity:?} it lies between the two"
                ));
            }
        }
        if let Some(margin) = self.store_clock_margin.filter(|m| *m < MIN_STORE_CLOCK_MARGIN) {
            return refuse(format!(
                "a store_clock_margin of {margin:?} is not possible: the store's dates have whole \
                 seconds, so it is at least {MIN_STORE_CLOCK_MARGIN:?}"
            ));
        }
        for (what, delay) in
            [("takeover_delay", self.takeover_delay), ("priority_delay", self.priority_delay)]
        {
            if delay > MAX_DELAY {
                return refuse(format!(
                    "a {what} of {delay:?} is not possible: it is at most {MAX_DELAY:?}"
                ));
            }
        }
        Ok(())
    }

    /// Refuses data that would make the record too long, before anything is sent.
    pub(crate) fn check_data(&self, data: &Value) -> Result<(), Error> {
        if nests_beyond(data, MAX_DATA_LEVELS) {
            return refuse(format!("the data nests deeper than {MAX_DATA_LEVELS} levels"));
        }
        let mut record = self.record(Nonce::from_bits(0), u64::MAX, data.clone());
        record.elected_at = Some(chrono::DateTime::<chrono::Utc>::MAX_UTC);
        record.renewed_at = record.elected_at;
        let length = record.encode(self.layout, Epoch::MAX, MAX_EXPIRY).len();
        if length > MAX_WRITTEN_BYTES {
            return refuse(format!(
                "the data makes a record of {length} bytes; at most {MAX_WRITTEN_BYTES} are written"
            ));
        }
        Ok(())
    }

    /// The body that this candidate writes into its epoch object.
    pub(crate) fn record(&self, nonce: Nonce, heartbeat: u64, data: Value) -> Record {
        let millis = u64::try_from(self.validity.as_millis()).unwrap_or(u64::MAX);
        Record {
            validity_ms: Validity::Millis(millis),
            candidate: Some(self.name.clone()),
            nonce: Some(nonce),
            heartbeat,
            data,
            ..Record::blank()
        }
    }
}

fn drift(ratio: f64) -> Result<Drift, Error> {
    if !(0.0..=MAX_DRIFT).contains(&ratio) {
        return refuse(format!(
            "a clock_drift_max of {ratio} is not possible: it is a ratio from 0 to {MAX_DRIFT}"
        ));
    }
    // At most 500,000, so the conversion is exact enough and never wraps.
    Ok(Drift::from_ppm((ratio * 1e6).ceil() as u32))
}

/// Whether arrays and objects lie in each other more than so many levels deep.
pub(crate) fn nests_beyond(data: &Value, levels: usize) -> bool {
    let Some(below) = levels.checked_sub(1) else { return data.is_array() || data.is_object() };
    match data {
        Value::Array(items) => items.iter().any(|it| nests_beyond(it, below)),
        Value::Object(fields) => fields.values().any(|it| nests_beyond(it, below)),
        _ => false,
    }
}

/// A name for people; nothing depends on it being unique.
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
mod tests {
    use super::*;

    fn seconds(s: u64) -> Duration {
        Duration::from_secs(s)
    }

    fn refused(change: impl FnOnce(&mut Settings)) -> String {
        let mut settings = Settings::default();
        change(&mut settings);
        let error = Config::new(settings).expect_err("a wrong combination must be refused");
        assert_eq!(error.kind(), ErrorKind::InvalidInput);
        error.to_string()
    }

    #[test]
    fn the_defaults_follow_from_the_validity() {
        let config = Config::new(Settings::default()).unwrap();
        assert_eq!(config.renew_interval, seconds(10));
        assert_eq!(config.poll_interval, seconds(5));
        assert_eq!(config.request_timeout, seconds(6));
    }

    /// A nanosecond gave 292,245 requests a second.
    #[test]
    fn regression_intervals_have_a_lower_bound() {
        let short = Duration::from_nanos(9_999_999);
        for message in [
            refused(|s| s.renew_interval = Some(short)),
            refused(|s| s.polling = Polling::Every(short)),
            refused(|s| s.request_timeout = Some(short)),
        ] {
            assert!(message.contains("9.999999ms") && message.contains("10ms"), "{message}");
        }
        // What follows from the shortest validity is above it.
        let validity = MIN_VALIDITY;
        let settings = Settings { validity, ..Settings::default() };
        let config = Config::new(settings).unwrap();
        assert!(config.poll_interval >= MIN_INTERVAL && config.request_timeout >= MIN_INTERVAL);
    }

    #[test]
    fn wrong_combinations_are_refused_with_the_numbers() {
        assert!(refused(|s| s.validity = Duration::from_millis(99)).contains("99ms"));
        assert!(refused(|s| s.validity = Duration::from_micros(100_500)).contains("100.5ms"));
        assert!(refused(|s| s.validity = seconds(86_401)).contains("86401s"));
        assert!(refused(|s| s.request_timeout = Some(seconds(7))).contains("10ms to 6s"));
        assert!(refused(|s| s.request_timeout = Some(Duration::ZERO)).contains("10ms to 6s"));
        let message = refused(|s| s.renew_interval = Some(seconds(19)));
        assert!(message.contains("19s") && message.contains("31s") && message.contains("30s"));
        assert!(refused(|s| s.renew_interval = Some(Duration::ZERO)).contains("0ns"));
        assert!(refused(|s| s.polling = Polling::Every(seconds(31))).contains("31s"));
        assert!(refused(|s| s.polling = Polling::Every(Duration::ZERO)).contains("0ns"));
        let message = refused(|s| s.poll_backoff = Some(seconds(4)));
        assert!(message.contains("4s") && message.contains("5s") && message.contains("30s"));
        assert!(refused(|s| s.poll_backoff = Some(seconds(31))).contains("31s"));
        let message =
            refused(|s| (s.polling, s.poll_backoff) = (Polling::AtLapse, Some(seconds(9))));
        assert!(message.contains("9s") && message.contains("None"), "{message}");
        assert!(refused(|s| s.clock_drift_max = 0.6).contains("0.6"));
        assert!(refused(|s| s.clock_drift_max = f64::NAN).contains("NaN"));
        assert!(refused(|s| s.clock_drift_max = -0.1).contains("-0.1"));
        assert!(refused(|s| s.store_clock_margin = Some(seconds(1))).contains("1s"));
        assert!(refused(|s| s.takeover_delay = seconds(100_000)).contains("100000s"));
        assert!(refused(|s| s.priority_delay = seconds(100_000)).contains("100000s"));
        assert!(refused(|s| s.name = Some(String::new())).contains("name"));
        assert!(refused(|s| s.name = Some("a\nb".into())).contains("control"));
        assert!(refused(|s| s.data = "x".repeat(50_000).into()).contains("49152"));
    }
}
