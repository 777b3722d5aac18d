//! A copy of the repository in which every mutant is behind a switch, and its build.

use std::collections::{BTreeMap, BTreeSet};
use std::fs;
use std::hash::{DefaultHasher, Hash as _, Hasher as _};
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail, ensure};
use serde_json::Value;

use crate::list::Mutant;
use crate::switch;

pub struct Tree {
    pub root: PathBuf,
    features: Vec<String>,
}

/// A test program and the name it is known by.
#[derive(Clone, Debug)]
pub struct Program {
    pub name: String,
    pub path: PathBuf,
}

impl Tree {
    /// Copies what git knows of, as it is in the working tree, except what [`Tree::switch`] writes.
    /// What has not changed is left alone, so that cargo does not build it again.
    pub fn copy(
        root: &Path,
        to: PathBuf,
        features: Vec<String>,
        mutants: &[Mutant],
    ) -> Result<Tree> {
        let listed = Command::new("git")
            .args(["ls-files", "-z", "--cached", "--others", "--exclude-standard"])
            .current_dir(root)
            .output()?;
        ensure!(listed.status.success(), "git ls-files failed");
        let files = String::from_utf8(listed.stdout)?;
        let files: BTreeSet<&str> = files.split_terminator('\0').collect();
        let mut switched: BTreeSet<&str> = mutants.iter().map(|m| m.file.as_str()).collect();
        switched.insert(LIBRARY);
        for file in files.difference(&switched).filter(|file| root.join(file).is_file()) {
            write(&to.join(file), &fs::read(root.join(file))?)?;
        }
        // A test program that is gone would be built.
        for left in fs::read_dir(to.join("tests"))?.flatten().map(|entry| entry.file_name()) {
            let left = Path::new("tests").join(left);
            if left.extension().is_some() && !root.join(&left).exists() {
                fs::remove_file(to.join(left))?;
            }
        }
        Ok(Tree { root: to, features })
    }

    /// Writes the switches. Returns the mutants whose switch does not compile, each with the code
    /// of the compiler's error. What is known of a file is kept until the file changes.
    pub fn switch(&self, root: &Path, mutants: &[Mutant]) -> Result<BTreeMap<u32, String>> {
        let kept = self.root.with_file_name("no-switch");
        let mut texts = BTreeMap::new();
        for mutant in mutants {
            if !texts.contains_key(&mutant.file) {
                let text = fs::read_to_string(root.join(&mutant.file))?;
                texts.insert(mutant.file.clone(), text);
            }
        }
        let line = |mutant: &Mutant| {
            let mut hasher = DefaultHasher::new();
            texts[&mutant.file].hash(&mut hasher);
            format!("{:016x} {}", hasher.finish(), mutant.key)
        };
        let known = fs::read_to_string(&kept).unwrap_or_default();
        let known: BTreeMap<&str, &str> =
            known.lines().filter_map(|line| line.split_once('\t')).collect();
        let mut out = BTreeMap::new();
        for mutant in mutants {
            if let Some(code) = known.get(line(mutant).as_str()) {
                out.insert(mutant.id, (*code).to_owned());
            }
        }
        let library = fs::read_to_string(root.join(LIBRARY))? + switch::RUNTIME;
        write(&self.root.join(LIBRARY), library.as_bytes())?;
        for round in 1.. {
            let mut switched = BTreeMap::new();
            for (file, text) in &texts {
                let own = mutants.iter().filter(|mutant| mutant.file == *file);
                let own: Vec<_> = own.filter(|mutant| !out.contains_key(&mutant.id)).collect();
                let (text, rest) = switch::switched(text, &own).with_context(|| file.clone())?;
                out.extend(rest.iter().map(|mutant| (mutant.id, "no switch".to_owned())));
                write(&self.root.join(file), text.as_bytes())?;
                switched.insert(file.clone(), text);
            }
            let blamed = self.check(&switched)?;
            eprintln!("round {round}: {} switches do not compile", blamed.len());
            if blamed.is_empty() {
                break;
            }
            out.extend(blamed);
        }
        let lines = mutants.iter().filter_map(|mutant| {
            out.get(&mutant.id).map(|code| format!("{}\t{code}\n", line(mutant)))
        });
        fs::write(kept, lines.collect::<String>())?;
        Ok(out)
    }

