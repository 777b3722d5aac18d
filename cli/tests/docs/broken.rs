//! The checks can fail: small pages, each wrong in one way, and what is said of it.

use super::page::Page;
#[cfg(feature = "s3")]
use super::{cargo, session};
use super::{flags, links, rules};

fn page(text: &str) -> Page {
    Page::parse("docs/bad.md", text)
}

#[track_caller]
fn says(problems: &[String], words: &[&str]) {
    assert_eq!(problems.len(), 1, "{problems:?}");
    for word in words {
        assert!(problems[0].contains(word), "{word:?} is not in {:?}", problems[0]);
    }
}

#[test]
fn blocks_that_break_a_rule() {
    let cases = [
        ("```\nls\n```\n", "without a tag"),
        ("    ls\n", "without a tag"),
        ("```python\n1\n```\n", "no rule for blocks of \"python\""),
        ("<!-- not run: -->\n```sh\nls\n```\n", "for no reason"),
        ("<!-- not run: later -->\n```text\nls\n```\n", "would not be run anyway"),
        ("```json\n{ a: 1 }\n```\n", "no JSON"),
        ("```yaml\na: [\n```\n", "no YAML"),
        ("```yaml\nargs: [status, --json, --every, 1s]\n```\n", "status has no --every"),
        ("```yaml\ncommand: [/bin/tenure, lead]\n```\n", "no verb \"lead\""),
        ("```yaml\n- a: { args: [tenure, run, --keep, 1, --, x, --y] }\n```\n", "no --keep"),
        ("```rust\nlet a = 1;\n```\n", "never compiled"),
        ("```rust,ignore\nlet a = 1;\n```\n", "not even compiled"),
        ("```promql\nrate(tenure_no_such_total[5m])\n```\n", "no metric tenure_no_such_total"),
        ("```sql\nSELECT a FROM nowhere;\n```\n", "no such table"),
    ];
    for (text, why) in cases {
        says(&rules::problems(&page(text)), &["docs/bad.md:", why]);
    }
    let good = "<!-- not run: it needs a bucket -->\n\n```sh\nls\n```\n";
    assert!(rules::problems(&page(good)).is_empty());
    // A reason is for the next block alone.
    let later = format!("{good}\n```sh\nls\n```\n");
    assert!(page(&later).blocks[1].not_run.is_none() && page(&later).blocks[1].follows);
}

#[test]
fn programs_whose_dependencies_the_page_does_not_name() {
    let program = "```rust,no_run\nuse futures::StreamExt as _;\n```\n";
    let problems = rules::problems(&page(program));
    assert!(problems.iter().any(|problem| problem.contains("futures:: without")), "{problems:?}");
    let named =
        format!("```toml\n[dependencies]\nfutures = \"0.3\"\ntokio = \"1\"\n```\n{program}");
    let problems = rules::problems(&page(&named));
    assert!(!problems.iter().any(|problem| problem.contains("without")), "{problems:?}");
}

#[test]
fn links_to_nowhere() {
    let cases = [
        ("[a](../gone.md)\n", "../gone.md is not there"),
        ("[a](protocol.md#no-such-heading)\n", "no such heading"),
        ("# A\n\n[a](#b)\n", "#b has no such heading"),
        ("[a](../Cargo.toml#b)\n", "no page with headings"),
        ("`src/no_such_file.rs`\n", "src/no_such_file.rs is not there"),
    ];
    let pages = super::pages();
    for (text, why) in cases {
        says(&links::problems(&page(text), &pages), &["docs/bad.md:", why]);
    }
    let good = "# A `b`, c!\n\n# A `b`, c!\n\n[a](#a-b-c) [a](#a-b-c-1) [a](protocol.md#2-words)\n";
    assert!(links::problems(&page(good), &pages).is_empty());
}

#[test]
fn flags_that_nobody_has() {
    let cases = [
        ("`tenure run --ttl 3s`\n", "run has no --ttl"),
        ("`tenure lead`\n", "no verb \"lead\""),
        ("`compact --keeep=3`\n", "compact has no --keeep"),
        ("`--lock`\n", "nobody has --lock"),
        ("`tenure table create --json`\n", "table create has no --json"),
    ];
    for (text, why) in cases {
        says(&flags::problems(&page(text)), &["docs/bad.md:1", why]);
    }
    let good = "`tenure run --poll=3s -- cmd --any` `--keep` `tenure watch [--json]` `a --b`\n";
    assert!(flags::problems(&page(good)).is_empty());
}

