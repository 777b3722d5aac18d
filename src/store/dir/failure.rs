//! Converts failed file operations into store errors.

use std::io::{self, ErrorKind};
use std::path::Path;

use nix::errno::Errno;

use crate::store::{Determinacy, StoreError, StoreErrorKind};

/// Returns the error of a failed file operation, with the operation, the path and the remedy.
pub(super) fn failed(
    tried: &str,
    path: &Path,
    determinacy: Determinacy,
    error: impl Into<io::Error>,
) -> StoreError {
    let error = error.into();
    let (kind, advice) = judge(&error);
    let path = path.display();
    StoreError::new(kind, determinacy, format!("cannot {tried} {path}: {error}{advice}"))
        .with_source(error)
}

/// Returns the error for a path whose file is not an object, such as a folder or a link.
pub(super) fn in_the_way(path: &Path, file_type: &str) -> StoreError {
    let message =
        format!("{} is {file_type}; objects must be regular files in real folders", path.display());
    StoreError::new(StoreErrorKind::Invalid, Determinacy::Determinate, message)
}

/// Adds a note to an error of the kind `AccessDenied`. The note says that all processes must run as
/// one user or as members of one group.
pub(super) fn not_taking_part(error: StoreError) -> StoreError {
    if error.kind() != StoreErrorKind::AccessDenied {
        return error;
    }
    let message = format!(
        "{}; all processes must run as one user, or with one group if all of them open the \
         directory for the group",
        error.message()
    );
    StoreError::new(error.kind(), error.determinacy(), message)
}

fn judge(error: &io::Error) -> (StoreErrorKind, &'static str) {
    if error.raw_os_error() == Some(Errno::ELOOP as i32) {
        return (StoreErrorKind::Invalid, "; symbolic links are not followed");
    }
    match error.kind() {
        ErrorKind::PermissionDenied => (
            StoreErrorKind::AccessDenied,
            "; the user of this process needs to read, write and search this directory",
        ),
        ErrorKind::ReadOnlyFilesystem => {
            (StoreErrorKind::AccessDenied, "; an election needs to write in this directory")
        }
        ErrorKind::StorageFull | ErrorKind::QuotaExceeded => {
            (StoreErrorKind::Transient, "; free some space on the disk")
        }
        ErrorKind::NotADirectory | ErrorKind::IsADirectory | ErrorKind::InvalidFilename => {
            (StoreErrorKind::Invalid, "")
        }
        ErrorKind::Unsupported => {
            (StoreErrorKind::Unsupported, "; use a directory on a local file system")
        }
        _ => (StoreErrorKind::Transient, ""),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_errno_has_a_remedy() {
        for (errno, kind, words) in [
            (Errno::EACCES, StoreErrorKind::AccessDenied, "needs to read"),
            (Errno::EPERM, StoreErrorKind::AccessDenied, "needs to read"),
            (Errno::EROFS, StoreErrorKind::AccessDenied, "write in this directory"),
            (Errno::ENOSPC, StoreErrorKind::Transient, "free some space"),
            (Errno::EDQUOT, StoreErrorKind::Transient, "free some space"),
            (Errno::ELOOP, StoreErrorKind::Invalid, "symbolic links"),
            (Errno::ENOTDIR, StoreErrorKind::Invalid, "directory"),
            (Errno::ENAMETOOLONG, StoreErrorKind::Invalid, "too long"),
            (Errno::ENOSYS, StoreErrorKind::Unsupported, "local file system"),
            (Errno::EMFILE, StoreErrorKind::Transient, "open files"),
            (Errno::EIO, StoreErrorKind::Transient, "error"),
        ] {
            let error = failed("write", Path::new("/data/a"), Determinacy::Determinate, errno);
            assert_eq!(error.kind(), kind, "{errno}");
            let message = error.to_string();
            assert!(message.contains("write /data/a"), "{message}");
            assert!(message.contains(words), "{errno}: {message}");
        }
    }
}
