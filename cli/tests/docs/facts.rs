//! Lists of the pages that must be whole: every variant, every exit code.

use std::fs;

use super::page::root;

const PAGE: &str = "docs/what-can-go-wrong.md";

fn read(path: &str) -> String {
    fs::read_to_string(root().join(path)).expect("it is there")
}

/// The variants of a public enum, from its source: so that a new one fails here at once.
fn variants(source: &str, name: &str) -> Vec<String> {
    let text = read(source);
    let (_, body) = text.split_once(&format!("pub enum {name} {{\n")).expect("it is defined there");
    let (body, _) = body.split_once("\n}").expect("it ends");
    // Fields are indented further.
    let lines = body.lines().filter_map(|line| line.strip_prefix("    "));
    let names = lines.filter(|line| line.starts_with(|first: char| first.is_ascii_uppercase()));
    names.map(|line| line.trim_end_matches(" {").trim_end_matches(',').to_owned()).collect()
}

/// Those that no row of the page begins with.
fn without_row(page: &str, words: &[String]) -> Vec<String> {
    let begins = |word: &String| page.lines().any(|l| l.starts_with(&format!("| `{word}` |")));
    words.iter().filter(|word| !begins(word)).cloned().collect()
}

fn outcomes() -> Vec<(String, String)> {
    let text = read("src/leadership.rs");
    let lines = text.lines().filter_map(|line| line.trim().strip_prefix("Loss::"));
    let arms = lines.filter_map(|line| line.split_once(" => \""));
    let arms = arms.filter_map(|(loss, word)| Some((loss, word.strip_suffix("\",")?)));
    arms.map(|(loss, word)| {
        let loss = loss.split(' ').next().unwrap_or_default();
        (loss.to_owned(), word.to_owned())
    })
    .collect()
}

#[test]
fn every_loss_has_its_row_and_its_word() {
    let losses = variants("src/leadership.rs", "Loss");
    assert_eq!(losses.len(), outcomes().len(), "{losses:?}");
    let page = read(PAGE);
    assert_eq!(without_row(&page, &losses), <[String; 0]>::default());
    for (loss, word) in outcomes() {
        assert!(page.contains(&format!("| `{loss}` | `{word}` |")), "{loss} is {word} in logs");
    }
}

#[test]
fn every_kind_of_error_has_its_row_and_its_exit_code() {
    let kinds = variants("src/error.rs", "ErrorKind");
    assert!(kinds.len() >= 10, "{kinds:?}");
    let page = read(PAGE);
    assert_eq!(without_row(&page, &kinds), <[String; 0]>::default());
    let exit = read("cli/src/exit.rs");
    let (_, arms) = exit.split_once("pub fn code_of").expect("it is there");
    let (arms, _) = arms.split_once("\n}").expect("it ends");
    for kind in kinds {
        let arm = arms.lines().find(|line| line.contains(&format!("ErrorKind::{kind} ")));
        let code = arm.and_then(|arm| arm.trim_end_matches(',').rsplit(' ').next());
        let code = exit_code(&exit, code.unwrap_or("UNSAFE"));
        assert!(page.contains(&format!("| `{kind}` | {code} |")), "{kind} gives {code}");
    }
}

#[test]
fn every_exit_code_has_its_row() {
    let exit = read("cli/src/exit.rs");
    let names = exit.lines().filter_map(|line| line.strip_prefix("pub const "));
    let names: Vec<_> =
        names.filter_map(|line| line.split_once(':')).map(|(name, _)| name).collect();
    assert!(names.len() >= 6, "{names:?}");
    let page = read(PAGE);
    for name in names {
        let code = exit_code(&exit, name);
        assert!(page.lines().any(|line| line.starts_with(&format!("| {code} |"))), "{name}");
    }
}

fn exit_code(source: &str, name: &str) -> u8 {
    let (_, code) = source.split_once(&format!("pub const {name}: u8 = ")).expect("it is defined");
    let (code, _) = code.split_once(';').expect("it ends");
    code.parse().expect("a number")
}

#[test]
fn a_variant_without_a_row_is_found() {
    let page = "| `Sealed` | a |\nSuperseded, as `Vanished` |\n";
    let words = ["Sealed", "Superseded", "Vanished"].map(str::to_owned);
    assert_eq!(without_row(page, &words), ["Superseded", "Vanished"]);
    assert_eq!(
        variants("src/leadership.rs", "LeadershipEvent"),
        ["Renewed", "AtRisk", "Lost(Loss)"]
    );
}

/// The features that the front page of the library's documentation leaves out: they are no part of
/// the API.
const HIDDEN: [&str; 4] = ["default", "cloud", "internals", "object-store-tests"];

#[test]
fn the_front_page_has_every_feature() {
    let manifest = read("Cargo.toml");
    let (_, features) = manifest.split_once("[features]\n").expect("there are some");
    let (features, _) = features.split_once("\n[").expect("they end");
    let names = features.lines().filter_map(|line| line.split_once(" = [")).map(|(name, _)| name);
    let front = read("src/lib.rs");
    let (_, table) = front.split_once("//! # Features\n").expect("it has the section");
    for name in names.filter(|name| !HIDDEN.contains(name)) {
        assert!(table.contains(&format!("`{name}`")), "{name} is missing");
    }
}
