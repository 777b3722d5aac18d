//! Checks that the packages, targets and tests in the pages' `cargo` commands exist. The check only
//! reads the sources.

use std::fs;
use std::path::Path;
use std::sync::LazyLock;

use super::page::{Page, root};

/// The pages name these options of `cargo` and of its test programs outside of a command.
pub const OPTIONS: [&str; 10] = [
    "--all-features",
    "--example",
    "--features",
    "--ignored",
    "--lib",
    "--locked",
    "--no-default-features",
    "--nocapture",
    "--test",
    "--test-threads",
];

/// The text of all Rust files, and of all manifests.
static SOURCES: LazyLock<[String; 2]> = LazyLock::new(|| {
    let mut text = [String::new(), String::new()];
    for folder in ["benches", "cli", "crates", "examples", "fuzz", "src", "tests"] {
        read(&root().join(folder), &mut text);
    }
    text[1] += &fs::read_to_string(root().join("Cargo.toml")).expect("a manifest");
    text
});

fn read(folder: &Path, text: &mut [String; 2]) {
    for entry in fs::read_dir(folder).into_iter().flatten().flatten() {
        let path = entry.path();
        if path.is_dir() {
            read(&path, text);
        }
        let kind = usize::from(path.ends_with("Cargo.toml"));
        if kind == 1 || path.extension().is_some_and(|extension| extension == "rs") {
            text[kind] += &fs::read_to_string(&path).expect("UTF-8");
        }
    }
}

/// Returns the problems of the `cargo` commands in the text and in the shell blocks of the page.
pub fn problems(page: &Page) -> Vec<String> {
    let spans = page.spans.iter().map(|span| (span.line, span.it.as_str()));
    let shells = page.blocks.iter().filter(|block| ["sh", "console"].contains(&block.word()));
    let lines = shells.flat_map(|block| block.text.lines().map(|line| (block.line, line)));
    let commands = spans.chain(lines).filter(|(_, command)| command.contains("cargo "));
    let wrong = commands.filter_map(|(line, command)| {
        let (_, words) = command.split_once("cargo ")?;
        let why = check(&words.split_whitespace().collect::<Vec<_>>()).err()?;
        Some(format!("{}: {command}: {why}", page.at(line)))
    });
    wrong.collect()
}

fn check(words: &[&str]) -> Result<(), String> {
    for pair in words.windows(2) {
        let name = pair[1];
        let there = match pair[0] {
            "-p" => SOURCES[1].contains(&format!("name = {name:?}")),
            "--test" | "--example" | "--bench" => is_target(pair[0], name),
            _ => true,
        };
        if !there {
            return Err(format!("{} has no {name:?}", pair[0]));
        }
    }
    if words[0] != "test" {
        return Ok(());
    }
    let value = |at: usize| ["-p", "--test", "--features", "--profile"].contains(&words[at]);
    let filters = (1..words.len()).filter(|at| !words[*at].starts_with('-') && !value(at - 1));
    for filter in filters.map(|at| words[at]) {
        let last = filter.rsplit("::").find(|part| !part.is_empty()).unwrap_or_default();
        // The last part of a filter must be the beginning of the name of a test or a module, or a
        // part of a name after `_`.
        let named =
            ["fn ", "mod "].iter().any(|kind| SOURCES[0].contains(&format!("{kind}{last}")));
        if !named && !SOURCES[0].contains(&format!("_{last}")) {
            return Err(format!("no test name contains {filter:?}"));
        }
    }
    Ok(())
}

fn is_target(kind: &str, name: &str) -> bool {
    let folder = match kind {
        "--test" => "tests",
        "--example" => "examples",
        _ => "benches",
    };
    let crates = fs::read_dir(root().join("crates")).expect("a folder").flatten();
    let mut packages = crates.map(|entry| entry.path()).chain([root().join("cli"), root().into()]);
    packages.any(|package| {
        let target = package.join(folder).join(name);
        target.join("main.rs").exists() || target.with_extension("rs").exists()
    })
}
