//! `tenure completions` and `tenure man`: what the command knows of its own arguments, for a shell
//! and for `man`.

use clap::Command;
use clap_complete::Shell;
use clap_mangen::Man;
use clap_mangen::roff::{Roff, bold, roman};

use super::exit::Failure;
use crate::args::common::EXIT_CODES;
use crate::output::print::print;

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

pub fn completions(args: &CompletionsArgs, command: &Command) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(command), "tenure", &mut script);
    let _ = print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

pub fn man(command: &Command) -> Result<u8, Failure> {
    let _ = print(ascii(&page(command)).trim_end())?;
    Ok(0)
}

/// The command without its hidden verbs: the scripts of some shells would offer them.
fn visible(all: &Command) -> Command {
    let about = all.get_about().cloned().unwrap_or_default();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let command = Command::new("tenure").about(about).version(env!("CARGO_PKG_VERSION"));
    let command = command.disable_help_subcommand(true).subcommand_required(true);
    command.subcommand_value_name("VERB").subcommands(verbs)
}

/// One page for all verbs: clap_mangen by itself makes a page for each.
fn page(command: &Command) -> String {
    let mut command = visible(command);
    command.build();
    let man = Man::new(command.clone()).title("TENURE");
    let mut page = String::new();
    let mut title = Vec::new();
    man.render_title(&mut title).expect("a Vec takes all that is written");
    page.push_str(&String::from_utf8_lossy(&title));
    for part in [Man::render_name_section, Man::render_synopsis_section] {
        let (heading, body) = section(&man, part);
        page.push_str(&format!("{heading}\n{body}"));
    }
    for verb in command.get_subcommands() {
        add_verb(&mut page, verb);
    }
    page.push_str(&text("EXIT STATUS", EXIT_CODES));
    page
}

fn add_verb(page: &mut String, verb: &Command) {
    let name = verb.get_bin_name().unwrap_or_else(|| verb.get_name());
    if verb.get_subcommands().any(|verb| !verb.is_hide_set()) {
        for verb in verb.get_subcommands().filter(|verb| !verb.is_hide_set()) {
            add_verb(page, verb);
        }
        return;
    }
    let man = Man::new(verb.clone());
    let mut roff = Roff::new();
    roff.control("SH", [name.to_uppercase().as_str()]);
    roff.text([bold(name), roman(format!(": {}.", verb.get_about().cloned().unwrap_or_default()))]);
    roff.control("PP", []);
    page.push_str(&roff.to_roff());
    page.push_str(&section(&man, Man::render_synopsis_section).1);
    page.push_str(&section(&man, Man::render_options_section).1);
    let after = verb.get_after_help().map(ToString::to_string).unwrap_or_default();
    if after != EXIT_CODES && !after.is_empty() {
        page.push_str(&text("", &after));
    }
}

type Section = fn(&Man, &mut dyn std::io::Write) -> std::io::Result<()>;

/// The line of a section's heading, and the rest of it.
fn section(man: &Man, section: Section) -> (String, String) {
    let mut all = Vec::new();
    section(man, &mut all).expect("a Vec takes all that is written");
    let all = String::from_utf8_lossy(&all).into_owned();
    let start = all.find(".SH ").unwrap_or(0);
    let (heading, body) = all[start..].split_once('\n').unwrap_or_default();
    (heading.to_owned(), body.to_owned())
}

/// The text below the options. Its paragraphs are filled; in its tables a term and two spaces start
/// a line.
fn text(heading: &str, text: &str) -> String {
    let mut roff = Roff::new();
    if !heading.is_empty() {
        roff.control("SH", [heading]);
    }
    for paragraph in text.split("\n\n") {
        roff.control("PP", []);
        for line in paragraph.lines() {
            let term = line.trim_start().split_once("  ").filter(|_| line.starts_with(' '));
            if let Some((term, rest)) = term {
                roff.control("TP", ["8"]);
                roff.text([roman(term)]);
                roff.text([roman(rest.trim_start())]);
            } else {
                roff.text([roman(line.trim_start())]);
            }
        }
    }
    roff.to_roff()
}

/// Older formatters take anything but ASCII for Latin-1.
fn ascii(roff: &str) -> String {
    let plain = roff.chars().map(|character| match character {
        character if character.is_ascii() => character.to_string(),
        other => format!("\\[u{:04X}]", u32::from(other)),
    });
    plain.collect()
}