#[cfg(feature = "s3")]
#[test]
fn cargo_commands_that_name_what_is_not_there() {
    let cases = [
        ("`cargo tset`\n", "no verb \"tset\""),
        ("`cargo test --tset cli`\n", "no option --tset"),
        ("`cargo test --test clii`\n", "no test \"clii\""),
        ("`A=1 cargo test --features s3,s4 --lib`\n", "no features \"s3,s4\""),
        ("`cargo run --example nothing`\n", "no example \"nothing\""),
        ("`cargo bench --bench nothing`\n", "no bench \"nothing\""),
        ("`cargo run -p nothing`\n", "no package \"nothing\""),
        ("`cargo test --test election no_such_name`\n", "no test of election has"),
        ("`cargo test --lib i8_a_lease::no_such_name`\n", "no test of --lib has"),
        ("`cargo test --test cli -- no_such_name`\n", "no test of cli has"),
        // A function, but no test.
        ("`cargo test --test docs broken::says`\n", "no test of docs has"),
        ("`cargo test --test docs broken -- --ignored`\n", "no ignored test of docs has"),
        (
            "`cargo test --no-default-features --features dynamodb --test stores gcs_promises`\n",
            "no test of stores has",
        ),
        ("`cargo test --no-default-features --test stores s3_store`\n", "no test of stores has"),
        ("`cargo test -p tenure --lib regression_an_item_left_out`\n", "no test of --lib has"),
        ("`cargo test -p tenure-model --test model no_such_name`\n", "no test of model has"),
        ("`cargo test -- --nocature`\n", "no option --nocature"),
        ("`scripts/moto.sh -- cargo test --test clii`\n", "no test \"clii\""),
        ("`scripts/mot.sh -- cargo test`\n", "docs/bad.md"),
    ];
    for (text, why) in cases {
        let problems = cargo::problems(&page(text));
        // bash complains of a script that is not there, too.
        says(&problems[problems.len().saturating_sub(1)..], &["docs/bad.md:", why]);
    }
    let good = "`SEED=1 cargo test --lib fuzzing::records -- --nocapture` `cargo` `scripts/` \
        `cargo test --test stores gcs_promises` \
        `cargo test -p tenure --test stores s3_store` \
        `cargo test -p tenure --features gcs --test stores object_store::memory`\n";
    assert!(cargo::problems(&page(good)).is_empty(), "{:?}", cargo::problems(&page(good)));
}

#[cfg(feature = "s3")]
#[test]
fn commands_that_do_otherwise() {
    let cases = [
        ("```sh\nfalse\n```\n", "it ends badly"),
        ("```sh\ntenure status --store s3://b/p --jsn\n```\n", "it ends badly"),
        ("```sh\necho a\n```\n\n```text\nb\n```\n", "the page has\nb\nbut it says\na"),
        ("```console\n$ echo a\nb\n$ echo c\nc\n```\n", "$ echo a\nthe page has\nb"),
        ("```console\n$ echo a\na\nb\n```\n", "but it says\na"),
        ("```console\necho a\n```\n", "does not begin with a command"),
        ("```sh\ncargo test --test clii\n```\n", "no test \"clii\""),
    ];
    for (text, why) in cases {
        says(&session::problems(&page(text)), &["docs/bad.md:", why]);
    }
    let good = "```sh\nX=1; echo a >/tmp/a\n```\n\n```sh\ncat /tmp/a; echo /tmp/a >&2\n```\n\n\
        ```text\na\n/tmp/a\n```\n\n```console\n$ echo a b; \\\n  false\na …\n$ echo $?\n1\n\
        $ cargo run -- status --store s3://b/p\n…\n```\n";
    let problems = session::problems(&page(good));
    assert!(problems.is_empty(), "{problems:?}");
}

#[cfg(feature = "s3")]
#[test]
fn outputs_agree_up_to_what_is_left_open() {
    let agree = |expected: &str, said: &str| session::check(expected, said).is_ok();
    assert!(agree("a…c", "a b c") && agree("a … c … e\n", "a b c d e") && agree("…", ""));
    assert!(agree("a\n…\nd\n", "a\nb\nc\nd\n") && agree("a\n…\nb", "a\nb"));
    for (expected, said) in
        [("a…c", "a b"), ("a…a", "a"), ("a", "a\nb"), ("a\n…\nd", "a\nb"), ("", "a")]
    {
        assert!(!agree(expected, said), "{expected:?} {said:?}");
    }
}
