//! `--data-file`: reads the data of a leader from a file, and publishes the data again after each
//! change of the file.

use std::convert::Infallible;
use std::fs::File;
use std::io::{self, Read as _};
use std::path::{Path, PathBuf};
use std::time::Duration;

use serde_json::Value;
use tenure::Leadership;
use tracing::{info, warn};

use crate::output::print::plain;
use crate::process::timer::pause;
use crate::store::patience::on_a_thread;

/// Interval between two reads of the file.
const LOOK_EVERY: Duration = Duration::from_secs(1);
/// Maximum length of the file in bytes. No record can hold more data.
const MOST_BYTES: u64 = 48 * 1024;

/// Returns the JSON in the data file, or the reason why the file is unusable.
pub fn read(path: &Path) -> Result<Value, String> {
    let shown = plain(&path.to_string_lossy());
    let mut text = Vec::new();
    // Only a regular file is opened, because opening or reading a pipe may block forever.
    std::fs::metadata(path)
        .and_then(|found| match found.is_file() {
            true => File::open(path),
            false => Err(io::Error::other("not a regular file")),
        })
        .and_then(|file| file.take(MOST_BYTES + 1).read_to_end(&mut text))
        .map_err(|error| format!("cannot read the data file {shown}: {error}"))?;
    if text.len() as u64 > MOST_BYTES {
        return Err(format!("the data file {shown} has more than {MOST_BYTES} bytes"));
    }
    serde_json::from_slice(&text)
        .map_err(|error| format!("the data file {shown} is not JSON: {error}"))
}

/// Proclaims the contents of the file after each change. If the file cannot be read or the record
/// cannot be written, logs the error once, and retries every second.
pub async fn follow(path: Option<PathBuf>, leadership: &Leadership, mut said: Value) -> Infallible {
    let Some(path) = path else { return std::future::pending().await };
    let mut complained = None;
    loop {
        let why = match next(&path).await {
            Ok(data) if data == said => None,
            Ok(data) => match leadership.proclaim(data.clone()).await {
                Ok(()) => {
                    info!(outcome = "proclaimed", "the contents of the data file are published");
                    said = data;
                    None
                }
                Err(error) => Some(format!("cannot publish the data file: {error}")),
            },
            Err(why) => Some(why),
        };
        if let Some(why) = why.as_ref().filter(|_| why != complained) {
            warn!(outcome = "not_proclaimed", "{}", plain(why));
        }
        complained = why;
        pause(LOOK_EVERY).await;
    }
}

/// Reads the file on a separate thread, because the read hangs if the disk hangs.
async fn next(path: &Path) -> Result<Value, String> {
    let path = path.to_owned();
    let read = on_a_thread(move || read(&path));
    read.await.map_err(|error| format!("cannot read the data file: {error}"))?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_file_is_read_whole_or_refused() {
        let dir = tempfile::tempdir().expect("a directory");
        let file = dir.path().join("data");
        let reads = |text: &str| {
            std::fs::write(&file, text).expect("a file");
            read(&file)
        };
        assert_eq!(reads(r#"{"at": "10.0.0.7"}"#), Ok(serde_json::json!({"at": "10.0.0.7"})));
        assert!(reads("{").is_err_and(|why| why.contains("is not JSON")));
        assert!(reads("").is_err_and(|why| why.contains("is not JSON")));
        let long = format!("\"{}\"", "x".repeat(48 * 1024));
        assert!(reads(&long).is_err_and(|why| why.contains("more than 49152 bytes")));
        assert!(read(dir.path()).is_err_and(|why| why.contains("cannot read")));
    }

    /// Before the fix, `--data-file` accepted a pipe. If no process wrote to the pipe, the read
    /// blocked forever, and the leader published no later data.
    #[test]
    fn regression_a_pipe_is_refused_as_a_data_file() {
        let dir = tempfile::tempdir().expect("a directory");
        let pipe = dir.path().join("data");
        nix::unistd::mkfifo(&pipe, nix::sys::stat::Mode::S_IRWXU).expect("a pipe");
        // The write blocks until a reader opens the pipe, so the thread may outlive this test.
        let writer = pipe.clone();
        std::thread::spawn(move || std::fs::write(writer, "1"));
        assert!(read(&pipe).is_err_and(|why| why.contains("not a regular file")));
    }
}
