//! Compares the verbs and flags that the Markdown pages name with the help of the command.

use std::collections::BTreeMap;
use std::process::Command;
use std::sync::LazyLock;

use super::page::Page;

/// The text of `--help` for each verb. A verb of two words, such as `table create`, is one key.
static HELP: LazyLock<BTreeMap<String, String>> = LazyLock::new(|| {
    let mut known = BTreeMap::new();
    for verb in verbs(&help(&[])) {
        let text = help(&[&verb]);
        for second in verbs(&text) {
            known.insert(format!("{verb} {second}"), help(&[&verb, &second]));
        }
        known.insert(verb, text);
    }
    assert!(known.len() > 4, "found only {:?}", known.keys());
    known
});

/// Pages that may name removed flags and verbs.
const HISTORY: [&str; 1] = ["CHANGELOG.md"];

/// Options of `cargo` and of its test programs. A page may name them without `cargo`. The check
/// does not look for them in the help of `tenure`.
const CARGO_OPTIONS: [&str; 10] = [
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

pub fn problems(page: &Page) -> Vec<String> {
    if HISTORY.iter().any(|history| page.path.ends_with(history)) {
        return Vec::new();
    }
    let spans = page.spans.iter();
    let wrong = spans.filter_map(|span| {
        let words: Vec<_> = span.it.split_whitespace().collect();
        let why = match words[..] {
            ["tenure", _, ..] => check_line(&words[1..]).err(),
            [verb, flag, ..] if flag.starts_with("--") && HELP.contains_key(verb) => {
                check_line(&words).err()
            }
            [flag, ..] if flag.len() > 2 && flag.starts_with("--") => {
                (!anybody_has(name(flag))).then(|| format!("no verb has {flag}"))
            }
            _ => None,
        };
        Some(format!("{}: `{}`: {}", page.at(span.line), span.it, why?))
    });
    wrong.collect()
}

/// Checks that the verb and the flags of a command line exist. Ignores the words after `--`.
pub fn check_line(line: &[&str]) -> Result<(), String> {
    let line = line.split(|word| *word == "--").next().unwrap_or_default();
    let Some(first) = line.first() else { return Ok(()) };
    if first.starts_with("--") && anybody_has(name(first)) {
        return Ok(());
    }
    let two = line.get(1).map(|second| format!("{first} {second}"));
    let verb = two.filter(|two| HELP.contains_key(two)).unwrap_or_else(|| (*first).to_owned());
    let Some(help) = HELP.get(&verb) else { return Err(format!("no verb {first:?}")) };
    let flags = line.iter().map(|word| name(word)).filter(|word| word.starts_with("--"));
    let unknown = flags.filter(|flag| !has(help, flag)).collect::<Vec<_>>();
    if unknown.is_empty() { Ok(()) } else { Err(format!("{verb} has no {}", unknown.join(", "))) }
}

fn anybody_has(flag: &str) -> bool {
    flag == "--version"
        || CARGO_OPTIONS.contains(&flag)
        || HELP.values().any(|help| has(help, flag))
}

fn has(help: &str, flag: &str) -> bool {
    help.split(|c: char| c.is_whitespace() || ",=".contains(c)).any(|word| word == flag)
}

/// Returns the name of the flag in a word such as `[--json]` or `--poll=5s`.
fn name(word: &str) -> &str {
    let word = word.trim_matches(['[', ']', '(', ')', ',', '.']);
    word.split_once('=').map_or(word, |(name, _)| name)
}

fn help(verb: &[&str]) -> String {
    let tenure = Command::new(env!("CARGO_BIN_EXE_tenure")).args(verb).arg("--help").output();
    String::from_utf8(tenure.expect("the command runs").stdout).expect("help is text")
}

/// Returns the verbs that the text of a help lists.
fn verbs(help: &str) -> Vec<String> {
    let listed = help.split_once("\nCommands:\n").map_or("", |(_, rest)| rest);
    let lines = listed.lines().take_while(|line| !line.is_empty());
    // The continuation of a wrapped line has a deeper indentation than a verb.
    let lines = lines.filter_map(|line| line.strip_prefix("  ").filter(|l| !l.starts_with(' ')));
    lines.filter_map(|line| line.split_whitespace().next()).map(str::to_owned).collect()
}
