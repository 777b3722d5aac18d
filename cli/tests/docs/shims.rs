//! A folder that contains `tenure`, and replacements for `cargo` and for the scripts of the
//! repository.

use std::fs;
use std::os::unix::fs::{PermissionsExt as _, symlink};
use std::path::{Path, PathBuf};
use std::process::Command;

use tempfile::TempDir;

use super::page::root;

pub struct Shims {
    dir: TempDir,
}

/// The replacement for `cargo`. With it, `cargo run -- …` runs the built command. Other calls have
/// no effect.
const CARGO: &str = r#"#!/bin/bash
[ "$1" = run ] && [[ " $* " != *" --example "* ]] &&
    [[ " $* " != *" -p tenure-slatedb "* ]] || exit 0
until [ $# = 0 ] || [ "$1" = -- ]; do shift; done
shift
exec tenure "$@"
"#;

/// The replacement for scripts that start a server. It only runs the command after `--`.
const SCRIPT: &str = r#"#!/bin/bash
until [ $# = 0 ] || [ "$1" = -- ]; do shift; done
shift || exit 0
exec "$@"
"#;

impl Shims {
    pub fn new() -> Shims {
        let shims = Shims { dir: tempfile::tempdir().expect("a directory") };
        fs::create_dir_all(shims.path("bin")).expect("a new folder");
        fs::create_dir_all(shims.path("work/tmp")).expect("a new folder");
        for folder in ["servers", "measure", "release", "ci"] {
            let scripts = shims.path("work/scripts").join(folder);
            fs::create_dir_all(&scripts).expect("a new folder");
            let real = root().join("scripts").join(folder);
            for script in fs::read_dir(real).expect("a folder").flatten() {
                executable(&scripts.join(script.file_name()), SCRIPT);
            }
        }
        executable(&shims.path("bin/cargo"), CARGO);
        symlink(env!("CARGO_BIN_EXE_tenure"), shims.path("bin/tenure")).expect("a new link");
        // In the pages, `NAME.sh` means any of the scripts that start a server.
        executable(&shims.path("work/scripts/servers/NAME.sh"), SCRIPT);
        shims
    }

    pub fn path(&self, below: &str) -> PathBuf {
        self.dir.path().join(below)
    }

    /// Returns a `bash` command in the work folder. Of the user's variables, it keeps only `PATH`.
    pub fn bash(&self) -> Command {
        let path = std::env::var("PATH").unwrap_or_default();
        let mut bash = Command::new("timeout");
        bash.args(["--kill-after=5", "120", "bash"])
            .current_dir(self.path("work"))
            .env_clear()
            .env("PATH", format!("{}:{path}", self.path("bin").display()))
            .env("HOME", self.path("work"))
            .env("HOSTNAME", "worker-7")
            .env("LANG", "C.UTF-8");
        bash
    }
}

fn executable(path: &Path, script: &str) {
    fs::write(path, script).expect("a new file");
    fs::set_permissions(path, fs::Permissions::from_mode(0o755))
        .expect("the script belongs to this user");
}
