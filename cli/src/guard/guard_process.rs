//! Guard and standby as `tenure` sees them: a child with a pipe in each direction.

use std::ffi::OsString;
use std::io;
use std::os::fd::OwnedFd;
use std::process::ExitStatus;

use command_fds::{CommandFdExt as _, FdMapping};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::Extras;
use super::event_loop::arguments;
use super::messages::{GuardOrder, GuardReport};
use super::pipes::Pipes;
use super::tenure_binary::Tenure;
use crate::output::print::millis;

/// Dropping it ends the orders, and so has the guard end CMD.
#[derive(Debug)]
pub struct GuardProcess {
    standby: Child,
    orders: pipe::Sender,
    reports: Lines<BufReader<pipe::Receiver>>,
    /// Whether reports may still come.
    pub reporting: bool,
    exited: bool,
}

/// A message from them, or its absence.
#[derive(Debug)]
pub enum GuardMessage {
    Report(GuardReport),
    /// The guard has died, or makes no sense: no report comes any more.
    Silence,
    /// The standby has ended.
    Exit(Option<ExitStatus>),
}

impl GuardProcess {
    /// Starts them from this binary, in a process group of their own, so that the signals of a
    /// terminal do not reach them. CMD inherits the standard files through them.
    pub fn spawn(
        tenure: &Tenure,
        command: &[OsString],
        environment: &[(&str, String)],
        extras: &Extras,
    ) -> io::Result<GuardProcess> {
        let (orders_in, orders) = io::pipe()?;
        let (reports, reports_out) = io::pipe()?;
        // The ends are duplicated in the child alone: here they close on exec, so no process that
        // another thread starts at the same moment inherits them.
        let pipes = Pipes { orders: 3, reports: 4 };
        let ends = [(pipes.orders, orders_in.into()), (pipes.reports, reports_out.into())];
        let ends = ends.map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
        let arguments =
            arguments(pipes, extras.epoch_file.as_ref(), extras.kill_margin.map(millis));
        let mut standby = tenure.command("__standby", &arguments, command);
        standby.fd_mappings(ends.into()).map_err(io::Error::other)?;
        let standby = Command::from(standby)
            .envs(environment.iter().map(|(name, value)| (name, value)))
            .process_group(0)
            .spawn()?;
        let reports = pipe::Receiver::from_owned_fd(OwnedFd::from(reports))?;
        Ok(GuardProcess {
            standby,
            orders: pipe::Sender::from_owned_fd(OwnedFd::from(orders))?,
            reports: BufReader::new(reports).lines(),
            reporting: true,
            exited: false,
        })
    }

    /// The process that is the ancestor of all.
    pub fn standby(&self) -> Option<Pid> {
        self.standby.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)
    }

    /// Does not wait as long as few orders are unanswered: the pipe holds hundreds.
    pub async fn send(&mut self, order: GuardOrder) -> io::Result<()> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await
    }

    /// The next message. May be dropped at any time. After silence and exit it waits for ever.
    pub async fn recv(&mut self) -> GuardMessage {
        tokio::select! {
            biased;
            line = self.reports.next_line(), if self.reporting => {
                match line.ok().flatten().and_then(|line| line.parse().ok()) {
                    Some(report) => GuardMessage::Report(report),
                    None => {
                        self.reporting = false;
                        GuardMessage::Silence
                    }
                }
            }
            status = self.standby.wait(), if !self.exited => {
                self.exited = true;
                GuardMessage::Exit(status.ok())
            }
            else => std::future::pending().await,
        }
    }
}

impl Drop for GuardProcess {
    fn drop(&mut self) {
        // So that the guard does not take the end of the orders for the death of this process. The
        // pipe has room, or the guard was stopped; then the epoch is not its to resign either.
        let _ = self.orders.try_write(format!("{}\n", GuardOrder::Leave).as_bytes());
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::PathBuf;
    use std::process::Command as StdCommand;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// The process that inherits the end of the reports hides the death of the guard.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn regression_no_other_process_inherits_the_pipes_of_the_guard() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let open_in_a_child = || {
            let open = StdCommand::new("ls").arg("/proc/self/fd").output().expect("it runs");
            String::from_utf8(open.stdout).expect("numbers")
        };
        // Files that this process has inherited, and the folder that it lists.
        let usual = open_in_a_child();
        let others = std::thread::spawn(move || {
            let mut seen = 0;
            while !STOP.load(Ordering::Relaxed) {
                assert_eq!(open_in_a_child(), usual);
                seen += 1;
            }
            seen
        });
        let tenure = Tenure { binary: PathBuf::from("true"), options: &[] };
        let extras = Extras::default();
        for _ in 0..300 {
            drop(GuardProcess::spawn(&tenure, &[], &[], &extras).expect("it starts"));
        }
        STOP.store(true, Ordering::Relaxed);
        assert!(others.join().expect("nothing was inherited") > 0);
    }
}
