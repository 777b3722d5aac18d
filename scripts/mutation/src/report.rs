//! What came of the mutants: a table of areas, and what must be looked at.

use std::collections::BTreeMap;
use std::fs;
use std::path::Path;

use anyhow::{Result, ensure};

use crate::list::Mutant;
use crate::run::Verdict;

/// The listed mutants that change nothing, by [`Mutant::key`]. A comment gives the reason for those
/// that follow it.
pub fn equivalent(path: &Path) -> Result<Vec<String>> {
    let (mut keys, mut reason) = (Vec::new(), false);
    for line in fs::read_to_string(path)?.lines() {
        match line.trim() {
            "" => reason = false,
            comment if comment.starts_with('#') => reason = true,
            key => {
                ensure!(reason, "{key}: no reason is given above it");
                keys.push(key.to_owned());
            }
        }
    }
    Ok(keys)
}

#[derive(Default)]
struct Row {
    mutants: usize,
    viable: usize,
    caught: usize,
    timeouts: usize,
    equivalent: usize,
    missed: usize,
    alone: usize,
}

/// Prints the table. Fails if a mutant that is not listed survives, or a listed one does not.
pub fn print(
    mutants: &[Mutant],
    verdicts: &BTreeMap<String, Verdict>,
    equivalent: &[String],
) -> Result<()> {
    let mut rows: BTreeMap<String, Row> = BTreeMap::new();
    let (mut missed, mut stale, mut alone) = (Vec::new(), Vec::new(), Vec::new());
    for mutant in mutants {
        let Some(verdict) = verdicts.get(&mutant.key) else { continue };
        let listed = equivalent.contains(&mutant.key);
        for area in [area(&mutant.file), "together".to_owned()] {
            let row = rows.entry(area).or_default();
            row.mutants += 1;
            row.viable += 1;
            match verdict {
                Verdict::DoesNotCompile => row.viable -= 1,
                Verdict::Caught(_) => row.caught += 1,
                Verdict::Timeout(_) => row.timeouts += 1,
                Verdict::Alone => {
                    row.alone += 1;
                    row.viable -= 1;
                }
                Verdict::Missed | Verdict::Unreached if listed => row.equivalent += 1,
                Verdict::Missed | Verdict::Unreached => row.missed += 1,
            }
        }
        match verdict {
            Verdict::Missed | Verdict::Unreached if !listed => missed.push(&mutant.name),
            Verdict::Caught(_) | Verdict::Timeout(_) if listed => stale.push(&mutant.key),
            Verdict::Alone if !listed => alone.push(&mutant.name),
            _ => {}
        }
    }
    println!("| area | mutants | viable | caught | timeouts | equivalent | missed | no switch |");
    println!("| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: |");
    for (area, row) in rows {
        let Row { mutants, viable, caught, timeouts, equivalent, missed, alone } = row;
        println!(
            "| {area} | {mutants} | {viable} | {caught} | {timeouts} | {equivalent} | {missed} | {alone} |"
        );
    }
    for (what, names) in [("without a switch", &alone), ("missed", &missed)] {
        names.iter().for_each(|name| println!("{what}: {name}"));
    }
    stale.iter().for_each(|key| println!("listed as equivalent, but caught: {key}"));
    ensure!(missed.is_empty() && stale.is_empty(), "{} missed", missed.len());
    Ok(())
}

/// `src/protocol/lease/mod.rs` is of `src/protocol`, `src/record/mod.rs` of `src/record`.
fn area(file: &str) -> String {
    let parts: Vec<&str> = file.trim_end_matches(".rs").split('/').collect();
    let depth = if parts.get(1) == Some(&"store") { 3 } else { 2 };
    parts[..parts.len().min(depth)].join("/")
}
