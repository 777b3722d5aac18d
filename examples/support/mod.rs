//! What the examples share: where they run, how they print, how they fail.
#![allow(dead_code, reason = "every example uses its own part of this")]

use std::fmt;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use tenure::Process;
use tenure::store::Store;

pub type Result<T> = std::result::Result<T, Failure>;

/// Where one run of an example keeps its objects.
pub struct Place {
    pub store: Arc<dyn Store>,
    /// A prefix that no run before has used.
    pub prefix: String,
    /// A lease of some seconds, so that a takeover is worth watching; longer where requests travel.
    pub validity: Duration,
    /// Removed with this value.
    folder: Option<tempfile::TempDir>,
}

impl Place {
    /// A temporary directory, or the bucket that an argument names.
    pub async fn from_args(example: &str) -> Result<Place> {
        match arguments()?.0 {
            None => Place::on_disk(example),
            Some(url) => Place::at(&url, example).await,
        }
    }

    #[cfg(unix)]
    fn on_disk(example: &str) -> Result<Place> {
        let folder = tempfile::Builder::new().prefix(&format!("tenure-{example}-")).tempdir()?;
        Ok(Place {
            store: Arc::new(tenure::store::DirStore::open(folder.path())?),
            prefix: example.to_owned(),
            validity: Duration::from_secs(2),
            folder: Some(folder),
        })
    }

    #[cfg(not(unix))]
    fn on_disk(_: &str) -> Result<Place> {
        fail("there is no directory store on this system; name a bucket: s3://bucket/prefix")
    }

    async fn at(url: &str, example: &str) -> Result<Place> {
        let (store, prefix) = tenure::store::open(url).await?;
        let prefix = prefix.trim_end_matches('/');
        // A prefix is never used again once its objects are gone, so every run has its own.
        let run = Process::system().now().time_of_day().format("%Y%m%dT%H%M%S%.3fZ");
        let slash = if prefix.is_empty() { "" } else { "/" };
        Ok(Place {
            store,
            prefix: format!("{prefix}{slash}{example}-{run}"),
            validity: Duration::from_secs(5),
            folder: None,
        })
    }
}

/// Where to draw what has happened: `--svg FILE`.
pub fn svg_file() -> Result<Option<PathBuf>> {
    Ok(arguments()?.1)
}

fn arguments() -> Result<(Option<String>, Option<PathBuf>)> {
    let (mut place, mut svg) = (None, None);
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        match (argument.as_str(), arguments.len()) {
            ("--svg", 0) => return fail("--svg takes a file: --svg history.svg"),
            ("--svg", _) => svg = arguments.next().map(PathBuf::from),
            _ => place = place.or(Some(argument)),
        }
    }
    Ok((place, svg))
}

impl fmt::Display for Place {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.folder {
            Some(folder) => write!(f, "{}", folder.path().display()),
            None => write!(f, "{}, below {}/, which stays", self.store.describe(), self.prefix),
        }
    }
}

/// Prints what happens: seconds since the start, who, what.
#[derive(Clone, Copy)]
pub struct Timeline {
    start: Duration,
}

impl Timeline {
    pub fn start() -> Timeline {
        println!("\n    time  who       what");
        Timeline { start: Process::system().now().boot }
    }

    /// Since the start.
    pub fn now(self) -> Duration {
        Process::system().now().boot.saturating_sub(self.start)
    }

    pub fn say(self, who: &str, what: impl fmt::Display) {
        println!("{:>6.2} s  {who:<8}  {what}", self.now().as_secs_f64());
    }
}

/// Why an example failed. `main` prints it as it is written.
pub struct Failure(String);

pub fn fail<T>(why: impl Into<String>) -> Result<T> {
    Err(Failure(why.into()))
}

impl fmt::Debug for Failure {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl<E: std::error::Error> From<E> for Failure {
    fn from(error: E) -> Failure {
        Failure(error.to_string())
    }
}
