//! The exit codes of the command, after sysexits.h. Without `--forever`, `run` otherwise passes on
//! the code of CMD.

use tenure::store::StoreError;
use tenure::{Error, ErrorKind};

/// `--exit-code` of `status` and `group status` alone: no process leads, or a partition has no
/// owner.
pub const NOBODY: u8 = 1;
/// `run --forever` alone: CMD ended with a code other than 0. Codes of CMD would be taken for those
/// below.
pub const CMD_FAILED: u8 = 1;
/// The arguments or the settings are wrong; nothing was sent.
pub const USAGE: u8 = 64;
/// The store cannot be reached or does not exist.
pub const UNAVAILABLE: u8 = 69;
/// The store is unsafe, or an object in it cannot be trusted.
pub const UNSAFE: u8 = 70;
/// The operating system refused something, such as starting a process.
pub const OS: u8 = 71;
/// A precondition did not hold; nothing was changed.
pub const REFUSED: u8 = 73;
/// The lease was lost or at risk, and CMD was stopped for it.
pub const LEASE_LOST: u8 = 75;
/// Somebody else leads, and `run --try` does not wait.
pub const BUSY: u8 = 76;
/// The store denied access.
pub const ACCESS_DENIED: u8 = 77;

/// All of them: each has its row in docs/reference/errors.md.
pub const CODES: [u8; 9] =
    [NOBODY, USAGE, UNAVAILABLE, UNSAFE, OS, REFUSED, LEASE_LOST, BUSY, ACCESS_DENIED];

/// The end of the command, with a remedy in one line.
#[derive(Debug)]
pub struct Failure {
    pub code: u8,
    pub why: String,
    /// The machine's metadata service has refused. It may need a minute after a start.
    pub of_the_machine: bool,
}

impl Failure {
    pub fn new(code: u8, why: impl Into<String>) -> Failure {
        debug_assert!(CODES.contains(&code) || (126..=127).contains(&code), "no row for {code}");
        Failure { code, why: why.into(), of_the_machine: false }
    }

    /// Whether the same may succeed later, without other arguments or settings.
    pub fn may_pass(&self) -> bool {
        matches!(self.code, UNAVAILABLE | ACCESS_DENIED)
    }

    fn of(kind: ErrorKind, what: &str) -> Failure {
        Failure::new(code_of(kind), format!("{what}{}", remedy(kind)))
    }
}

impl From<Error> for Failure {
    fn from(error: Error) -> Failure {
        let of_the_machine = error.is_of_the_machine();
        Failure { of_the_machine, ..Failure::of(error.kind(), &error.to_string()) }
    }
}

impl From<StoreError> for Failure {
    fn from(error: StoreError) -> Failure {
        Failure::of(error.kind().into(), &error.to_string())
    }
}

/// The exit code for an error of the library.
pub fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidInput | ErrorKind::NoRuntime => USAGE,
        ErrorKind::AccessDenied => ACCESS_DENIED,
        ErrorKind::NoSuchStore | ErrorKind::Unavailable => UNAVAILABLE,
        ErrorKind::LeadershipLost => LEASE_LOST,
        // Corrupt, too new, exhausted, deleted: each needs a person to look at the store first.
        _ => UNSAFE,
    }
}

/// The remedy, for errors of the library without one.
fn remedy(kind: ErrorKind) -> &'static str {
    match kind {
        ErrorKind::Unavailable => "; see that the store can be reached, and try again",
        ErrorKind::RecordTooNew => "; use the version of tenure that wrote it, or a later one",
        ErrorKind::EpochsExhausted => "; go on under another prefix, with guarded resources reset",
        _ => "",
    }
}