    fn cargo(&self) -> Command {
        let mut cargo = Command::new("cargo");
        cargo.current_dir(&self.root).env("CARGO_INCREMENTAL", "1").stderr(Stdio::inherit());
        cargo
    }

    /// The mutants in which the compiler finds errors.
    fn check(&self, texts: &BTreeMap<String, String>) -> Result<BTreeMap<u32, String>> {
        let mut check = self.cargo();
        check.args(["check", "--lib", "--quiet", "--message-format=json"]).args(&self.features);
        let output = check.output()?;
        let mut blamed = BTreeMap::new();
        for message in errors(&output.stdout) {
            let own = blame(&message, texts);
            if own.is_empty() && !message["spans"].as_array().is_none_or(Vec::is_empty) {
                bail!("an error in no mutant: {}", message["rendered"].as_str().unwrap_or("?"));
            }
            let code = message["code"]["code"].as_str().unwrap_or("?");
            blamed.extend(own.into_iter().map(|id| (id, code.to_owned())));
        }
        ensure!(
            output.status.success() || !blamed.is_empty(),
            "the crate does not build, and no mutant is to blame"
        );
        Ok(blamed)
    }

    /// Builds the library's own tests and the named test programs.
    pub fn build(&self, tests: &[String]) -> Result<Vec<Program>> {
        let mut build = self.cargo();
        build.args(["test", "--no-run", "--message-format=json", "--lib"]);
        build.args(["-p", "tenure", "-p", "tenure-model"]);
        build.args(&self.features).args(tests);
        let output = build.output()?;
        for error in errors(&output.stdout) {
            eprintln!("{}", error["rendered"].as_str().unwrap_or("?"));
        }
        ensure!(output.status.success(), "the tests do not build");
        let mut programs = Vec::new();
        for line in output.stdout.split(|byte| *byte == b'\n') {
            let Ok(message) = serde_json::from_slice::<Value>(line) else { continue };
            if message["profile"]["test"] == true
                && let Some(path) = message["executable"].as_str()
            {
                let name = message["target"]["name"].as_str().unwrap_or_default().to_owned();
                programs.push(Program { name, path: path.into() });
            }
        }
        Ok(programs)
    }
}

const LIBRARY: &str = "src/lib.rs";

fn write(path: &Path, content: &[u8]) -> Result<()> {
    if fs::read(path).is_ok_and(|old| old == content) {
        return Ok(());
    }
    fs::create_dir_all(path.parent().context("a file has a folder")?)?;
    Ok(fs::write(path, content)?)
}

fn errors(stdout: &[u8]) -> Vec<Value> {
    let lines = stdout.split(|byte| *byte == b'\n');
    let messages = lines.filter_map(|line| serde_json::from_slice::<Value>(line).ok());
    let messages = messages.map(|mut line| line["message"].take());
    messages.filter(|message| message["level"] == "error").collect()
}

/// The mutants that an error lies in: by its primary span, else by another, else those of the line.
fn blame(error: &Value, texts: &BTreeMap<String, String>) -> Vec<u32> {
    let spans = error["spans"].as_array().map(Vec::as_slice).unwrap_or_default();
    let (first, others): (Vec<_>, Vec<_>) =
        spans.iter().partition(|span| span["is_primary"] == true);
    let place = |span: &Value| {
        let text = texts.get(span["file_name"].as_str()?)?;
        Some((text, usize::try_from(span["byte_start"].as_u64()?).ok()?))
    };
    if error["code"]["code"] == "E0004" {
        let message = error["message"].as_str().unwrap_or_default();
        let uncovered = message.split('`').nth(1).unwrap_or_default();
        let arm = first.iter().filter_map(|span| place(span));
        return arm.filter_map(|(text, at)| switch::blamed_arm(text, at, uncovered)).collect();
    }
    for span in first.iter().chain(&others) {
        let Some((text, at)) = place(span) else { continue };
        let blamed = switch::blamed(text, at);
        if !blamed.is_empty() {
            return blamed;
        }
    }
    for span in first.iter().chain(&others) {
        let Some((text, at)) = place(span) else { continue };
        let blamed = switch::near(text, at);
        if !blamed.is_empty() {
            return blamed;
        }
    }
    Vec::new()
}
