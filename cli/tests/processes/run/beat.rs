//! Commands that repeatedly write a *beat*, a line with the time, to a file, and functions that
//! read the beats.

use std::ffi::OsString;
use std::fs::{self, File};
use std::io::Write as _;
use std::path::Path;

use tenure_testkit::command::scene::{Candidate, Scene};
use tenure_testkit::command::{eventually, now, pause};

/// A line with a time at which the command was alive.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Beat {
    pub epoch: u64,
    pub name: String,
    /// Time on the boot clock at which the command wrote the beat.
    pub at_ns: u128,
}

/// Starts a candidate whose command is this test program. The command writes beats until it is
/// killed.
pub fn beating(scene: &Scene, name: &str, options: &[&str]) -> Candidate {
    let mut command = scene.run(name, options);
    command.arg("--").arg(std::env::current_exe().expect("a path"));
    command.args(["--exact", "run::beats", "--nocapture", "--test-threads=1"]);
    command.env(BEATS, scene.path(""));
    scene.start(name, command)
}

/// Returns the beats in this file, in the order in which the commands wrote them.
pub fn beats(scene: &Scene, file: &str) -> Vec<Beat> {
    let text = fs::read_to_string(scene.path(file)).unwrap_or_default();
    // The last line may be incomplete, so this function ignores it.
    let whole = text.rfind('\n').map_or("", |end| &text[..end]);
    whole.lines().map(Beat::parse).collect()
}

/// Waits for a beat with a greater epoch than `epoch`, and returns the last beat.
pub fn beat_above(scene: &Scene, epoch: u64) -> Beat {
    let mut last = None;
    eventually(&format!("a command runs in an epoch above {epoch}"), || {
        last = beats(scene, "beats").pop().filter(|beat| beat.epoch > epoch);
        last.is_some()
    });
    last.expect("the poll ends when a beat is found")
}

impl Beat {
    fn parse(line: &str) -> Beat {
        let words: Vec<&str> = line.split(' ').collect();
        let [epoch, name, at_ns] = words[..] else { panic!("a torn line: {line:?}") };
        Beat {
            epoch: epoch.parse().expect("a number"),
            name: name.to_owned(),
            at_ns: at_ns.parse().expect("a number"),
        }
    }
}

/// Environment variable that makes this test program act as the command. The value is the directory
/// of the command's files.
pub const BEATS: &str = "TENURE_TEST_BEATS";

/// Acts as the command of a leader: writes beats until the process is killed. Each beat goes to the
/// log `beats`, and also to the log `fenced`. If `fenced` has a beat of a greater epoch, the beat
/// goes to the log `refused` instead of `fenced`.
pub fn beat(dir: OsString) {
    let dir = Path::new(&dir);
    let variable = |name| std::env::var(name).expect("tenure sets the variable");
    let (epoch, name) = (variable("TENURE_EPOCH"), variable("TENURE_NAME"));
    let own: u64 = epoch.parse().expect("a number");
    let append = |file: &str, line: &str| {
        let mut file =
            File::options().create(true).append(true).open(dir.join(file)).expect("a file");
        file.write_all(line.as_bytes()).expect("a short line");
    };
    let fence = File::create(dir.join("fence.lock")).expect("a file");
    loop {
        append("beats", &format!("{epoch} {name} {}\n", now().boot.as_nanos()));
        fence.lock().expect("a lock");
        let text = fs::read_to_string(dir.join("fenced")).unwrap_or_default();
        let greatest = text.lines().last().and_then(|line| line.split(' ').next()?.parse().ok());
        let file = if greatest > Some(own) { "refused" } else { "fenced" };
        append(file, &format!("{epoch} {name} {}\n", now().boot.as_nanos()));
        fence.unlock().expect("the file can be unlocked");
        pause(20);
    }
}
