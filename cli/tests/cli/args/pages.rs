//! Tests of `tenure completions` and `tenure man`.

use std::io::Write as _;
use std::process::{Command, Stdio};

use crate::bench::tenure;

const VERBS: [&str; 10] =
    ["run", "status", "watch", "compact", "group", "table", "probe", "cost", "completions", "man"];

/// Writes the manual pages to a new folder and returns the folder.
fn pages() -> tempfile::TempDir {
    let folder = tempfile::tempdir().expect("a folder");
    let said = tenure(&["man", folder.path().to_str().expect("UTF-8")]);
    assert_eq!((said.code, said.out.as_str(), said.err.as_str()), (0, "", ""));
    folder
}

/// Runs a program on this input and returns its output, or `None` if the program is not installed.
fn through(program: &str, arguments: &[&str], input: &str) -> Option<(String, String)> {
    let mut command = Command::new(program);
    command.args(arguments).stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    let mut child = command.spawn().ok()?;
    child
        .stdin
        .take()
        .expect("the output is a pipe")
        .write_all(input.as_bytes())
        .expect("it reads");
    let output = child.wait_with_output().expect("the child can be waited for");
    assert!(output.status.success(), "{program}: {output:?}");
    let text = |bytes| String::from_utf8_lossy(bytes).into_owned();
    Some((text(&output.stdout), text(&output.stderr)))
}

#[test]
fn each_verb_has_a_manual_page_and_hidden_verbs_have_none() {
    let folder = pages();
    for verb in VERBS {
        assert!(folder.path().join(format!("tenure-{verb}.1")).is_file(), "{verb}");
    }
    let nested = folder.path().join("tenure-group-status.1");
    assert!(nested.is_file());
    for entry in std::fs::read_dir(folder.path()).expect("a folder") {
        let name = entry.expect("a page").file_name();
        assert!(!name.to_string_lossy().contains("__"), "{}", name.display());
    }
}

#[test]
fn the_manual_pages_are_formatted_without_a_warning() {
    let folder = pages();
    for name in ["tenure-probe.1", "tenure-run.1", "tenure-status.1"] {
        let page = std::fs::read_to_string(folder.path().join(name)).expect("a page");
        let Some((text, warnings)) = through("groff", &["-k", "-man", "-Tutf8", "-ww"], &page)
        else {
            eprintln!("skipped: groff is not installed");
            return;
        };
        assert_eq!(warnings, "", "{name}");
        assert!(text.contains('…'), "{text}");
    }
}

#[test]
fn manual_pages_need_an_existing_directory() {
    let said = tenure(&["man", "/nonexistent/man1"]);
    assert_eq!((said.code, said.out.as_str()), (71, ""));
    assert!(said.err.contains("cannot write manual pages to /nonexistent/man1"), "{}", said.err);
}

#[test]
fn bash_completes_verbs_and_options() {
    let said = tenure(&["completions", "bash"]);
    assert_eq!((said.code, said.err.as_str()), (0, ""));
    let complete = |words: &str| {
        let ask = "printf '%s\\n' \"${COMPREPLY[@]}\"\n";
        let call = "_tenure tenure \"${COMP_WORDS[-1]}\" \"${COMP_WORDS[-2]}\"";
        let words = format!("COMP_WORDS=({words}); COMP_CWORD=$((${{#COMP_WORDS[@]}} - 1))");
        let script = format!("{}\n{words}\n{call}\n{ask}", said.out);
        let (replies, errors) = through("bash", &["--norc", "-s"], &script)?;
        assert_eq!(errors, "");
        Some(replies.lines().map(str::to_owned).collect::<Vec<_>>())
    };
    let Some(verbs) = complete("tenure ''") else {
        eprintln!("skipped: bash is not installed");
        return;
    };
    for verb in VERBS {
        assert!(verbs.iter().any(|reply| reply == verb), "{verb} is not in {verbs:?}");
    }
    assert!(!verbs.iter().any(|reply| reply.contains("__")), "{verbs:?}");
    assert_eq!(complete("tenure stat").as_deref(), Some(&["status".to_owned()][..]));
    assert_eq!(complete("tenure compact --min").as_deref(), Some(&["--min-age".to_owned()][..]));
    let layouts = complete("tenure status --layout ''").expect("bash is installed");
    assert_eq!(layouts, ["epoch-files", "single-object"]);
}

#[test]
fn an_unknown_shell_is_refused_with_the_known_shells() {
    let said = tenure(&["completions", "cmd"]);
    assert_eq!((said.code, said.out.as_str()), (64, ""));
    assert!(said.err.contains("bash") && said.err.contains("zsh"), "{}", said.err);
}
