//! Tests of the settings.

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
fn defaults_follow_from_the_validity() {
    let config = Config::new(Settings::default()).unwrap();
    assert_eq!(config.renew_interval, seconds(10));
    assert_eq!(config.poll_interval, seconds(5));
    assert_eq!(config.request_timeout, seconds(6));
}

/// Before the fix, the intervals in the settings had no lower bound. A candidate with an
/// interval of one nanosecond sent 292,245 requests a second.
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
    // At the shortest validity, the default intervals are above the lower bound.
    let validity = MIN_VALIDITY;
    let settings = Settings { validity, ..Settings::default() };
    let config = Config::new(settings).unwrap();
    assert!(config.poll_interval >= MIN_INTERVAL && config.request_timeout >= MIN_INTERVAL);
}

#[test]
fn errors_of_wrong_combinations_contain_their_values() {
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
    let message = refused(|s| (s.polling, s.poll_backoff) = (Polling::AtLapse, Some(seconds(9))));
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
