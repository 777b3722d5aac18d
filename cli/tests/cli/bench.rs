//! A directory with a store, and runs of the command on this store.

use std::fs;
use std::path::PathBuf;
use std::process::{Output, Stdio};

use assert_cmd::Command;
use serde_json::Value;
use tempfile::TempDir;
use unicode_width::UnicodeWidthStr as _;

use tenure_testkit::command::{PATIENCE, default_signals};

pub struct Bench {
    dir: TempDir,
}

/// The exit code, stdout and stderr of a run of the command.
#[derive(Debug)]
pub struct Said {
    pub code: i32,
    pub out: String,
    pub err: String,
}

/// Names of candidates and members that are long, wide or contain control characters.
pub fn difficult_names() -> [String; 5] {
    let one = ["x", "選", "a\u{1b}[2J\n\u{202e} ", "❤\u{fe0f}", "👩\u{200d}🚀"];
    one.map(|text| text.chars().cycle().take(60).collect::<String>() + "!")
}

impl Said {
    /// Returns the lines of a successful run. Each line is JSON.
    #[track_caller]
    pub fn json_lines(&self) -> Vec<Value> {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        let lines = self.out.lines();
        lines.map(|line| serde_json::from_str(line).expect("each line is JSON")).collect()
    }

    /// Asserts that each line fits into a terminal of 80 columns, and that no character moves the
    /// cursor.
    #[track_caller]
    pub fn fits_into_80_columns(&self) {
        assert_eq!((self.code, self.err.as_str()), (0, ""), "{self:?}");
        let wide: Vec<_> = self.out.lines().filter(|line| line.width() > 80).collect();
        assert_eq!(wide, [""; 0], "{}", self.out);
        let acts = |c: char| c == '\u{202e}' || (c.is_control() && c != '\n');
        assert!(!self.out.contains(acts), "{self:?}");
    }
}

impl Bench {
    /// Creates a bench with an empty directory as its store.
    pub fn new() -> Bench {
        let bench = Bench { dir: tempfile::tempdir().expect("a directory") };
        fs::create_dir(bench.path("store")).expect("a new directory");
        bench
    }

    pub fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub fn url(&self) -> String {
        format!("file://{}", self.path("store").display())
    }

    /// Writes an epoch object with this body into the store.
    pub fn epoch(&self, epoch: u64, body: &str) {
        self.object(&format!("lock-{epoch:010}.json"), body);
    }

    /// Writes an object with this key and body into the store.
    pub fn object(&self, key: &str, body: &str) {
        let path = self.path("store").join(key);
        fs::create_dir_all(path.parent().expect("a file has a folder")).expect("a folder");
        // A rename is atomic, so no reader sees a part of the object.
        fs::write(self.path("aside"), body).expect("a file");
        fs::rename(self.path("aside"), path).expect("the folder is on one file system");
    }

    /// Returns the sorted names of the objects in the store.
    pub fn objects(&self) -> Vec<String> {
        let entries = fs::read_dir(self.path("store")).expect("a directory").flatten();
        let names = entries.map(|entry| entry.file_name().to_string_lossy().into_owned());
        let mut names: Vec<_> = names.filter(|name| name != ".tenure").collect();
        names.sort();
        names
    }

    /// Runs this verb of the command on the bench's store with these options.
    pub fn run(&self, verb: &str, options: &[&str]) -> Said {
        let url = self.url();
        // The verbs of groups are two words, such as `group status`, and the options follow both
        // words.
        let mut line: Vec<_> = verb.split(' ').collect();
        line.extend(["--store", &url]);
        line.extend(options);
        tenure(&line)
    }

    /// Runs a verb that must print one line of JSON.
    pub fn json(&self, verb: &str, options: &[&str]) -> Value {
        let said = self.run(verb, options);
        assert_eq!((said.code, said.err.as_str()), (0, ""), "{said:?}");
        assert_eq!(said.out.matches('\n').count(), 1, "{said:?}");
        serde_json::from_str(&said.out).expect("the output is one JSON object")
    }
}

/// Returns the command with this command line. The current user's variables for `tenure`, clouds
/// and colours are removed from its environment.
pub fn command(line: &[&str]) -> Command {
    let mut command = Command::new(crate::TENURE);
    for name in own_settings() {
        command.env_remove(name);
    }
    command.args(line).timeout(PATIENCE);
    default_signals();
    command
}

fn own_settings() -> impl Iterator<Item = String> {
    let names = std::env::vars().map(|(name, _)| name);
    let of_services = ["AWS_", "GOOGLE_", "STORAGE_EMULATOR_", "AZURE_", "AZURITE_", "TENURE_"];
    names.filter(move |name| {
        let colours = ["RUST_LOG", "NO_COLOR", "CLICOLOR", "CLICOLOR_FORCE", "TERM"];
        of_services.iter().any(|start| name.starts_with(start)) || colours.contains(&name.as_str())
    })
}

/// Removes the keys that contain `.tenure-check-`. The command uses them only to check the store.
pub fn without_checks(mut keys: Vec<String>) -> Vec<String> {
    keys.retain(|key| !key.contains(".tenure-check-"));
    keys
}

pub fn tenure(line: &[&str]) -> Said {
    said(command(line).output().expect("the command runs"))
}

/// Runs the command with these environment variables and this command line.
pub fn with(variables: &[(&str, &str)], line: &[&str]) -> Said {
    said(command(line).envs(variables.iter().copied()).output().expect("the command runs"))
}

pub fn said(output: Output) -> Said {
    let text = |bytes| String::from_utf8(bytes).expect("the output is UTF-8");
    let code = output.status.code().expect("the command was not killed by a signal");
    Said { code, out: text(output.stdout), err: text(output.stderr) }
}

/// Starts the command as a child process with these environment variables and this command line.
pub fn spawn(env: &[(&'static str, String)], line: &[&str]) -> std::process::Child {
    let mut command = std::process::Command::new(crate::TENURE);
    for name in own_settings() {
        command.env_remove(name);
    }
    command.args(line);
    command.envs(env.iter().map(|(name, value)| (name, value)));
    command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
    default_signals();
    command.spawn().expect("the process starts")
}

impl Said {
    /// Asserts that the run failed with this code, and that its last line on stderr contains these
    /// words.
    pub fn fails(&self, code: i32, words: &[&str]) {
        assert_eq!((self.code, self.out.as_str()), (code, ""), "{self:?}");
        let last = self.err.lines().last().unwrap_or_default();
        assert!(last.starts_with("tenure: "), "{self:?}");
        for word in words {
            assert!(last.contains(word), "{word:?} is not in {last:?}");
        }
    }
}
