//! The exit codes of the command, after sysexits.h. `run` without `--forever` also passes on the
//! exit code of CMD.

use tenure::store::StoreError;
use tenure::{Error, ErrorKind};

/// Only with `status` and `group status`. With `--exit-code`: the election is vacant, or the group
/// does not exist, has an unfinished restore, or has a partition without a live owner. With
/// `--last-period-within`: no recent period is completed.
pub const VACANT: u8 = 1;
/// Only with `wait`: the state was not reached before the timeout.
pub const NOT_REACHED: u8 = 1;
/// Only with `run --forever`: CMD ended with a code other than 0. This code replaces the code of
/// CMD, because a supervisor could confuse the code of CMD with the codes below.
pub const CMD_FAILED: u8 = 1;
/// The arguments or the settings are wrong; nothing was written.
pub const USAGE: u8 = 64;
/// The store cannot be reached or does not exist.
pub const UNAVAILABLE: u8 = 69;
/// The store is unsafe, or an object in it cannot be trusted.
pub const UNSAFE: u8 = 70;
/// The operating system refused an operation, such as the start of a process.
pub const OS: u8 = 71;
/// A precondition did not hold; nothing was changed.
pub const REFUSED: u8 = 73;
/// The lease was lost or given up. With `--once-per` also: the end of CMD could not be recorded.
pub const LEASE_LOST: u8 = 75;
/// Another candidate leads, and `run --try` does not wait, or the time of `run --wait` has passed.
pub const BUSY: u8 = 76;
/// The store denied access.
pub const ACCESS_DENIED: u8 = 77;

/// All exit codes. docs/reference/errors.md has a row for each.
pub const CODES: [u8; 9] =
    [VACANT, USAGE, UNAVAILABLE, UNSAFE, OS, REFUSED, LEASE_LOST, BUSY, ACCESS_DENIED];

/// A failure that ends the command: the exit code, and a line of text with a remedy.
#[derive(Debug, Clone)]
pub struct Failure {
    pub code: u8,
    pub why: String,
    /// True if the machine's metadata service refused the request. The service may refuse requests
    /// in the first minute after the machine has started.
    pub of_the_machine: bool,
}

impl Failure {
    pub fn new(code: u8, why: impl Into<String>) -> Failure {
        debug_assert!(
            CODES.contains(&code) || (126..=127).contains(&code),
            "exit code {code} is not in CODES"
        );
        Failure { code, why: why.into(), of_the_machine: false }
    }

    /// Returns whether a repetition of the command may succeed with the same arguments and
    /// settings.
    pub fn may_pass(&self) -> bool {
        matches!(self.code, UNAVAILABLE | ACCESS_DENIED)
    }

    fn of(kind: ErrorKind, message: &str) -> Failure {
        Failure::new(code_of(kind), format!("{message}{}", remedy(kind)))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let of_the_machine = error.is_of_the_machine();
        Failure { of_the_machine, ..Failure::of(error.kind(), &with_flags(&error.to_string())) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::of(error.kind().into(), &error.to_string())
    }
}

/// Settings of the library that are also flags. The names of the flags omit `_epochs` and
/// `_interval`.
const SETTINGS: &str = "clock_drift_max keep_epochs poll_backoff poll_interval priority_delay \
                        rebalance_delay renew_interval request_timeout store_clock_margin \
                        takeover_delay validity wait weight";

/// Names the flags in an error about a setting, and writes durations as a flag takes them.
fn with_flags(error: &str) -> String {
    let is_setting = |word: &str| SETTINGS.split(' ').any(|setting| setting == word);
    if !error.split(' ').next().is_some_and(is_setting) {
        return error.to_owned();
    }
    let word = |word: &str| {
        let bare = word.trim_matches(['(', ')', ',']);
        match bare.parse::<humantime::Duration>() {
            Ok(duration) if bare.ends_with('s') => word.replace(bare, &duration.to_string()),
            _ if is_setting(bare) => {
                let name = bare.trim_end_matches("_epochs").trim_end_matches("_interval");
                word.replace(bare, &format!("--{}", name.replace('_', "-")))
            }
            _ => word.to_owned(),
        }
    };
    let error = error.replace("a poll_interval of None", "--poll lapse");
    error.split(' ').map(word).collect::<Vec<_>>().join(" ")
}

/// Returns the exit code for an error of the library.
pub fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidInput | ErrorKind::NoRuntime => USAGE,
        ErrorKind::AccessDenied => ACCESS_DENIED,
        ErrorKind::NoSuchStore | ErrorKind::Unavailable => UNAVAILABLE,
        ErrorKind::LeadershipLost => LEASE_LOST,
        // A record is corrupt, too new or deleted, or the epochs are exhausted. An operator must
        // examine the store first.
        _ => UNSAFE,
    }
}

/// Returns the remedy for an error of this kind. The result is empty if the text of the library's
/// error already contains a remedy.
fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "; check the connection to the store, and try again",
        ErrorKind::RecordTooNew => "; use the version of tenure that wrote it, or a later one",
        ErrorKind::EpochsExhausted => {
            "; continue under another prefix, and reset the guarded resources"
        }
        _ => "",
    }
}
