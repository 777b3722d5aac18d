//! The file that contains the epoch while CMD may run.
//!
//! The guard writes the file before CMD starts, and removes it when CMD ends or must end.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::{self, ErrorKind, Write as _};
use std::path::{Path, PathBuf};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

/// Maximum wait for the removal of the epoch file. The wait needs a limit, because the disk may
/// hang.
const MOST: Duration = Duration::from_secs(1);
/// Maximum number of retries with another random name. An attempt fails if a file with the random
/// name exists.
const NAMES_TRIED: u32 = 10;

/// The path of the epoch file, and the epoch that it contains.
#[derive(Debug, Clone, PartialEq, Eq, clap::Args)]
pub struct EpochFile {
    #[arg(long = "epoch-file", value_name = "PATH", required = false, requires = "epoch")]
    pub path: PathBuf,
    #[arg(long, required = false, requires = "path")]
    pub epoch: u64,
}

impl EpochFile {
    /// Returns the arguments with which a child process gets the epoch file.
    pub fn arguments(&self) -> [OsString; 2] {
        // The flag and the path are one argument, because the path may begin with a dash.
        let mut file = OsString::from("--epoch-file=");
        file.push(&self.path);
        [file, format!("--epoch={}", self.epoch).into()]
    }

    /// Writes the epoch atomically: a reader finds either the whole epoch or no file. The file is
    /// not synced, because the epoch does not survive a crash of the machine.
    pub fn write(&self) -> io::Result<()> {
        let (new, mut file) = create_beside(&self.path)?;
        let written = file
            .write_all(format!("{}\n", self.epoch).as_bytes())
            .and_then(|()| fs::rename(&new, &self.path));
        if written.is_err() {
            // The caller gets the error of the write. The error of this cleanup is less useful, so
            // it is ignored.
            let _ = fs::remove_file(&new);
        }
        written
    }

    /// Removes the file if it contains this epoch. A new thread removes the file, because a hanging
    /// disk must not delay the end of CMD. If no thread can be started, this call removes the file.
    pub fn remove(&self) -> Removal {
        self.remove_by(|work| {
            let thread = thread::Builder::new().name("epoch file".to_owned()).spawn(work);
            thread.map(drop)
        })
    }

    fn remove_by(&self, spawn: impl FnOnce(Box<dyn FnOnce() + Send>) -> io::Result<()>) -> Removal {
        let (done, is_done) = mpsc::channel::<()>();
        let own = self.clone();
        let in_thread = move || {
            let _ends_with_the_thread = done;
            own.remove_now();
        };
        if spawn(Box::new(in_thread)).is_err() {
            self.remove_now();
        }
        Removal(is_done)
    }

    fn remove_now(&self) {
        if holds(&self.path) == Ok(Some(self.epoch)) {
            // The error is ignored: the file no longer exists, or the system refuses the removal.
            let _ = fs::remove_file(&self.path);
        }
    }
}

/// Creates a file in the directory of `path`, with a random name. Never opens an existing file or
/// the symbolic link of another user.
fn create_beside(path: &Path) -> io::Result<(PathBuf, File)> {
    let mut tries = 0;
    loop {
        let mut new = path.to_owned().into_os_string();
        new.push(format!(".{:016x}.new", fastrand::u64(..)));
        match File::options().write(true).create_new(true).open(&new) {
            Err(error) if error.kind() == ErrorKind::AlreadyExists && tries < NAMES_TRIED => {
                tries += 1;
            }
            file => return file.map(|file| (new.into(), file)),
        }
    }
}

/// The removal of the epoch file on another thread.
pub struct Removal(mpsc::Receiver<()>);

impl Removal {
    /// Waits for the end of the removal, at most 1 s.
    pub fn wait(self) {
        // The thread sends no message, but the channel closes when the thread ends.
        let _ = self.0.recv_timeout(MOST);
    }
}

/// Removes an epoch file that a killed process or a crash of the machine has left. Refuses a path
/// that cannot be an epoch file, and a file with other content.
pub fn prepare(path: &Path) -> Result<(), String> {
    let shown = path.display();
    match holds(path) {
        Ok(None) => {}
        Ok(Some(_)) => fs::remove_file(path).map_err(|error| {
            format!("{shown} is an old epoch file and cannot be removed: {error}")
        })?,
        Err(why) => return Err(format!("{shown} {why}")),
    }
    let parent = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let parent = parent.unwrap_or(Path::new("."));
    match fs::metadata(parent) {
        Ok(found) if found.is_dir() && path.file_name().is_some() => Ok(()),
        Ok(_) => Err(format!("{shown} is not the path of a file in a directory")),
        Err(error) => Err(format!("{}: {error}", parent.display())),
    }
}

