//! Tests the directory store with real processes. The tests kill some processes at random moments,
//! and let other processes race for one key.
//!
//! The processes run this test program. An environment variable makes the program run only
//! [`child_process`].

use std::collections::BTreeMap;
use std::fs::{self, File};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Child, ChildStderr, ChildStdin, Command, Stdio};

use bytes::Bytes;
use tenure::store::DirStore;
use tenure::store::{ETag, GetOutcome, Object, PutOutcome, Store};

const DIRECTORY: &str = "TENURE_TEST_CHILD_DIRECTORY";
const NAME: &str = "TENURE_TEST_CHILD_NAME";
const SHARED: &str = "app/shared.json";
const MAX_LEN: usize = 100_000;

#[tokio::test]
async fn killed_processes_leave_whole_objects_and_no_lock() {
    const ROUNDS: usize = 30;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = DirStore::open(dir.path()).expect("opened");
    created(&store, SHARED, body(0, "parent")).await;
    let mut made = Vec::new();
    let mut greatest = 0;
    for round in 0..ROUNDS {
        let mut first = Process::spawn(dir.path(), &format!("first-{round}"));
        let mut second = Process::spawn(dir.path(), &format!("second-{round}"));
        first.tell("loop");
        second.tell("loop");
        let mut acks = first.killed_after(fastrand::usize(1..20));
        // The first process may have held the lock when it was killed. The second process must
        // nevertheless continue to write.
        acks.extend(second.killed_after(fastrand::usize(3..20)));
        for ack in acks {
            match ack.split(' ').collect::<Vec<_>>()[..] {
                ["made", key, number] => made.push((key.to_owned(), number.to_owned())),
                ["shared", number] => greatest = greatest.max(number.parse().expect("a number")),
                _ => panic!("unknown line of a child: {ack:?}"),
            }
        }
        let (number, writer) = whole(&found(&store, SHARED).await.body);
        assert!(number >= greatest, "the body has {number} of {writer}, after {greatest}");
        created(&store, &format!("after/{round}"), body(0, "parent")).await;
    }

    let all = all_objects(&store, "made/").await;
    for (key, number) in &made {
        let object = all.get(key).unwrap_or_else(|| panic!("{key} was written and is missing"));
        assert_eq!(whole(object).0.to_string(), *number, "{key}");
    }
    for object in all.values() {
        whole(object);
    }
    assert!(made.len() >= ROUNDS && greatest > 0, "the children wrote no object");
}

#[tokio::test]
async fn one_process_wins_each_round() {
    const PROCESSES: usize = 6;
    const ROUNDS: usize = 40;
    let dir = tempfile::tempdir().expect("a temporary directory");
    let store = DirStore::open(dir.path()).expect("opened");
    let mut racers = (0..PROCESSES)
        .map(|i| Process::spawn(dir.path(), &format!("racer-{i}")))
        .collect::<Vec<_>>();
    for round in 0..ROUNDS {
        let key = format!("app/lock-{round:010}.json");
        let object = winner(&store, &mut racers, &key, |_| format!("create {key}")).await;
        let etag = object.etag.to_string();
        winner(&store, &mut racers, &key, |_| format!("replace {key} {etag}")).await;
    }
}

/// Before the fix, if no file descriptor was free, each attempt of the first write to a store left
/// a folder.
#[tokio::test]
async fn regression_a_failed_first_write_leaves_no_folder() {
    let dir = tempfile::tempdir().expect("a temporary directory");
    let mut process = Process::spawn(dir.path(), "first");
    // Two descriptors suffice for the root and the new work folder, but not for its lock file.
    process.tell("first 2");
    let answer = process.answer();
    assert!(answer.contains("Too many open files") && answer.contains("/lock"), "{answer}");
    assert_eq!(fs::read_dir(dir.path()).expect("listed").count(), 0, "{answer}");
}

/// Orders each process to write the same object. Asserts that one process succeeds, that the store
/// refuses the others, and that the object has the body of the successful process.
async fn winner(
    store: &DirStore,
    racers: &mut [Process],
    key: &str,
    order: impl Fn(usize) -> String,
) -> Object {
    for (i, racer) in racers.iter_mut().enumerate() {
        racer.tell(&format!("{} by-{i}", order(i)));
    }
    let answers = racers.iter_mut().map(Process::answer).collect::<Vec<_>>();
    let winners = (0..racers.len()).filter(|i| answers[*i] == "done").collect::<Vec<_>>();
    let refused = answers.iter().filter(|answer| *answer == "refused").count();
    assert_eq!((winners.len(), refused), (1, racers.len() - 1), "{key}: {answers:?}");
    let object = found(store, key).await;
    assert_eq!(whole(&object.body).1, format!("by-{}", winners[0]), "{key}: {answers:?}");
    object
}

/// A child process that is killed on drop. The child answers on stderr, because the test harness
/// writes to stdout.
struct Process {
    child: Child,
    orders: ChildStdin,
    answers: BufReader<ChildStderr>,
}

