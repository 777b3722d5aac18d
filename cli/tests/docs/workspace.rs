//! What Cargo says of the packages here, and what their test programs say of themselves.

use std::ffi::OsStr;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::LazyLock;

use serde_json::Value;

use super::page::root;

static METADATA: LazyLock<Value> = LazyLock::new(|| {
    let said = cargo(&["metadata", "--no-deps", "--format-version", "1"]);
    serde_json::from_slice(&said).expect("JSON")
});

/// A member of the workspace.
#[derive(Clone, Copy)]
pub struct Package(&'static Value);

impl Package {
    pub fn all() -> impl Iterator<Item = Package> {
        list(&METADATA["packages"]).map(Package)
    }

    /// Those that a command without `-p` is about.
    pub fn default_members() -> Vec<Package> {
        let members = &METADATA["workspace_default_members"];
        let is = |package: &Package| list(members).any(|id| *id == package.0["id"]);
        Package::all().filter(is).collect()
    }

    pub fn named(name: &str) -> Option<Package> {
        Package::all().find(|package| package.name() == name)
    }

    pub fn name(self) -> &'static str {
        text(&self.0["name"])
    }

    pub fn has_target(self, kind: &str, name: &str) -> bool {
        list(&self.0["targets"])
            .any(|target| target["name"] == name && list(&target["kind"]).any(|it| it == kind))
    }

    pub fn features(self) -> impl Iterator<Item = &'static str> {
        self.0["features"].as_object().expect("a table").keys().map(String::as_str)
    }

    /// Whether the one feature is the other, or turns it on.
    pub fn turns_on(self, feature: &str, other: &str) -> bool {
        let more = self.0["features"][feature].as_array();
        feature == other || more.into_iter().flatten().any(|it| self.turns_on(text(it), other))
    }

    pub fn depends_on(self, name: &str) -> bool {
        list(&self.0["dependencies"]).any(|dependency| dependency["name"] == name)
    }
}

/// A test program that a plain `cargo test` runs.
pub struct Program {
    pub package: &'static str,
    /// None for the unit tests of the library.
    pub test: Option<String>,
    pub tests: Vec<String>,
    /// Those of the tests that are ignored.
    pub ignored: Vec<String>,
}

impl Program {
    /// Its own, or the package's of unit tests.
    pub fn name(&self) -> &str {
        self.test.as_deref().unwrap_or(self.package)
    }
}

/// Built if need be, so that the names are those of the sources. Where `cargo test` runs this
/// program, too, Cargo finds that nothing is left to do.
pub static PROGRAMS: LazyLock<Vec<Program>> = LazyLock::new(|| {
    let this = std::env::current_exe().expect("a path");
    let folder = this.ancestors().nth(2).expect("below target/PROFILE/deps");
    let profile = match folder.file_name().and_then(OsStr::to_str) {
        Some("debug") | None => "test",
        Some(profile) => profile,
    };
    let target = folder.parent().and_then(Path::to_str).expect("UTF-8");
    let said = cargo(&[
        "test",
        "--no-run",
        "--quiet",
        "--message-format=json",
        "--profile",
        profile,
        "--target-dir",
        target,
    ]);
    let said = String::from_utf8(said).expect("UTF-8");
    let messages = said.lines().map(|line| serde_json::from_str::<Value>(line).expect("JSON"));
    messages.filter_map(|message| program(&message)).collect()
});

/// The program that Cargo says it has built.
fn program(message: &Value) -> Option<Program> {
    let file = message["executable"].as_str()?;
    let kind = message["target"]["kind"][0].as_str()?;
    if message["profile"]["test"] != true || !["lib", "test"].contains(&kind) {
        return None;
    }
    let package = Package::all().find(|it| it.0["manifest_path"] == message["manifest_path"])?;
    Some(Program {
        package: package.name(),
        test: (kind == "test").then(|| text(&message["target"]["name"]).to_owned()),
        tests: tests(file, &[]),
        ignored: tests(file, &["--ignored"]),
    })
}

fn tests(program: &str, options: &[&str]) -> Vec<String> {
    let output = Command::new(program).args(["--list", "--format", "terse"]).args(options).output();
    let output = output.expect("a program that was just built");
    assert!(output.status.success(), "{program} cannot list its tests");
    let said = String::from_utf8(output.stdout).expect("UTF-8");
    said.lines().filter_map(|line| line.strip_suffix(": test")).map(str::to_owned).collect()
}

/// What a command of Cargo's prints.
fn cargo(words: &[&str]) -> Vec<u8> {
    let mut cargo = Command::new(env!("CARGO"));
    for (name, _) in std::env::vars() {
        // What Cargo tells this program of its package: `ring` is built again if it has changed.
        if name.starts_with("CARGO_PKG_") || name.starts_with("CARGO_MANIFEST_") {
            cargo.env_remove(name);
        }
    }
    cargo.args(words).current_dir(root()).stdin(Stdio::null()).stderr(Stdio::inherit());
    let output = cargo.output().expect("Cargo runs");
    assert!(output.status.success(), "cargo {words:?} fails");
    output.stdout
}

fn list(value: &'static Value) -> impl Iterator<Item = &'static Value> {
    value.as_array().expect("a list").iter()
}

fn text(value: &Value) -> &str {
    value.as_str().expect("a string")
}
