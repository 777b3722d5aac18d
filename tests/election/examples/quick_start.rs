//! The program of the quick start, on a store that does not answer for most of a validity.

use std::process::Command;

use super::{Program, built};
use tenure_testkit::s3_server::{Op, S3Request, S3Server, ServerFault};

/// The differences between the program in docs/start/first-leader-in-rust.md and the example. Each
/// pair contains a text of the page, and the text that replaces it in the example.
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
    let (block, _) = block.split_once("```").expect("the program ends");
    let mut expected = block.to_owned();
    for (here, there) in DIFFERENCES {
        assert!(expected.contains(here), "the page has no {here}");
        expected = expected.replace(here, there);
    }
    let example = read("examples/quick_start.rs");
    let program =
        &example[example.find("use std::sync::Arc;").expect("the example has this line")..];
    // rustfmt formats the example, so whitespace may differ.
    let words = |text: &str| text.split_whitespace().collect::<String>();
    assert_eq!(words(program), words(&expected), "change examples/quick_start.rs, too");
}

/// Before the fix, the work of the example returned normally after its cancellation. So the example
/// treated the work as completed, and exited with 0 instead of campaigning again.
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
    program.until("the example appends to the log", || written("orders/log/") > 3);
    // From now on, the store does not answer renewals. The leader sends the first renewal after a
    // third of the validity. Each of the first three requests times out after a fifteenth of the
    // validity, and each later request after a fifth. So the lease is at risk when the leader sends
    // the fifth request.
    server.fault(ServerFault::Hold).on(Op::Put).key_contains("orders/leader/lock-0000000001");
    let held = || server.faults_met().get("Hold").copied().unwrap_or_default();
    program.until("five requests hang", || held() >= 5);
    server.clear_faults();
    program.until("the example is elected again", || written("orders/leader/lock-0000000002") > 0);
    let appended = written("orders/log/");
    program.until("the example continues with the log", || written("orders/log/") > appended + 3);
}
