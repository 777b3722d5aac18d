//! The exit codes of the command, after sysexits.h. `run` otherwise passes on the code of CMD.

use tenure::ErrorKind;

/// The arguments or the settings are wrong; nothing was sent.
pub const USAGE: u8 = 64;
/// The store cannot be reached or does not exist.
pub const UNAVAILABLE: u8 = 69;
/// The store is unsafe, or an object in it cannot be trusted.
pub const UNSAFE: u8 = 70;
/// The operating system refused something, such as starting a process.
pub const OS: u8 = 71;
/// The lease was lost or at risk, and CMD was stopped for it.
pub const LEASE_LOST: u8 = 75;
/// The store denied access.
pub const ACCESS_DENIED: u8 = 77;

/// The exit code for an error of the library.
pub fn code_of(kind: ErrorKind) -> u8 {
    match kind {
        ErrorKind::InvalidConfig => USAGE,
        ErrorKind::AccessDenied => ACCESS_DENIED,
        ErrorKind::NoSuchStore | ErrorKind::Unavailable => UNAVAILABLE,
        ErrorKind::LeadershipLost => LEASE_LOST,
        // Corrupt, too new, exhausted, deleted: each needs a person to look at the store first.
        _ => UNSAFE,
    }
}