/// Returns the epoch that the file contains. Returns `None` if the file does not exist.
fn holds(path: &Path) -> Result<Option<u64>, String> {
    match fs::metadata(path) {
        Ok(found) if found.is_file() && found.len() <= 16 => {}
        Ok(_) => return Err("exists and contains no epoch".to_owned()),
        Err(error) if error.kind() == ErrorKind::NotFound => return Ok(None),
        Err(error) => return Err(format!("cannot be examined: {error}")),
    }
    let text = fs::read_to_string(path).map_err(|error| format!("cannot be read: {error}"))?;
    let epoch = text.strip_suffix('\n').and_then(|text| text.parse().ok());
    epoch.map(Some).ok_or_else(|| "exists and contains no epoch".to_owned())
}

#[cfg(test)]
mod tests {
    use std::os::unix::fs::symlink;

    use super::*;

    #[test]
    fn a_file_contains_its_epoch_until_its_removal() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("epoch");
        let [own, other] = [7, 8].map(|epoch| EpochFile { path: path.clone(), epoch });
        own.write().expect("a new file");
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "7\n");
        other.remove().wait();
        assert!(path.exists(), "the file belongs to another leader");
        other.write().expect("over the old one");
        own.remove().wait();
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "8\n");
        other.remove().wait();
        assert!(!path.exists());
        other.remove().wait();
        assert_eq!(fs::read_dir(dir.path()).expect("a directory").count(), 0, "no file is left");
        let nowhere = EpochFile { path: dir.path().join("no/epoch"), epoch: 7 };
        assert!(nowhere.write().is_err());
    }

    /// Before the fix, the name of the new file ended with the process number of the guard. A local
    /// user could predict the name and create a symbolic link with it. A guard that ran as root
    /// then overwrote the target of the link.
    #[test]
    fn regression_a_link_with_a_predictable_name_is_not_followed() {
        let dir = tempfile::tempdir().expect("a directory");
        let [path, precious] = ["epoch", "precious"].map(|name| dir.path().join(name));
        fs::write(&precious, "data").expect("a file");
        let foreseen = dir.path().join(format!("epoch.{}.new", std::process::id()));
        symlink(&precious, &foreseen).expect("a link");
        let file = EpochFile { path: path.clone(), epoch: 7 };
        file.write().expect("a new file");
        assert_eq!(fs::read_to_string(&precious).expect("the file exists"), "data");
        assert_eq!(fs::read_to_string(&path).expect("the file exists"), "7\n");
        // If the path itself is a symbolic link, the write replaces the link. Each write creates a
        // new file with a different random name.
        symlink(&precious, dir.path().join("link")).expect("a link");
        EpochFile { path: dir.path().join("link"), epoch: 8 }.write().expect("over the link");
        assert_eq!(fs::read_to_string(&precious).expect("the file exists"), "data");
        let names = [(), ()].map(|()| create_beside(&path).expect("a new file").0);
        assert_ne!(names[0], names[1]);
    }

    #[test]
    fn regression_the_file_is_removed_if_no_thread_can_be_started() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("epoch");
        let file = EpochFile { path: path.clone(), epoch: 7 };
        file.write().expect("a new file");
        file.remove_by(|_| Err(io::Error::other("no threads"))).wait();
        assert!(!path.exists());
    }

    #[test]
    fn prepare_removes_only_old_epoch_files() {
        let dir = tempfile::tempdir().expect("a directory");
        let path = dir.path().join("epoch");
        assert_eq!(prepare(&path), Ok(()));
        fs::write(&path, "12\n").expect("a file");
        assert_eq!(prepare(&path), Ok(()));
        assert!(!path.exists());
        for other in ["", "12", "a\n", "12\n\n", "99999999999999999\n"] {
            fs::write(&path, other).expect("a file");
            assert!(
                prepare(&path).is_err_and(|why| why.contains("contains no epoch")),
                "{other:?}"
            );
            assert!(path.exists());
        }
        assert!(prepare(dir.path()).is_err());
        let missing = prepare(&dir.path().join("no/epoch"));
        assert!(missing.is_err_and(|why| why.contains("No such file")));
    }
}
