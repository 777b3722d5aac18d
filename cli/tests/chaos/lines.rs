//! A log file of a test's process. Each line of the file is one JSON value.

use std::fs::{File, OpenOptions};
use std::io::Write as _;
use std::path::Path;
use std::sync::Arc;

use serde::Serialize;
use serde::de::DeserializeOwned;

#[derive(Clone)]
pub struct Log(Arc<File>);

impl Log {
    pub fn open(path: &Path) -> Log {
        let file = OpenOptions::new().create(true).append(true).open(path);
        Log(Arc::new(file.expect("the log opens")))
    }

    pub fn say(&self, line: &impl Serialize) {
        let text = serde_json::to_string(line).expect("a line is JSON") + "\n";
        // A single write keeps the line whole even if the process is killed during the call.
        (&*self.0).write_all(text.as_bytes()).expect("the log is writable");
    }
}

/// Returns the lines, except for a last line that a kill cut off.
pub fn read<T: DeserializeOwned>(path: &Path) -> Vec<T> {
    let text = std::fs::read_to_string(path).expect("the log is readable");
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(|line| serde_json::from_str(line).expect("a line is JSON")).collect()
}
