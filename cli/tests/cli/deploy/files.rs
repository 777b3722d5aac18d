//! Checks that the JSON in the files of `deploy` is valid, and that the commands in these files
//! run. `scripts/ci/deploy.sh` checks YAML, HCL and units.

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use serde_json::Value;

use crate::bench::{Bench, command, said, tenure};

const KUBERNETES: &str = include_str!("../../../../deploy/kubernetes/compactor.yaml");
const SYSTEMD: &str = include_str!("../../../../deploy/systemd/tenure-compact@.service");
const SYSTEMD_RUN: &str = include_str!("../../../../deploy/systemd/tenure-run@.service");
const TERRAFORM: &str = include_str!("../../../../deploy/terraform/compactor.tf");
const README: &str = include_str!("../../../../deploy/README.md");
const LIFECYCLE: &str = include_str!("../../../../deploy/s3/lifecycle-noncurrent.json");

fn all_under(folder: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(folder).expect("a folder").flatten();
    let paths = entries.map(|entry| entry.path());
    paths.flat_map(|path| if path.is_dir() { all_under(&path) } else { vec![path] }).collect()
}

fn files() -> Vec<PathBuf> {
    all_under(&Path::new(env!("CARGO_MANIFEST_DIR")).join("../deploy"))
}

#[test]
fn the_page_names_every_file() {
    for path in files() {
        let name = path.file_name().expect("a file").to_string_lossy().into_owned();
        assert!(name == "README.md" || README.contains(&name), "{name}");
    }
}

/// Returns the JSON array that follows this word on the same line of the text.
fn array_after(text: &str, word: &str) -> Vec<String> {
    let (_, rest) = text.split_once(word).expect("the word is in the text");
    let line = rest.lines().next().expect("a line");
    let line = line.replace("local.store", r#""s3://BUCKET/PREFIX""#);
    serde_json::from_str(&line).expect("strings")
}

fn unit(name: &str) -> &'static str {
    of_unit(SYSTEMD, name)
}

fn of_unit(unit: &'static str, name: &str) -> &'static str {
    let line = unit.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix('='));
    line.expect("the word is in the text")
}

/// Runs the compaction command of each scheduled job on a directory instead of the bucket.
#[test]
fn the_scheduled_commands_run() {
    for job in jobs("") {
        let bench = Bench::new();
        for epoch in 1..=3 {
            bench.epoch(epoch, r#"{"expired":true}"#);
        }
        let report = report_of(&job, &bench);
        assert_eq!(report["listed"], 3, "{job:?}");
    }
}

/// Runs the command of the unit with the variables of its environment file. The store is a
/// directory instead of the bucket.
#[test]
fn the_systemd_unit_campaigns_and_runs_its_program() {
    let bench = Bench::new();
    let program = bench.path("name.run");
    std::fs::write(&program, "#!/bin/sh\necho $TENURE_NAME $TENURE_EPOCH\n").expect("a file");
    std::fs::set_permissions(&program, Permissions::from_mode(0o755))
        .expect("the script belongs to this user");
    let exec = of_unit(SYSTEMD_RUN, "ExecStart").replace("%H", "host-7");
    let exec = exec.replace("/etc/tenure/%i.run", program.to_str().expect("text"));
    let line: Vec<_> = exec.split_whitespace().skip(1).collect();
    let mut run = command(&line);
    run.env("TENURE_STORE", bench.url()).env("TENURE_VALIDITY", "60s");
    let said = said(run.output().expect("the command runs"));
    assert_eq!(said.out, "host-7 1\n", "{said:?}");
    // The timeout must exceed the sum of the grace (a sixth of the validity) and the time for the
    // resignation. With a validity of 6 minutes, 30 s remain for the resignation.
    assert_eq!(of_unit(SYSTEMD_RUN, "TimeoutStopSec"), "90");
    assert_eq!(of_unit(SYSTEMD_RUN, "KillMode"), "process");
}

/// Runs a job on the directory of the bench instead of the bucket. Asserts that the job exits with
/// 0, and returns the JSON object that it prints.
fn report_of(job: &[String], bench: &Bench) -> Value {
    let url = bench.url();
    let word = |word: &'_ String| match word.starts_with("s3://") {
        true => url.clone(),
        false => word.clone(),
    };
    let line: Vec<String> = job.iter().map(word).collect();
    let said = tenure(&line.iter().map(String::as_str).collect::<Vec<_>>());
    assert_eq!((said.code, said.err.as_str()), (0, ""), "{job:?}: {said:?}");
    serde_json::from_str(&said.out).expect("the output is one JSON object")
}

