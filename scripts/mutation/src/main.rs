//! The program behind scripts/mutants: see there.

mod list;
mod report;
mod run;
mod switch;
mod tree;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::time::Duration;

use anyhow::{Context, Result};

use list::Mutant;
use run::{Runner, Verdict};
use tree::Tree;

fn main() -> Result<()> {
    let root = std::env::current_dir()?;
    let work = root.join("target/mutants");
    let equivalent = report::equivalent(&root.join("scripts/mutation/equivalent"))?;
    let mut options = Vec::new();
    let (mut features, mut tests) = (Vec::new(), Vec::new());
    let mut arguments = std::env::args().skip(1);
    let (mut shard, mut texts, mut iterate) = ((0, 1), Vec::new(), false);
    let mut longest = Duration::from_secs(15);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().with_context(|| format!("{argument} needs a value"));
        match argument.as_str() {
            "--features" => features.push(format!("--features={}", value()?)),
            "--all-features" | "--no-default-features" => features.push(argument),
            "--shard" => {
                let parts = value()?;
                let (one, of) = parts.split_once('/').context("--shard K/N")?;
                shard = (one.parse()?, of.parse()?);
            }
            "--longest" => longest = Duration::from_millis(value()?.parse()?),
            "--iterate" => iterate = true,
            "--match" => texts.push(value()?),
            option if option.starts_with("--test=") => tests.push(argument),
            file => options.extend(["--file".to_owned(), file.to_owned()]),
        }
    }
    let mutants = list::list(&root, &options)?;
    eprintln!("{} mutants", mutants.len());
    let tree = Tree::copy(&root, work.join("tree"), features, &mutants)?;
    let out = tree.switch(&root, &mutants)?;
    let (out, switched): (Vec<_>, Vec<_>) = mutants
        .iter()
        .map(|mutant| (mutant, out.get(&mutant.id)))
        .partition(|(_, why)| why.is_some());
    let mut switched: Vec<&Mutant> = switched.into_iter().map(|(mutant, _)| mutant).collect();
    eprintln!("{} behind switches", switched.len());
    // Only now, so that the build is the same whichever are chosen.
    let place = |mutant: &Mutant| texts.iter().position(|text| mutant.name.contains(text));
    switched.retain(|mutant| mutant.id % shard.1 == shard.0);
    switched.retain(|mutant| texts.is_empty() || place(mutant).is_some());
    switched.sort_by_key(|mutant| place(mutant));
    let programs = tree.build(&tests)?;
    let cores = std::thread::available_parallelism()?.get();
    let jobs = std::env::var("JOBS").ok().and_then(|jobs| jobs.parse().ok()).unwrap_or(cores);
    let runner = Runner { root: tree.root.clone(), work: work.clone(), jobs, longest };
    let reach = runner.reach(&programs)?;
    let out = out.into_iter().map(|(mutant, why)| {
        let const_context = matches!(why.map(String::as_str), Some("E0015" | "no switch"));
        let verdict = if const_context { Verdict::Alone } else { Verdict::DoesNotCompile };
        (mutant.key.clone(), verdict)
    });
    let file = work.join("verdicts");
    let mut verdicts = if iterate { run::read_caught(&file) } else { BTreeMap::new() };
    switched.retain(|mutant| !verdicts.contains_key(&mutant.key));
    verdicts.extend(out);
    eprintln!("{} to run", switched.len());
    let verdicts = Mutex::new(verdicts);
    runner.parallel(switched.clone(), |_, mutant| {
        let tests = reach.get(&mutant.id).map(Vec::as_slice).unwrap_or_default();
        let verdict = runner.verdict(mutant.id, tests)?;
        if !matches!(verdict, Verdict::Caught(_)) {
            println!("{verdict:?} {}", mutant.name);
        }
        let mut verdicts = verdicts.lock().expect("no panic");
        verdicts.insert(mutant.key.clone(), verdict);
        if verdicts.len() % 50 == 0 {
            eprintln!("{} verdicts", verdicts.len());
            run::write(&file, &verdicts)?;
        }
        Ok(())
    })?;
    let verdicts = verdicts.into_inner().expect("no panic");
    run::write(&file, &verdicts)?;
    report::print(&mutants, &verdicts, &equivalent)
}
