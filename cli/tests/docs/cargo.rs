//! `cargo` commands of the pages: the tests, benches, examples and features that they name exist,
//! and at least one test has a name that a filter lets pass. The names are those of a plain `cargo test`;
//! what that does not tell is in `tenure_testkit::page_filters`.

use std::fs;

use serde_json::Value;
use tenure_testkit::page_filters;

use super::page::{Page, root};
use super::shims::Shims;
use super::workspace::{PROGRAMS, Package, Program};

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
    let mut chosen = Chosen {
        packages: Package::default_members(),
        features: vec!["default"],
        all_features: true,
        ..Chosen::default()
    };
    let mut every_feature = false;
    let mut filters = Vec::new();
    while let Some(word) = words.next() {
        let (name, value) = word.split_once('=').unwrap_or((word, ""));
        if word == "--" {
            break;
        } else if VALUES.contains(&name) {
            let value = if value.is_empty() { words.next().unwrap_or_default() } else { value };
            if name == "-p" {
                let package = Package::named(value).ok_or(format!("no package {value:?}"))?;
                chosen.packages = vec![package];
                chosen.all_features = false;
            }
            exists(&chosen.packages, name, value)?;
            match name {
                "--test" => chosen.tests.push(value),
                "--features" => chosen.features.extend(value.split([',', ' '])),
                _ => {}
            }
        } else if name == "--lib" {
            chosen.lib = true;
        } else if !word.starts_with('-') {
            filters.push(word);
        } else if !OPTIONS.contains(&word) && !MORE_OPTIONS.contains(&word) {
            return Err(format!("no option {word}"));
        }
        if word == "--no-default-features" {
            chosen.features.retain(|feature| *feature != "default");
            chosen.all_features = false;
        }
        every_feature |= word == "--all-features";
    }
    chosen.all_features |= every_feature;
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
        chosen.ignored |= word == "--ignored";
    }
    filters.into_iter().try_for_each(|filter| chosen.matches(filter))
}

/// The rows of tests behind a feature that name none.
pub fn needless_rows() -> Vec<String> {
    let names_none = |(name, feature, prefix): &&(&str, &str, &str)| {
        let mut programs = PROGRAMS.iter().filter(|program| program.name() == *name);
        !programs.any(|it| it.tests.iter().any(|test| test.starts_with(prefix)))
            || !Package::all().any(|it| it.features().any(|other| other == *feature))
    };
    page_filters::BEHIND.iter().filter(names_none).map(|row| format!("{row:?}")).collect()
}

/// Whether one of the packages has a target or a feature of that name.
fn exists(packages: &[Package], name: &str, value: &str) -> Result<(), String> {
    let target = |kind| packages.iter().any(|package| package.has_target(kind, value));
    let there = match name {
        "--bench" => target("bench"),
        "--bin" => target("bin"),
        "--example" => target("example"),
        "--path" => root().join(value).exists(),
        "--profile" => has_profile(value),
        "--test" => target("test"),
        "-p" => true,
        _ => value.split([',', ' ']).all(|feature| {
            packages.iter().any(|package| package.features().any(|it| it == feature))
        }),
    };
    if there { Ok(()) } else { Err(format!("no {} {value:?}", name.trim_start_matches('-'))) }
}

fn has_profile(name: &str) -> bool {
    let manifest = fs::read_to_string(root().join("Cargo.toml")).expect("it has one");
    let manifest: Value = basic_toml::from_str(&manifest).expect("TOML");
    manifest["profile"].get(name).is_some()
}

/// The test programs that a command runs.
#[derive(Default)]
struct Chosen<'a> {
    packages: Vec<Package>,
    /// All programs, if there are neither names nor `--lib`.
    tests: Vec<&'a str>,
    lib: bool,
    features: Vec<&'a str>,
    all_features: bool,
    ignored: bool,
}

impl Chosen<'_> {
    /// Whether a test of these programs has the filter in its path.
    fn matches(&self, filter: &str) -> Result<(), String> {
        let mut run = PROGRAMS.iter().filter(|program| self.runs(program));
        let names = |program: &Program| {
            let tests = if self.ignored { &program.ignored } else { &program.tests };
            tests.iter().any(|test| test.contains(filter) && self.builds(program, test))
        };
        let elsewhere =
            |(program, other): &(&str, &str)| *other == filter && self.tests.contains(program);
        if run.any(names) || page_filters::FILTERS.iter().any(elsewhere) {
            return Ok(());
        }
        let lib = self.lib.then_some("--lib");
        let programs: Vec<_> = lib.into_iter().chain(self.tests.iter().copied()).collect();
        let kind = if self.ignored { "ignored test" } else { "test" };
        Err(format!("no {kind} of {} has {filter:?} in its name", programs.join(" and ")))
    }

    /// Whether the test is there with the features that the command turns on.
    fn builds(&self, program: &Program, test: &str) -> bool {
        let package = Package::named(program.package).expect("Cargo has built its tests");
        page_filters::BEHIND.iter().all(|(other, feature, prefix)| {
            *other != program.name()
                || !test.starts_with(prefix)
                || self.all_features
                || self.features.iter().any(|on| package.turns_on(on, feature))
        })
    }

    fn runs(&self, program: &Program) -> bool {
        self.packages.iter().any(|package| package.name() == program.package)
            && match &program.test {
                Some(name) if self.lib || !self.tests.is_empty() => self.tests.contains(&&**name),
                Some(_) => true,
                None => self.lib || self.tests.is_empty(),
            }
    }
}
