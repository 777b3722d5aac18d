//! `tenure completions` and `tenure man`: write the arguments of the command as a completion script
//! for a shell and as manual pages.

use std::path::PathBuf;

use clap::Command;
use clap_complete::Shell;

use super::exit::{self, Failure};
use crate::output::print::print;

#[derive(Debug, clap::Args)]
pub struct CompletionsArgs {
    /// The shell
    #[arg(value_name = "SHELL")]
    pub shell: Shell,
}

#[derive(Debug, clap::Args)]
pub struct ManArgs {
    /// Directory for the pages, such as `~/.local/share/man/man1`; it must exist
    #[arg(value_name = "DIRECTORY")]
    pub directory: PathBuf,
}

pub fn completions(args: &CompletionsArgs, command: &Command) -> Result<u8, Failure> {
    let mut script = Vec::new();
    clap_complete::generate(args.shell, &mut visible(command), "tenure", &mut script);
    let _ = print(String::from_utf8_lossy(&script).trim_end())?;
    Ok(0)
}

/// Writes one page for each verb: `tenure.1`, `tenure-run.1`, `tenure-group-status.1`.
pub fn man(args: &ManArgs, command: &Command) -> Result<u8, Failure> {
    clap_mangen::generate_to(described(visible(command)), &args.directory).map_err(|error| {
        let directory = args.directory.display();
        Failure::new(exit::OS, format!("cannot write manual pages to {directory}: {error}"))
    })?;
    Ok(0)
}

/// Returns the command with all options visible in `-h`. A manual page omits the text of an option
/// that is hidden from `-h` and has no long text.
fn described(command: Command) -> Command {
    command.mut_args(|arg| arg.hide_short_help(false)).mut_subcommands(described)
}

/// Returns the command without its hidden verbs, because the completion scripts of some shells
/// would offer them.
fn visible(all: &Command) -> Command {
    let about = all.get_about().cloned().unwrap_or_default();
    let verbs = all.get_subcommands().filter(|verb| !verb.is_hide_set()).cloned();
    let command = Command::new("tenure").about(about).version(env!("CARGO_PKG_VERSION"));
    let command = command.disable_help_subcommand(true).subcommand_required(true);
    let command = command.subcommand_value_name("VERB").subcommands(verbs);
    command.args(all.get_arguments().cloned())
}