/// Returns the command line of each scheduled job in `deploy`, with these options at its end.
fn jobs(options: &str) -> [Vec<String>; 3] {
    let exec = unit("ExecStart").replace("${TENURE_STORE}", "s3://BUCKET/PREFIX");
    let exec = exec.replace("$TENURE_COMPACT_OPTIONS", options);
    let with = |mut job: Vec<String>| {
        job.extend(options.split_whitespace().map(str::to_owned));
        job
    };
    [
        with(array_after(KUBERNETES, "args: ")),
        with(array_after(TERRAFORM, "compact   = ")),
        exec.split_whitespace().skip(1).map(str::to_owned).collect(),
    ]
}

/// According to the comments in the files, `--group` makes the job compact a group instead of an
/// election.
#[test]
fn with_group_the_scheduled_commands_compact_a_group() {
    assert!(KUBERNETES.contains(r#"add "--group" to the args"#));
    assert!(SYSTEMD.contains("TENURE_COMPACT_OPTIONS=--group"));
    assert!(TERRAFORM.contains(r#"concat(local.compact, var.group ? ["--group"] : [])"#));
    assert!(TERRAFORM.contains(r#"var.group ? "group-compactor" : "compactor""#));
    for job in jobs("--group") {
        let bench = Bench::new();
        bench.epoch(1, r#"{"expired":true}"#);
        bench.object("assignment-0000000001.json", "{}");
        let report = report_of(&job, &bench);
        assert_eq!((&report["listed"], &report["sessions"]["listed"]), (&1.into(), &0.into()));
    }
}

/// Returns the block of the Terraform file that begins with this text, up to its closing brace.
fn block(start: &str) -> &'static str {
    let (_, rest) = TERRAFORM.split_once(start).unwrap_or_else(|| panic!("{start} is in the file"));
    rest.split_once("\n}").expect("the call ends").0
}

/// Before the fix, the resources had fixed names, so an account could have only one election. Also,
/// the template worked only if the fenced log was in the region of the election's bucket, and only
/// in the AWS partition `aws`.
#[test]
fn regression_terraform_serves_many_elections_in_any_region_and_partition() {
    let value_of = |block: &'static str, name: &str| {
        let value =
            block.lines().find_map(|line| line.trim().strip_prefix(name)?.trim().strip_prefix('='));
        value.unwrap_or_else(|| panic!("{name} is in {block}")).trim()
    };
    assert!(value_of(block("locals {"), "full_name").contains("${var.name}"));
    for (kind, field) in [
        ("resource \"aws_iam_role\" \"compactor\" {", "name"),
        ("resource \"aws_iam_role\" \"execution\" {", "name"),
        ("resource \"aws_iam_role\" \"scheduler\" {", "name"),
        ("resource \"aws_cloudwatch_log_group\" \"compactor\" {", "name"),
        ("resource \"aws_ecs_task_definition\" \"compactor\" {", "family"),
        ("resource \"aws_scheduler_schedule\" \"compactor\" {", "name"),
    ] {
        let name = value_of(block(kind), field);
        assert!(name.contains("local.full_name") || name.contains("var.name"), "{kind} {name}");
    }
    let task = block("resource \"aws_ecs_task_definition\" \"compactor\" {");
    assert!(value_of(task, "awslogs-region").contains("aws_cloudwatch_log_group.compactor.arn"));
    let fixed: Vec<_> = TERRAFORM.lines().filter(|line| line.contains("arn:aws")).collect();
    assert_eq!(fixed.len(), 1, "{fixed:?}");
    assert!(fixed[0].contains(r#""arn:aws:", "arn:${local.partition}:""#), "{fixed:?}");
}

/// Returns whether a lifecycle rule expires the current versions of objects, or moves them to an
/// archive.
fn touches_current_versions(rule: &Value) -> bool {
    let expiration = &rule["Expiration"];
    !expiration["Days"].is_null()
        || !expiration["Date"].is_null()
        || !rule["Transitions"].is_null()
        || !rule["Transition"].is_null()
}

#[test]
fn the_recommended_rule_keeps_current_versions() {
    let allowed: Value = serde_json::from_str(LIFECYCLE).expect("JSON");
    for rule in allowed["Rules"].as_array().expect("rules") {
        assert!(!touches_current_versions(rule), "{rule}");
    }
    // The README shows a rule and warns against it, because the rule deletes current versions.
    let (_, rest) = README.split_once("```json\n").expect("the README shows a rule");
    let tried: Value =
        serde_json::from_str(rest.split("```").next().expect("the block ends")).expect("JSON");
    assert!(touches_current_versions(&tried["Rules"][0]), "{tried}");
}
