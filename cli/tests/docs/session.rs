//! Runs the shell blocks of a page in order, in one directory with one S3 server.

use std::fs::{self, File};
use std::os::unix::process::CommandExt as _;
use std::process::Stdio;

use nix::sys::signal::{Signal, killpg};
use nix::unistd::Pid;

use super::page::{Block, Page};
use super::shims::Shims;
use tenure_testkit::s3_server::S3Server;

/// The test prints this character between the commands of a `console` block to separate their
/// outputs.
const RULER: char = '\u{1e}';

pub fn problems(page: &Page) -> Vec<String> {
    let server = S3Server::start_blocking();
    let mut session = Session { shims: Shims::new(), server, groups: Vec::new() };
    let mut problems = Vec::new();
    let mut output = None;
    for block in &page.blocks {
        if block.not_run.is_some() {
            output = None;
            continue;
        }
        let at = page.at(block.line);
        let checked = match block.word() {
            "sh" => session.shell(&at, &block.text).map(|said| output = Some(said)),
            "console" => session.console(&at, block),
            "text" if block.follows => {
                output.take().map_or(Ok(()), |said| check(&block.text, &said))
            }
            _ => Ok(()),
        };
        if block.word() != "sh" {
            output = None;
        }
        problems.extend(checked.err().map(|why| format!("{at}: {why}")));
    }
    problems
}

/// Maximum number of polls while the test waits for the end of a block. Polls are 50 ms apart, so
/// the time limit of a block is 5 minutes.
const LOOKS: u32 = 6_000;

struct Session {
    shims: Shims,
    server: S3Server,
    /// Process groups of the shell blocks. Some of their processes may run in the background.
    groups: Vec<Pid>,
}

impl Session {
    fn shell(&mut self, at: &str, script: &str) -> Result<String, String> {
        let (ended_well, said) = self.run(at, &format!("set -euo pipefail\n{script}"));
        if ended_well { Ok(said) } else { Err(format!("the block fails with the output\n{said}")) }
    }

    fn console(&mut self, at: &str, block: &Block) -> Result<(), String> {
        let mut commands = Vec::<(String, String)>::new();
        for line in block.text.lines() {
            match (line.strip_prefix("$ "), commands.last_mut()) {
                (Some(command), _) => commands.push((command.to_owned(), String::new())),
                (None, Some((command, said))) if command.ends_with('\\') && said.is_empty() => {
                    command.push('\n');
                    command.push_str(line);
                }
                (None, Some((_, said))) => {
                    said.push_str(line);
                    said.push('\n');
                }
                (None, None) => return Err("the block does not begin with a command".to_owned()),
            }
        }
        let script = commands.iter().map(|(command, _)| {
            format!("{command}\n__code=$?; printf '{RULER}'; (exit $__code)\n")
        });
        let (_, said) = self.run(at, &script.collect::<String>());
        for ((command, expected), said) in commands.iter().zip(said.split(RULER)) {
            check(expected, said).map_err(|why| format!("$ {command}\n{why}"))?;
        }
        Ok(())
    }

    /// Runs this shell script. Returns whether the script succeeded, and its output.
    fn run(&mut self, at: &str, script: &str) -> (bool, String) {
        for bucket in buckets(script) {
            self.server.create_bucket(&bucket);
        }
        // The blocks write below `/tmp`. The test replaces this folder by a folder that it deletes
        // afterwards.
        let tmp = format!("{}/", self.shims.path("work/tmp").display());
        let script = script.replace("/tmp/", &tmp);
        let path = self.shims.path("said");
        let said = File::create(&path).expect("a file");
        let mut bash = self.shims.bash();
        let bash = bash
            .args(["-c", &script])
            .envs(self.server.env())
            .env("AT", at)
            .stdin(Stdio::null())
            .stdout(said.try_clone().expect("a second handle"))
            .stderr(said)
            .process_group(0);
        let mut child = bash.spawn().expect("bash starts");
        let group = Pid::from_raw(child.id().cast_signed());
        self.groups.push(group);
        let mut status = None;
        for _ in 0..LOOKS {
            status = child.try_wait().expect("the child can be polled");
            if status.is_some() {
                break;
            }
            nap();
        }
        if status.is_none() {
            // Also kill the descendants of the script, because they keep its output open.
            let _ = killpg(group, Signal::SIGKILL);
        }
        let ended_well = child.wait().expect("the child can be awaited").success();
        let said = fs::read_to_string(&path).expect("text");
        (ended_well, said.replace(&tmp, "/tmp/"))
    }
}

impl Drop for Session {
    fn drop(&mut self) {
        for group in &self.groups {
            let gone = || killpg(*group, None).is_err();
            // Send SIGTERM first, because leaders in this process group then resign.
            let _ = killpg(*group, Signal::SIGTERM);
            let mut looks = 200;
            while !gone() && looks > 0 {
                nap();
                looks -= 1;
            }
            let _ = killpg(*group, Signal::SIGKILL);
        }
    }
}

#[allow(clippy::disallowed_methods, reason = "real processes end in real time")]
fn nap() {
    std::thread::sleep(std::time::Duration::from_millis(50));
}

/// Returns the names of the buckets that a script uses.
fn buckets(script: &str) -> Vec<String> {
    let urls = script.split("s3://").skip(1);
    let names = urls.map(|url| url.split(|c: char| !c.is_alphanumeric() && c != '-'));
    names.filter_map(|mut name| name.next()).map(str::to_owned).collect()
}

/// Compares the output of a command with the output that the page shows.
fn check(expected: &str, said: &str) -> Result<(), String> {
    let lines = |text: &str| -> Vec<String> {
        text.trim_end().lines().map(|line| line.trim_end().to_owned()).collect()
    };
    if agree(&lines(expected), &lines(said)) {
        return Ok(());
    }
    Err(format!("the page has\n{}\nbut the output is\n{}", expected.trim_end(), said.trim_end()))
}

fn agree(expected: &[String], said: &[String]) -> bool {
    match expected {
        [] => said.is_empty(),
        [any, rest @ ..] if any == "…" => {
            (0..=said.len()).any(|skipped| agree(rest, &said[skipped..]))
        }
        [line, rest @ ..] => {
            said.first().is_some_and(|first| alike(line, first)) && agree(rest, &said[1..])
        }
    }
}

/// Returns whether the output matches the expected line. Each `…` in the line matches any text. So
/// the parts that `…` separates must occur in the output in the same order. The first part must be
/// at the start of the output, and the last part at the end.
fn alike(expected: &str, said: &str) -> bool {
    let Some((start, rest)) = expected.split_once('…') else { return expected == said };
    let Some(mut said) = said.strip_prefix(start) else { return false };
    let mut parts = rest.split('…').peekable();
    while let Some(part) = parts.next() {
        if parts.peek().is_none() {
            return said.ends_with(part);
        }
        let Some((_, after)) = said.split_once(part) else { return false };
        said = after;
    }
    true
}
