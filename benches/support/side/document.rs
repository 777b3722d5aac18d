//! `docs/performance.md`, and the plots beside it.

use std::fs;
use std::path::Path;
use std::process::Command;

use tenure::Process;

use super::report::{Section, claims};

/// What stays the same: which claims do not hold, and why.
const NOTES: &str = include_str!("notes.md");
/// Sections that scripts write, each by its title.
const BY_SCRIPTS: [(&str, &str); 2] = [
    // `scripts/measure/checkpoint-store.sh`
    ("Azure's blob checkpoint store", "docs/performance/checkpoint-store.md"),
    // `scripts/measure/build.sh`
    ("Dependencies and build", "docs/performance/build.md"),
];

pub fn write(path: &Path, sections: &[Section]) {
    let folder = path.with_extension("");
    fs::create_dir_all(&folder).expect("the folder can be made");
    for (name, svg) in sections.iter().flat_map(|section| &section.plots) {
        fs::write(folder.join(name), svg).expect("the plot can be written");
    }
    let mut text = format!(
        "# Performance\n\nMeasured on {} by `cargo bench --bench side_by_side -- --write \
         docs/performance.md`, which writes this page; {}. Figures are counts, or ratios within this \
         one run. Everything over HTTP goes to the S3 server of the tests, in a process of its own on \
         the loopback.\n\n{}\n\n{}\n",
        Process::system().now().time_of_day().format("%Y-%m-%d"),
        machine(),
        claims(sections).trim_end(),
        NOTES.trim_end(),
    );
    for section in sections {
        text += &format!("\n## {}\n\n{}\n", section.title, section.text.trim_end());
    }
    for (title, file) in BY_SCRIPTS {
        if let Ok(section) = fs::read_to_string(file) {
            text += &format!("\n## {title}\n\n{}\n", section.trim_end());
        }
    }
    fs::write(path, text).expect("the document can be written");
}

/// The machine, without its name.
fn machine() -> String {
    let cores = std::thread::available_parallelism().map_or(1, usize::from);
    let line = |path: &str, name: &str| {
        let text = fs::read_to_string(path).unwrap_or_default();
        let line = text.lines().find(|line| line.starts_with(name)).unwrap_or_default().to_owned();
        line.split_once(':').map_or(String::new(), |(_, value)| value.trim().to_owned())
    };
    let kib: u64 =
        line("/proc/meminfo", "MemTotal").trim_end_matches(" kB").parse().unwrap_or_default();
    let kernel = fs::read_to_string("/proc/sys/kernel/osrelease").unwrap_or_default();
    let kernel = kernel.split(['-', '\n']).next().unwrap_or_default().to_owned();
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let load = load.split(' ').nth(1).unwrap_or_default().to_owned();
    let rustc = Command::new("rustc").arg("--version").output();
    let rustc =
        rustc.map(|it| String::from_utf8_lossy(&it.stdout).into_owned()).unwrap_or_default();
    let rustc: Vec<_> = rustc.split(' ').take(2).collect();
    format!(
        "{cores} cores, {} GiB, Linux {kernel}, {}; load at the end {load} (5 minutes)",
        kib.div_ceil(1 << 20),
        rustc.join(" ").trim(),
    )
}
