//! The arguments of `tenure config`, apart from what it does: that reads the arguments of all verbs.

use std::ffi::OsString;

#[derive(Debug, clap::Args)]
pub struct ConfigArgs {
    /// One JSON object for each setting in place of a line for people
    #[arg(long)]
    pub json: bool,
    /// The verb, and flags that it would be given [default: run]
    #[arg(value_name = "VERB", trailing_var_arg = true, allow_hyphen_values = true)]
    pub line: Vec<OsString>,
}

pub const AFTER_CONFIG: &str = "\
Each setting is a flag, such as --store-clock-margin 2s; a variable, TENURE_STORE_CLOCK_MARGIN=2s;
or a line of the file that --config FILE or TENURE_CONFIG names: store-clock-margin = \"2s\". A flag
counts before a variable, and a variable before the file. An empty variable is none. What needs no
value is true or false in a variable and in the file.

The file is TOML. What stands at its top is for all verbs that have the setting; a table, such as
[run], [compact] or [group.run], is for that verb, and counts before the top. A key that is no
setting is refused. `data` may be a table.

--election, and --group and --partitions of `serve`, take a list in the file, and in the variable
NAME=URL with spaces between them. In the file, write `group` into the table [serve]: [group] at the
top is the table of that verb.

An unknown variable TENURE_… is named on stderr, with the nearest setting. White space at either end
of a store or a name is refused.

The name, the data, the hooks and the addresses of a process are its own. In a CMD of `run` and of
`group run`, whose environment has TENURE_RUN, those of the outer process do not count: they need
flags, or a file that a flag names. In a CMD of `watch --exec` the data and the addresses do not.

Exit codes:
   0  done
  64  wrong usage, or settings of `run` that do not fit together: they are printed nevertheless";
