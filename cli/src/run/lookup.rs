//! Looks CMD up before the campaign: a command that cannot run must not be elected for.

use std::ffi::OsStr;
use std::os::unix::ffi::OsStrExt as _;
use std::path::{Path, PathBuf};

use nix::unistd::{AccessFlags, access};

use crate::exit::Failure;
use crate::group::{NOT_EXECUTABLE, NOT_FOUND};
use crate::print::plain;

/// Refuses a program that cannot be executed now, with the codes of a shell.
pub fn look_up(program: &OsStr, path: Option<&OsStr>) -> Result<(), Failure> {
    let name = plain(&program.to_string_lossy());
    let by_path = program.as_bytes().contains(&b'/');
    let candidates: Vec<PathBuf> = if by_path {
        vec![program.into()]
    } else {
        // Without a PATH the system has its own.
        let Some(path) = path else { return Ok(()) };
        std::env::split_paths(path).map(|directory| directory.join(program)).collect()
    };
    if candidates.iter().any(|file| is_executable(file)) {
        return Ok(());
    }
    if let Some(file) = candidates.iter().find(|file| file.is_file() || by_path && file.exists()) {
        let file = plain(&file.to_string_lossy());
        return Err(Failure::new(NOT_EXECUTABLE, format!("CMD cannot be executed: {file}")));
    }
    let place = if by_path { "" } else { " in PATH" };
    Err(Failure::new(NOT_FOUND, format!("CMD was not found{place}: {name}")))
}

fn is_executable(file: &Path) -> bool {
    access(file, AccessFlags::X_OK).is_ok() && !file.is_dir()
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::PermissionsExt as _;

    use super::*;

    fn code(program: &str, path: Option<&Path>) -> Option<u8> {
        look_up(program.as_ref(), path.map(Path::as_os_str)).err().map(|failure| failure.code)
    }

    #[test]
    fn regression_cmd_is_looked_up_as_a_shell_does() {
        let dir = tempfile::tempdir().expect("a directory");
        for (name, mode) in [("runs", 0o755), ("text", 0o644)] {
            let file = dir.path().join(name);
            fs::write(&file, "").expect("a file");
            fs::set_permissions(&file, fs::Permissions::from_mode(mode)).expect("it is ours");
        }
        let path = Some(dir.path());
        assert_eq!(code("runs", path), None);
        assert_eq!(code("text", path), Some(126));
        assert_eq!(code("missing", path), Some(127));
        assert_eq!(code("missing", None), None, "the system has a PATH of its own");
        let inside = |name: &str| dir.path().join(name).display().to_string();
        assert_eq!(code(&inside("runs"), None), None);
        assert_eq!(code(&inside("text"), None), Some(126));
        assert_eq!(code(&inside("missing"), None), Some(127));
        assert_eq!(code(&inside(""), None), Some(126), "a directory");
        assert_eq!(code("", path), Some(127));
    }
}
