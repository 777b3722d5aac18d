//! Which tests reach which mutants, and which tests fail with a mutant switched on.

use std::collections::BTreeMap;
use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::Mutex;
use std::time::{Duration, UNIX_EPOCH};

use anyhow::{Context, Result, ensure};

use crate::tree::Program;

/// A single test, and how long it takes.
#[derive(Clone, Debug)]
pub struct Test {
    program: Program,
    name: String,
    takes: Duration,
}

#[derive(Clone, Debug, PartialEq)]
pub enum Verdict {
    /// By the first test of this program.
    Caught(String),
    /// Not answered in many times the time that the tests take.
    Timeout(String),
    Missed,
    /// No test runs the code.
    Unreached,
    DoesNotCompile,
    /// Where a switch cannot be, in a constant for one: only cargo-mutants itself can try it.
    Alone,
}

pub struct Runner {
    pub root: PathBuf,
    pub work: PathBuf,
    pub jobs: usize,
    /// Tests that take longer are left out.
    pub longest: Duration,
}

enum Ended {
    Passed,
    Failed,
    TimedOut,
}

impl Runner {
    /// Runs each test by itself. A test that fails without a mutant is named and left out.
    pub fn reach(&self, programs: &[Program]) -> Result<BTreeMap<u32, Vec<Test>>> {
        let mut names = Vec::new();
        for program in programs {
            let listed = Command::new(&program.path)
                .args(["--list", "--format", "terse"])
                .current_dir(&self.root)
                .output()?;
            ensure!(listed.status.success(), "{} lists no tests", program.path.display());
            for line in String::from_utf8(listed.stdout)?.lines() {
                if let Some(name) = line.strip_suffix(": test") {
                    names.push((program.clone(), name.to_owned()));
                }
            }
        }
        let total = names.len();
        let kept = self.work.join("reached");
        let known = fs::read_to_string(&kept).unwrap_or_default();
        let known: BTreeMap<&str, &str> =
            known.lines().filter_map(|line| line.split_once('\t')).collect();
        let found = Mutex::new(BTreeMap::<u32, Vec<Test>>::new());
        let (left_out, lines) = (Mutex::new(Vec::new()), Mutex::new(Vec::new()));
        self.parallel(names, |job, (program, name)| {
            let built = fs::metadata(&program.path)?.modified()?.duration_since(UNIX_EPOCH)?;
            let key = format!("{} {} {name}", program.path.display(), built.as_nanos());
            let line = match known.get(key.as_str()) {
                Some(line) => (*line).to_owned(),
                None => self.reach_of(job, &program, &name)?,
            };
            lines.lock().expect("no panic").push(format!("{key}\t{line}\n"));
            let mut numbers = line.split(' ').filter_map(|number| number.parse().ok());
            let takes = Duration::from_millis(numbers.next().unwrap_or_default());
            if takes > self.longest || line == FAILS {
                left_out.lock().expect("no panic").push(format!("{} {name}", program.name));
                return Ok(());
            }
            let test = Test { program, name, takes };
            let mut found = found.lock().expect("no panic");
            for id in numbers.filter_map(|id| u32::try_from(id).ok()) {
                found.entry(id).or_default().push(test.clone());
            }
            Ok(())
        })?;
        fs::write(kept, lines.into_inner().expect("no panic").concat())?;
        let left_out = left_out.into_inner().expect("no panic");
        eprintln!("{} of {total} tests", total - left_out.len());
        left_out
            .iter()
            .for_each(|name| eprintln!("left out, as it fails or takes too long: {name}"));
        let mut found = found.into_inner().expect("no panic");
        // A quick test that reaches little says most for its time.
        let mut reached: BTreeMap<(PathBuf, String), u32> = BTreeMap::new();
        let name = |test: &Test| (test.program.path.clone(), test.name.clone());
        for test in found.values().flatten() {
            *reached.entry(name(test)).or_default() += 1;
        }
        for tests in found.values_mut() {
            tests.sort_by_cached_key(|test| test.takes * reached[&name(test)]);
        }
        Ok(found)
    }

    /// The milliseconds that a test takes, and the mutants that it reaches.
    fn reach_of(&self, job: usize, program: &Program, name: &str) -> Result<String> {
        let file = self.work.join(format!("reached.{job}"));
        // Tests of permissions run once more as another user.
        fs::write(&file, "")?;
        fs::set_permissions(&file, fs::Permissions::from_mode(0o666))?;
        let reached = ("MUTANTS_REACHED", file.to_str().context("a path is text")?);
        let (ended, takes) = self.start(program, &[name], Duration::from_secs(60), &[reached])?;
        if !matches!(ended, Ended::Passed) {
            return Ok(FAILS.to_owned());
        }
        let ids = fs::read_to_string(&file).unwrap_or_default();
        Ok(format!("{} {}", takes.as_millis(), ids.lines().collect::<Vec<_>>().join(" ")))
    }

