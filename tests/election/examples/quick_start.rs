//! The program of the quick start, on a store that does not answer for most of a validity.

use std::process::Command;

use super::{Program, built};
use tenure_testkit::s3_server::{Op, S3Request, S3Server, ServerFault};

/// Differences between the example and the page, with the words of the page first.
const DIFFERENCES: &[(&str, &str)] = &[
    (r#".name("worker-7")"#, r#".name("worker-7").validity(std::time::Duration::from_secs(8))"#),
    (
        r#"{ todo!("from where the log's last entry ends") }"#,
        r#"{ tokio::time::sleep(std::time::Duration::from_millis(50)).await; b"a batch".to_vec() }"#,
    ),
];

#[test]
fn the_example_is_the_program_of_the_page() {
    let read = |path: &str| {
        std::fs::read_to_string(format!("{}/{path}", env!("CARGO_MANIFEST_DIR"))).unwrap()
    };
    let page = read("docs/start/first-leader-in-rust.md");
    let (_, block) = page.split_once("```rust,no_run\n").expect("the page has a program");
    let (block, _) = block.split_once("```").expect("which ends");
    let mut expected = block.to_owned();
    for (here, there) in DIFFERENCES {
        assert!(expected.contains(here), "the page has no {here}");
        expected = expected.replace(here, there);
    }
    let example = read("examples/quick_start.rs");
    let program = &example[example.find("use std::sync::Arc;").expect("its first line")..];
    // The example is laid out by rustfmt.
    let words = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(words(program), words(&expected), "change examples/quick_start.rs, too");
}

/// The work returned normally after its cancellation, so the program took it for completed and
/// exited with 0.
#[test]
fn regression_the_example_campaigns_again_after_an_outage() {
    let server = S3Server::start_blocking();
    server.create_bucket("my-bucket");
    let written = |part: &str| {
        let put = |seen: &S3Request| seen.op == Op::Put && seen.key.contains(part);
        server.requests().iter().filter(|seen| put(seen)).count()
    };
    let mut command = Command::new(built("quick_start"));
    command.envs(server.env());
    let mut program = Program::spawn(command);
    program.until("it appends to the log", || written("orders/log/") > 3);
    // From here on no renewal is answered. The first one is sent after a third of the validity.
    // Three requests have a fifteenth of it, and the next ones a fifth: at the fifth the lease is
    // at risk.
    server.fault(ServerFault::Hold).on(Op::Put).key_contains("orders/leader/lock-0000000001");
    let held = || server.faults_met().get("Hold").copied().unwrap_or_default();
    program.until("five requests hang", || held() >= 5);
    server.clear_faults();
    program.until("it is elected again", || written("orders/leader/lock-0000000002") > 0);
    let appended = written("orders/log/");
    program.until("it continues with the log", || written("orders/log/") > appended + 3);
}
