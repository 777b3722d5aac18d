//! The mutants that cargo-mutants would try.

use std::collections::{HashMap, HashSet};
use std::ops::Range;
use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, ensure};
use serde::Deserialize;

#[derive(Clone, Copy, Debug, Deserialize, Eq, Ord, PartialEq, PartialOrd)]
pub enum Genre {
    FnValue,
    BinaryOperator,
    UnaryOperator,
    MatchArm,
    MatchArmGuard,
    StructField,
}

#[derive(Clone, Debug, Deserialize)]
pub struct Mutant {
    /// From 1 in the order of the list.
    #[serde(skip)]
    pub id: u32,
    /// As cargo-mutants names it, without line and column; a number tells equal ones apart.
    #[serde(skip)]
    pub key: String,
    pub file: String,
    pub genre: Genre,
    pub name: String,
    pub replacement: String,
    pub span: Span,
}

#[derive(Clone, Copy, Debug, Deserialize)]
pub struct Span {
    start: Place,
    end: Place,
}

#[derive(Clone, Copy, Debug, Deserialize)]
struct Place {
    line: usize,
    column: usize,
}

impl Span {
    pub fn bytes(self, text: &str) -> Range<usize> {
        self.start.byte(text)..self.end.byte(text)
    }
}

impl Place {
    /// Lines and columns count from 1, columns in characters.
    fn byte(self, text: &str) -> usize {
        let line: usize = text.split_inclusive('\n').take(self.line - 1).map(str::len).sum();
        let columns = text[line..].char_indices().nth(self.column - 1);
        columns.map_or(text.len(), |(offset, _)| line + offset)
    }
}

/// All mutants of the areas in `.cargo/mutants.toml`, or those that `options` select.
pub fn list(root: &Path, options: &[String]) -> Result<Vec<Mutant>> {
    let output = Command::new("cargo")
        .args(["mutants", "--list", "--json"])
        .args(options)
        .current_dir(root)
        .stderr(Stdio::inherit())
        .output()
        .context("cargo mutants does not start")?;
    ensure!(output.status.success(), "cargo mutants --list failed");
    let mut mutants: Vec<Mutant> = serde_json::from_slice(&output.stdout)?;
    // A file that two modules share is listed twice.
    let mut names = HashSet::new();
    mutants.retain(|mutant| names.insert(mutant.name.clone()));
    let mut seen: HashMap<String, u32> = HashMap::new();
    for (mutant, id) in mutants.iter_mut().zip(1..) {
        mutant.id = id;
        let what = mutant.name.splitn(4, ':').nth(3).unwrap_or(&mutant.name).trim();
        let key = format!("{}: {what}", mutant.file);
        let count = seen.entry(key.clone()).or_default();
        *count += 1;
        mutant.key = if *count == 1 { key } else { format!("{key} #{count}") };
    }
    Ok(mutants)
}
