//! Every figure that is claimed, measured beside the alternatives in one run.
//!
//! ```text
//! cargo bench --bench side_by_side                                # all of it, some 8 minutes
//! cargo bench --bench side_by_side -- finding                     # by a word of the title
//! cargo bench --bench side_by_side -- --write docs/performance.md # and the page with its plots
//! cargo test --benches                                            # small, counts asserted
//! ```
#![allow(clippy::disallowed_methods, reason = "this is where time is measured")]

use std::path::Path;

#[path = "support/baselines/mod.rs"]
mod baselines;
#[path = "support/side/mod.rs"]
mod side;

use side::report::Section;
use side::{Size, backlog, campaigns, document, failover, groups, machine, many, steady, tails};

fn main() {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    match arguments.first().map(String::as_str) {
        Some(side::server::SERVE) => side::server::serve(),
        Some(side::measured::MEASURE) => runtime().block_on(async {
            match arguments[1].as_str() {
                "follow" | "poll-bare" => many::measured(&arguments[1..]).await,
                _ => backlog::measured(&arguments[1..]).await,
            }
        }),
        _ => run(&arguments),
    }
}

fn run(arguments: &[String]) {
    // What `cargo bench` says, and `cargo test` does not.
    let full = arguments.iter().any(|it| it == "--bench");
    let mut words = arguments.iter().filter(|it| *it != "--bench");
    let (mut page, mut wanted) = (None, Vec::new());
    while let Some(word) = words.next() {
        match word.as_str() {
            "--write" => page = Some(words.next().expect("--write PATH").clone()),
            // Options of the usual harness.
            option if option.starts_with('-') => {}
            word => wanted.push(word.to_lowercase()),
        }
    }
    let size = if full { Size::full() } else { Size::smoke() };
    let sections = measure(&size, &wanted);
    if let Some(page) = page {
        document::write(Path::new(&page), &sections);
    }
    let broken = sections.iter().flat_map(|it| &it.claims).filter(|it| it.exact && !it.holds);
    let broken: Vec<_> = broken.filter(|it| !known(&it.what)).map(|it| it.what.as_str()).collect();
    assert!(broken.is_empty(), "counts that do not hold: {broken:#?}");
}

/// What does not hold, as the page explains.
fn known(claim: &str) -> bool {
    side::KNOWN.contains(&claim)
}

fn measure(size: &Size, wanted: &[String]) -> Vec<Section> {
    let runtime = runtime();
    type Measure<'a> = (&'a str, Box<dyn Fn() -> Section + 'a>);
    let all: [Measure; 12] = [
        ("steady", Box::new(|| runtime.block_on(steady::measure(size)))),
        ("campaigns", Box::new(|| runtime.block_on(campaigns::campaigns(size)))),
        ("failover", Box::new(|| failover::measure(size))),
        ("rush", Box::new(|| runtime.block_on(campaigns::rush(size)))),
        ("finding", Box::new(|| backlog::finding(size))),
        ("compacting", Box::new(|| backlog::compacting(size))),
        ("many", Box::new(|| many::measure(size))),
        ("machine", Box::new(|| machine::measure(size))),
        ("tails", Box::new(|| tails::measure(size))),
        ("groups: steady", Box::new(|| runtime.block_on(groups::steady(size)))),
        ("groups: moves", Box::new(|| groups::moves(size))),
        ("groups: large", Box::new(|| groups::large(size))),
    ];
    let mut sections = Vec::new();
    for (name, measure) in all {
        if wanted.is_empty() || wanted.iter().any(|word| name.contains(word.as_str())) {
            let section = measure();
            section.print();
            sections.push(section);
        }
    }
    if wanted.is_empty() || wanted.iter().any(|word| "connections".contains(word.as_str())) {
        let section = runtime.block_on(campaigns::idle(size));
        section.print();
        sections.push(section);
    }
    sections
}

fn runtime() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread().enable_all().build().expect("a runtime")
}
