//! `cargo` commands of the pages: the tests, benches, examples and features that they name exist,
//! and at least one test has a name that a filter lets pass.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use super::page::{Page, root};
use super::shims::Shims;

const VERBS: &[&str] =
    &["bench", "build", "clippy", "doc", "fmt", "fuzz", "install", "run", "semver-checks", "test"];
pub const OPTIONS: &[&str] =
    &["--all-features", "--benches", "--doc", "--lib", "--locked", "--no-default-features"];
const MORE_OPTIONS: &[&str] = &["--no-deps", "--quiet", "--release"];
pub const VALUES: &[&str] =
    &["--bench", "--bin", "--example", "--features", "--path", "--profile", "--test", "-p"];
/// Options of the test programs.
pub const HARNESS: &[&str] = &["--exact", "--ignored", "--nocapture", "--test-threads"];

/// The commands in the text. Those of the blocks are in `session`.
pub fn problems(page: &Page) -> Vec<String> {
    let shims = Shims::new();
    let mut script = String::new();
    for span in &page.spans {
        // `ENV=value cargo …`
        let mut words = span.it.split(' ').skip_while(|word| word.contains('='));
        let first = words.next().unwrap_or_default();
        if (first == "cargo" && words.next().is_some())
            || (first.starts_with("scripts/") && first.len() > "scripts/".len())
        {
            let at = page.at(span.line);
            script += &format!("export AT={at:?}; {} || echo {at:?}: not found\n", span.it);
        }
    }
    let bash = shims.bash().env("LOOK_ONLY", "1").args(["-c", &script]).output();
    let bash = bash.expect("there is a bash");
    let said = [bash.stderr, bash.stdout].concat();
    let said = String::from_utf8_lossy(&said);
    let mut problems: Vec<_> = said.lines().map(str::to_owned).collect();
    problems.extend(wrong_calls(&shims));
    problems
}

/// What is wrong with the calls that the stand-in was told of.
pub fn wrong_calls(shims: &Shims) -> Vec<String> {
    let calls = shims.calls();
    let wrong = calls.iter().filter_map(|call| {
        let why = check(&call.words).err()?;
        Some(format!("{}: cargo {}: {why}", call.at, call.words.join(" ")))
    });
    wrong.collect()
}

fn check(words: &[String]) -> Result<(), String> {
    let mut words = words.iter().map(String::as_str);
    let verb = words.next().unwrap_or_default();
    if !VERBS.contains(&verb) {
        return Err(format!("no verb {verb:?}"));
    }
    // Other packages than this one have targets of their own; the third is about no target.
    if ["fuzz", "install", "semver-checks"].contains(&verb) {
        return Ok(());
    }
    let mut places = Vec::new();
    let mut filters = Vec::new();
    let mut packages = DEFAULT_MEMBERS;
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if word == "--" {
            break;
        } else if VALUES.contains(&name) {
            let value = if value.is_empty() { words.next().unwrap_or_default() } else { value };
            if name == "-p" {
                packages = member(value)?;
            }
            exists(packages, name, value)?;
            if name == "--test" {
                places.extend(packages.iter().filter_map(|folder| program(folder, value)));
            }
        } else if name == "--lib" {
            places.extend(packages.iter().map(|folder| format!("{folder}src")));
        } else if !word.starts_with('-') {
            filters.push(word);
        } else if !OPTIONS.contains(&word) && !MORE_OPTIONS.contains(&word) {
            return Err(format!("no option {word}"));
        }
    }
    if verb != "test" {
        return Ok(());
    }
    for word in words {
        let name = word.split_once('=').map_or(word, |(name, _)| name);
        if !word.starts_with('-') {
            filters.push(word);
        } else if !HARNESS.contains(&name) {
            return Err(format!("the tests have no option {word}"));
        }
    }
    filters.into_iter().try_for_each(|filter| matches(filter, &places))
}

/// The folders of the packages that a command without `-p` is about.
const DEFAULT_MEMBERS: &[&str] = &["", "cli/", "crates/history/"];

/// The folder of a member of the workspace.
fn member(package: &str) -> Result<&'static [&'static str], String> {
    match package {
        "tenure" => Ok(&[""]),
        "tenure-cli" => Ok(&["cli/"]),
        "tenure-history" => Ok(&["crates/history/"]),
        "tenure-slatedb" => Ok(&["examples/slatedb/"]),
        "tenure-model" => Ok(&["crates/model/"]),
        "tenure-testkit" => Ok(&["crates/testkit/"]),
        other => Err(format!("no package {other:?}")),
    }
}

