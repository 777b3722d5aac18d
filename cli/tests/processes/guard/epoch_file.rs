//! What the guard does where the disk of `--epoch-file` hangs.

use std::fs;

use nix::sys::stat::Mode;
use nix::unistd::mkfifo;

use super::HOUR;
use super::bench::{Guard, deadlines, reached};
use tenure_testkit::command::{eventually, in_ms};

/// The deadline was looked at before the file was written. A pipe in the place of the new file holds
/// the guard up, as a disk that hangs does.
#[test]
fn regression_cmd_does_not_start_if_its_lease_ends_while_the_epoch_is_written() {
    let dir = tempfile::tempdir().expect("a directory");
    let [path, ran] = ["epoch", "ran"].map(|name| dir.path().join(name));
    let options = [format!("--epoch-file={}", path.display()), "--epoch=1".to_owned()];
    let options = options.each_ref().map(String::as_str);
    let mut guard = Guard::with("__guard", &options, &["sh", "-c", r#"echo > "$0""#], &ran);
    let new = dir.path().join(format!("epoch.{}.new", guard.id()));
    mkfifo(&new, Mode::S_IRWXU).expect("a pipe");
    let kill_at = in_ms(300);
    guard.tell(&format!("watch {}", deadlines(in_ms(HOUR), kill_at)));
    guard.hears(&["watching"]);
    guard.tell("start");
    eventually("the lease has ended", || reached(kill_at));
    assert_eq!(fs::read_to_string(&new).expect("the guard writes it"), "1\n");
    guard.hears(&["too-late", "gone"]);
    guard.hang_up();
    guard.leaves();
    assert!(!ran.exists());
}