    /// Runs the tests that reach the mutant, the quick ones first, until one fails.
    pub fn verdict(&self, id: u32, tests: &[Test]) -> Result<Verdict> {
        if tests.is_empty() {
            return Ok(Verdict::Unreached);
        }
        let switch = id.to_string();
        for batch in batches(tests) {
            let program = &batch[0].program;
            let names: Vec<&str> = batch.iter().map(|test| test.name.as_str()).collect();
            let limit = Duration::from_millis(1_500) + takes(&batch) * 5;
            match self.start(program, &names, limit, &[("MUTANT", &switch)])?.0 {
                Ended::Passed => {}
                Ended::Failed => return Ok(Verdict::Caught(program.name.clone())),
                Ended::TimedOut => return Ok(Verdict::Timeout(program.name.clone())),
            }
        }
        Ok(Verdict::Missed)
    }

    /// Calls `f` with each item, `jobs` at a time.
    pub fn parallel<T: Send>(
        &self,
        items: Vec<T>,
        f: impl Fn(usize, T) -> Result<()> + Sync,
    ) -> Result<()> {
        let items = Mutex::new(items.into_iter());
        let next = || items.lock().expect("no panic").next();
        let work = |job| {
            while let Some(item) = next() {
                f(job, item)?;
            }
            Ok(())
        };
        let work = &work;
        std::thread::scope(|scope| {
            let jobs: Vec<_> = (0..self.jobs).map(|job| scope.spawn(move || work(job))).collect();
            jobs.into_iter().try_for_each(|job| job.join().expect("no job panics"))
        })
    }

    /// Runs tests of a program. `limit` is of processor time, as the machine may be busy: a mutant
    /// may loop, wait or allocate without end.
    fn start(
        &self,
        program: &Program,
        tests: &[&str],
        limit: Duration,
        environment: &[(&str, &str)],
    ) -> Result<(Ended, Duration)> {
        let output = Command::new("bash")
            .args(["-c", START, "bash", &limit.as_secs_f64().ceil().to_string()])
            .arg(&program.path)
            .args(["--exact", "--quiet", "--test-threads=2"])
            .args(tests)
            .current_dir(&self.root)
            .env("CARGO_MANIFEST_DIR", &self.root)
            .envs(environment.iter().copied())
            .stdin(Stdio::null())
            .output()?;
        let times = String::from_utf8(output.stderr)?;
        let seconds = times.split_whitespace().filter_map(|time| time.parse::<f64>().ok()).sum();
        let ended = match output.status.code() {
            Some(0) => Ended::Passed,
            // Of `timeout`, and of a process killed by SIGKILL or SIGXCPU.
            Some(124 | 137 | 152) => Ended::TimedOut,
            _ => Ended::Failed,
        };
        Ok((ended, Duration::from_secs_f64(seconds)))
    }
}

const FAILS: &str = "fails";

/// Prints the processor seconds.
const START: &str = r#"
    ulimit -c 0 -v 8000000 -t "$1"
    TIMEFORMAT='%U %S'
    shift
    time timeout -k 1 120 "$@" >/dev/null 2>&1
"#;

/// Batches of tests of one program each. The first ones are short: most mutants are caught by
/// those.
fn batches(tests: &[Test]) -> Vec<Vec<&Test>> {
    let mut programs: BTreeMap<&PathBuf, Vec<Vec<&Test>>> = BTreeMap::new();
    for test in tests {
        let batches = programs.entry(&test.program.path).or_default();
        let longest = [100, 300].get(batches.len().saturating_sub(1)).copied().unwrap_or(1_000);
        let room =
            |batch: &&mut Vec<&Test>| takes(batch) + test.takes < Duration::from_millis(longest);
        match batches.last_mut().filter(room) {
            Some(batch) => batch.push(test),
            None => batches.push(vec![test]),
        }
    }
    let mut batches: Vec<_> = programs.into_values().flatten().collect();
    // The library's own tests are the nearest, and those of the drawn cases the most searching.
    batches.sort_by_key(|batch| (batch[0].program.name != LIBRARY, takes(batch)));
    batches
}

const LIBRARY: &str = "tenure";

fn takes(batch: &[&Test]) -> Duration {
    batch.iter().map(|test| test.takes).sum()
}

/// Writes verdicts: one a line, the mutant's key, a tab, the verdict.
pub fn write(path: &Path, verdicts: &BTreeMap<String, Verdict>) -> Result<()> {
    let lines = verdicts.iter().map(|(key, verdict)| format!("{key}\t{verdict:?}\n"));
    Ok(fs::write(path, lines.collect::<String>())?)
}

/// Reads the verdicts that need no second look.
pub fn read_caught(path: &Path) -> BTreeMap<String, Verdict> {
    let text = fs::read_to_string(path).unwrap_or_default();
    let verdict = |line: &str| {
        let (key, verdict) = line.split_once('\t')?;
        let program = verdict.split('"').nth(1)?.to_owned();
        let verdict = if verdict.starts_with("Caught") {
            Verdict::Caught(program)
        } else {
            Verdict::Timeout(program)
        };
        Some((key.to_owned(), verdict))
    };
    text.lines().filter_map(verdict).collect()
}
