//! Checks each kind of block in a page, except for the execution of shell blocks.

use std::collections::BTreeSet;
use std::fs;
use std::path::Path;
use std::process::Command;
use std::sync::LazyLock;

use rusqlite::fallible_iterator::FallibleIterator as _;
use rusqlite::{Batch, Connection};
use saphyr::{LoadableYamlNode as _, Yaml};
use serde_json::Value;

use super::flags;
use super::page::{Block, Page, root};

/// The metrics in the tables of docs/reference/metrics.md. tests/election/metrics/mod.rs compares
/// these tables with the recorded metrics.
static METRICS: LazyLock<BTreeSet<String>> = LazyLock::new(|| {
    let page = Page::read("docs/reference/metrics.md".into());
    let first_cells = page.first_cells.into_iter();
    first_cells.filter(|cell| cell.starts_with("tenure_")).collect()
});

pub fn problems(page: &Page) -> Vec<String> {
    let mut problems = Vec::new();
    for block in &page.blocks {
        if let Err(why) = check(page, block) {
            problems.push(format!("{}: {why}", page.at(block.line)));
        }
    }
    problems.extend(sql(page));
    problems
}

fn check(page: &Page, block: &Block) -> Result<(), String> {
    if let Some(reason) = &block.not_run {
        return match (reason.is_empty(), block.word()) {
            (true, _) => Err("the block is excluded without a reason".to_owned()),
            (_, "sh" | "console" | "rust" | "sql") => Ok(()),
            (_, other) => Err(format!("a block of {other} is never run, so it needs no exclusion")),
        };
    }
    match block.word() {
        "" => Err("a block without a tag".to_owned()),
        "rust" => rust(page, block),
        "json" => match serde_json::from_str::<Value>(&block.text) {
            Ok(_) => Ok(()),
            Err(error) => Err(format!("invalid JSON: {error}")),
        },
        "yaml" => {
            let documents = Yaml::load_from_str(&block.text);
            let documents = documents.map_err(|error| format!("invalid YAML: {error}"))?;
            documents.iter().try_for_each(command_lines)
        }
        "promql" => metrics(&block.text),
        "python" => python(&block.text),
        "sh" | "toml" | "console" | "sql" | "text" => Ok(()),
        other => Err(format!("the tag {other:?} has no rule")),
    }
}

/// Checks the syntax of a Python program.
fn python(text: &str) -> Result<(), String> {
    let mut check = Command::new("python3");
    check.args(["-c", "import sys; compile(sys.argv[1], 'block', 'exec')", text]);
    let checked = check.output().expect("python3 runs");
    let errors = String::from_utf8_lossy(&checked.stderr);
    if checked.status.success() { Ok(()) } else { Err(format!("invalid Python: {errors}")) }
}

fn rust(page: &Page, block: &Block) -> Result<(), String> {
    if block.tag.split(',').skip(1).any(|word| word != "no_run") {
        return Err(format!("{:?} is not compiled", block.tag));
    }
    let crates = fs::read_dir(root().join("crates")).expect("the folder of the crates exists");
    let crates = crates.map(|package| package.expect("an entry").path());
    let mut fronts = std::iter::once(root().to_path_buf())
        .chain(crates)
        .map(|package| package.join("src/lib.rs"));
    let included = fronts.any(|front| {
        let text = fs::read_to_string(&front).expect("each package has src/lib.rs");
        let package = front.parent().and_then(Path::parent).expect("the path ends with src/lib.rs");
        let own = root().join(&page.path).strip_prefix(package).ok().map(Path::to_path_buf);
        let own = own.map(|own| format!("include_str!(\"../{}\")", own.display()));
        let page = format!("include_str!(\"../../../{}\")", page.path.display());
        text.contains(&page) || own.is_some_and(|own| text.contains(&own))
    });
    if included {
        return Ok(());
    }
    Err(format!("no lib.rs includes {}, so its blocks are never compiled", page.path.display()))
}

/// Searches this YAML for lists of words that are command lines of `tenure`, and checks each of
/// them.
fn command_lines(yaml: &Yaml) -> Result<(), String> {
    if let Some(mapping) = yaml.as_mapping() {
        return mapping.values().try_for_each(command_lines);
    }
    let Some(list) = yaml.as_sequence() else { return Ok(()) };
    list.iter().try_for_each(command_lines)?;
    let words: Vec<_> = list.iter().filter_map(Yaml::as_str).collect();
    let verb = match words.iter().position(|word| *word == "tenure" || word.ends_with("/tenure")) {
        Some(tenure) => tenure + 1,
        None if words.get(1).is_some_and(|word| word.starts_with("--")) => 0,
        None => return Ok(()),
    };
    flags::check_line(&words[verb..])
}

/// Checks that each `tenure_` metric in this Prometheus query exists in the library.
fn metrics(query: &str) -> Result<(), String> {
    let words = query.split(|c: char| !c.is_alphanumeric() && c != '_');
    for name in words.filter(|word| word.starts_with("tenure_")) {
        // Prometheus adds these endings to the name of a histogram.
        let stem = ["_bucket", "_count", "_sum"].iter().find_map(|end| name.strip_suffix(end));
        let made = |name: &str| METRICS.contains(name);
        if !made(name) && !stem.is_some_and(made) {
            return Err(format!("the library has no metric {name}"));
        }
    }
    Ok(())
}

/// Runs the SQL statements of a page in order, in one database. Returns the problems.
fn sql(page: &Page) -> Vec<String> {
    let database = Connection::open_in_memory().expect("SQLite opens a database in memory");
    let mut problems = Vec::new();
    for block in page.blocks.iter().filter(|block| block.word() == "sql") {
        if block.not_run.is_none()
            && let Err(error) = carry_out(&database, &block.text)
        {
            problems.push(format!("{}: {error}", page.at(block.line)));
        }
    }
    problems
}

fn carry_out(database: &Connection, sql: &str) -> rusqlite::Result<()> {
    let mut statements = Batch::new(database, sql);
    while let Some(mut statement) = statements.next()? {
        for parameter in 1..=statement.parameter_count() {
            statement.raw_bind_parameter(parameter, parameter as i64)?;
        }
        let mut rows = statement.raw_query();
        while rows.next()?.is_some() {}
    }
    Ok(())
}