impl Process {
    fn spawn(dir: &Path, name: &str) -> Process {
        let mut child = Command::new("sh")
            .args(["-c", "ulimit -n 64; exec \"$0\" \"$@\""])
            .arg(std::env::current_exe().expect("this program"))
            .args(["dir_store::processes::child_process", "--exact", "--nocapture"])
            .env(DIRECTORY, dir)
            .env(NAME, name)
            .stdin(Stdio::piped())
            .stdout(Stdio::null())
            .stderr(Stdio::piped())
            .spawn()
            .expect("started");
        let orders = child.stdin.take().expect("piped");
        let answers = BufReader::new(child.stderr.take().expect("piped"));
        Process { child, orders, answers }
    }

    fn tell(&mut self, order: &str) {
        self.orders.write_all(format!("{order}\n").as_bytes()).expect("the child reads");
    }

    fn answer(&mut self) -> String {
        self.next_line().expect("the child answers")
    }

    /// Returns the next line, or `None` at the end. Ignores an incomplete last line.
    fn next_line(&mut self) -> Option<String> {
        let mut line = String::new();
        self.answers.read_line(&mut line).expect("UTF-8");
        line.strip_suffix('\n').map(str::to_owned)
    }

    /// Kills the child at a random moment after this number of answers. Returns all answers.
    fn killed_after(mut self, answers: usize) -> Vec<String> {
        let mut said = (0..answers).map(|_| self.answer()).collect::<Vec<_>>();
        for _ in 0..fastrand::u32(0..100_000) {
            std::hint::spin_loop();
        }
        self.child.kill().expect("killed");
        said.extend(std::iter::from_fn(|| self.next_line()));
        said
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The program of a child. The program has no effect when it runs as a normal test.
#[tokio::test]
async fn child_process() {
    let Some(dir) = std::env::var_os(DIRECTORY) else { return };
    let name = std::env::var(NAME).expect("the parent sets both variables");
    let store = DirStore::open(dir).expect("opened");
    for order in std::io::stdin().lines() {
        let order = order.expect("UTF-8");
        let outcome = match order.split(' ').collect::<Vec<_>>()[..] {
            ["loop"] => write_for_ever(&store, &name).await,
            ["first", free] => {
                let mut opened = all_descriptors();
                opened.truncate(opened.len() - free.parse::<usize>().expect("a number"));
                store.create("a", body(1, &name)).await
            }
            ["create", key, by] => store.create(key, body(1, by)).await,
            ["replace", key, etag, by] => store.replace(key, body(2, by), ETag::new(etag)).await,
            _ => panic!("unknown order {order:?}"),
        };
        say(&match outcome {
            Ok(PutOutcome::Done { .. }) => "done".to_owned(),
            Ok(PutOutcome::PreconditionFailed) => "refused".to_owned(),
            other => format!("{other:?}"),
        });
    }
}

/// Opens files until no file descriptor is free.
fn all_descriptors() -> Vec<File> {
    std::iter::from_fn(|| File::open("/dev/null").ok()).collect()
}

/// In a loop, creates an object and increases the number in a shared object. Prints a line for each
/// write that the store has answered.
async fn write_for_ever(store: &DirStore, name: &str) -> ! {
    for number in 1.. {
        let key = format!("made/{name}-{number:06}");
        created(store, &key, body(number, name)).await;
        say(&format!("made {key} {number}"));

        let object = found(store, SHARED).await;
        let next = whole(&object.body).0 + 1;
        match store.replace(SHARED, body(next, name), object.etag).await {
            Ok(PutOutcome::Done { .. }) => say(&format!("shared {next}")),
            Ok(PutOutcome::PreconditionFailed) => {}
            other => panic!("{other:?}"),
        }
    }
    unreachable!("the numbers do not end")
}

/// Prints the line with a single write. So a killed process leaves no incomplete line.
fn say(line: &str) {
    std::io::stderr().write_all(format!("{line}\n").as_bytes()).expect("the parent reads");
}

/// Returns a body that has `number` at its start and at its end. So a reader can detect an
/// incomplete write.
fn body(number: u64, writer: &str) -> Bytes {
    let filling = "x".repeat(usize::try_from(number * 7_919 % 5_000).expect("less than 5,000"));
    format!("{number} {writer} {filling} {number} end").into()
}

/// Returns the number and the writer of a body. Asserts that the body is whole.
fn whole(bytes: &Bytes) -> (u64, String) {
    let text = std::str::from_utf8(bytes).expect("UTF-8");
    let [number, writer, ..] = text.split(' ').collect::<Vec<_>>()[..] else {
        panic!("not whole: {text:?}")
    };
    let number = number.parse().expect("a number");
    assert_eq!(*bytes, body(number, writer), "not whole");
    (number, writer.to_owned())
}

async fn created(store: &DirStore, key: &str, body: Bytes) {
    match store.create(key, body).await {
        Ok(PutOutcome::Done { etag: Some(_) }) => {}
        other => panic!("create {key}: {other:?}"),
    }
}

async fn found(store: &DirStore, key: &str) -> Object {
    match store.get(key, None, MAX_LEN).await {
        Ok(GetOutcome::Found(object)) => object,
        other => panic!("get {key}: {other:?}"),
    }
}

async fn all_objects(store: &DirStore, prefix: &str) -> BTreeMap<String, Bytes> {
    let mut all = BTreeMap::new();
    let mut after = String::new();
    loop {
        let page = store.list(prefix, &after, 100).await.expect("listed");
        for entry in page.entries {
            all.insert(entry.key.clone(), found(store, &entry.key).await.body);
            after = entry.key;
        }
        if !page.truncated {
            return all;
        }
    }
}