/// Whether one of the packages in these folders has a target or a feature of that name.
fn exists(packages: &[&str], name: &str, value: &str) -> Result<(), String> {
    let is = |path: String| root().join(path).exists();
    let has = |feature: &str, folder: &&str| {
        let manifest = fs::read_to_string(root().join(folder).join("Cargo.toml"));
        let begin = format!("{feature} = [");
        manifest.expect("it has one").lines().any(|line| line.starts_with(&begin))
    };
    let there = match name {
        "--bench" => is(format!("benches/{value}.rs")),
        "--bin" => value == "tenure",
        "--example" => is(format!("examples/{value}.rs")),
        "--path" => is(value.to_owned()),
        "--profile" => {
            let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it has one");
            manifest.contains(&format!("\n[profile.{value}]\n"))
        }
        "--test" => packages.iter().any(|folder| program(folder, value).is_some()),
        "-p" => true,
        _ => value
            .split([',', ' '])
            .all(|feature| packages.iter().any(|folder| has(feature, folder))),
    };
    if there { Ok(()) } else { Err(format!("no {} {value:?}", name.trim_start_matches('-'))) }
}

/// Where the files of a test program of this package begin.
fn program(folder: &str, name: &str) -> Option<String> {
    let place = format!("{folder}tests/{name}");
    let files = [format!("{place}.rs"), format!("{place}/main.rs")];
    files.iter().any(|file| root().join(file).exists()).then_some(place)
}

/// Whether a test in these places has the filter in its path.
fn matches(filter: &str, places: &[String]) -> Result<(), String> {
    static NAMES: LazyLock<Vec<(String, String)>> = LazyLock::new(names);
    let here = |file: &str| {
        // What the tests share has tests for all of them, such as the suite of the stores.
        let within = |place: &String| {
            file == format!("{place}.rs") || file.starts_with(&format!("{place}/"))
        };
        places.is_empty() || places.iter().any(within) || file.starts_with("crates/testkit/src/")
    };
    if NAMES.iter().any(|(file, name)| here(file) && name.contains(filter)) {
        return Ok(());
    }
    Err(format!("no test in {} has {filter:?} in its name", places.join(" and ")))
}

/// The files with tests, and their tests with their modules. Every function counts, and so does
/// every name of a list in a macro.
fn names() -> Vec<(String, String)> {
    let mut files = Vec::new();
    for package in ["", "cli/", "crates/history/", "crates/model/", "crates/testkit/"] {
        for folder in ["src", "tests"].map(|folder| format!("{package}{folder}")) {
            if root().join(&folder).is_dir() {
                sources(Path::new(&folder), &mut files);
            }
        }
    }
    let mut names = Vec::new();
    for file in files {
        let text = fs::read_to_string(root().join(&file)).expect("a source can be read");
        // Below `src/`, or below the folder of one test program.
        let module = match (file.split_once("src/"), file.split_once("tests/")) {
            (Some((_, below)), _) => below,
            (None, Some((_, program))) => program.split_once('/').map_or(program, |it| it.1),
            (None, None) => unreachable!("no other folder was looked into"),
        };
        let module = module.trim_end_matches(".rs").trim_end_matches("/mod");
        let module = if module == "main" { "" } else { module };
        let module = module.replace('/', "::");
        let mut inline = vec![module.clone()];
        for line in text.lines() {
            let line = line.trim_start();
            if let Some(name) = line.strip_prefix("mod ").and_then(|l| l.strip_suffix(" {")) {
                inline.push(format!("{module}::{name}"));
            }
            let function = line.split_once("fn ").map(|(_, rest)| rest);
            let name = function.unwrap_or(line).split(|c: char| !c.is_alphanumeric() && c != '_');
            let name = name.into_iter().next().unwrap_or_default();
            let listed = line[name.len().min(line.len())..].trim_start();
            if !name.is_empty()
                && (function.is_some()
                    || listed.starts_with(',')
                    || listed.starts_with("=>")
                    || (listed.starts_with(": ") && line.ends_with(';')))
            {
                for module in &inline {
                    names.push((file.clone(), format!("{module}::{name}")));
                }
            }
        }
    }
    names
}

/// The Rust files below.
pub fn sources(folder: &Path, files: &mut Vec<String>) {
    for entry in fs::read_dir(root().join(folder)).expect("a folder").flatten() {
        let path = folder.join(entry.file_name());
        if entry.path().is_dir() {
            sources(&path, files);
        } else if path.extension().is_some_and(|ending| ending == "rs") {
            files.push(path.to_string_lossy().into_owned());
        }
    }
}
