//! The connection of `tenure` to the standby and the guard: a child process, and a pipe in each
//! direction.

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
use super::event_loop::GuardArgs;
use super::messages::{GuardOrder, GuardReport};
use super::pipes::Pipes;
use super::tenure_binary::Tenure;
use crate::output::print::millis;
use crate::process::systemd::OWN_VARIABLES;

/// The guard and the standby. Dropping this value closes the pipe of the orders, and then the guard
/// ends CMD.
#[derive(Debug)]
pub struct GuardProcess {
    standby: Child,
    orders: pipe::Sender,
    reports: Lines<BufReader<pipe::Receiver>>,
    /// False after the last report of the guard, so that its pipe is not read again.
    pub reporting: bool,
    exited: bool,
}

/// A report of the guard, the end of the guard's pipe of reports, or the end of the standby.
#[derive(Debug)]
pub enum GuardMessage {
    Report(GuardReport),
    /// The guard has died, or it has sent a garbled line. No further report follows.
    Silence,
    /// The standby has ended.
    Exit(Option<ExitStatus>),
}

impl GuardProcess {
    /// Starts the standby, which starts the guard. The standby and the guard run in a new process
    /// group, so that the signals of a terminal do not reach them. Both keep the standard files
    /// open, because CMD inherits these files.
    pub fn spawn(
        tenure: &Tenure,
        command: &[OsString],
        environment: &[(&str, String)],
        extras: &Extras,
    ) -> io::Result<GuardProcess> {
        let (orders_in, orders) = io::pipe()?;
        let (reports, reports_out) = io::pipe()?;
        // In this process, all ends of the pipes close on exec, so a process that another thread
        // starts at the same time inherits none of them. The two mappings below duplicate two of
        // the ends in the child process before it executes the standby. So only the standby
        // inherits these two ends.
        let pipes = Pipes { orders: 3, reports: 4 };
        let ends = [(pipes.orders, orders_in.into()), (pipes.reports, reports_out.into())];
        let ends = ends.map(|(child_fd, parent_fd)| FdMapping { parent_fd, child_fd });
        let args = GuardArgs {
            pipes,
            epoch_file: extras.epoch_file.clone(),
            kill_margin_ms: extras.kill_margin.map(millis),
            partition: extras.partition.clone(),
            command: command.to_vec(),
        };
        let mut standby = tenure.command("__standby", &args.arguments(), &args.command);
        standby.fd_mappings(ends.into()).map_err(io::Error::other)?;
        // The guard and CMD inherit the environment of the standby, and they must not get these
        // variables.
        for name in OWN_VARIABLES {
            standby.env_remove(name);
        }
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

    /// Returns the process ID of the standby. The guard and CMD are descendants of the standby.
    pub fn standby(&self) -> Option<Pid> {
        self.standby.id().and_then(|id| i32::try_from(id).ok()).map(Pid::from_raw)
    }

    /// Sends an order. Blocks only if hundreds of orders are unanswered, because the pipe has room
    /// for hundreds of orders.
    pub async fn send(&mut self, order: GuardOrder) -> io::Result<()> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await
    }

    /// Returns the next message of the guard or the standby. Cancel-safe. After this function has
    /// returned both `Silence` and `Exit`, a further call waits forever.
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
        // Without the order `Leave`, the guard would interpret the end of the pipe as the death of
        // this process. The write fails if the pipe is full. The failure is harmless: the pipe is
        // full only if the guard was suspended (SIGSTOP), and a suspended guard does not resign.
        let _ = self.orders.try_write(format!("{}\n", GuardOrder::Leave).as_bytes());
    }
}

#[cfg(all(test, target_os = "linux"))]
mod tests {
    use std::path::PathBuf;
    use std::process::Command as StdCommand;
    use std::sync::atomic::{AtomicBool, Ordering};

    use super::*;

    /// Before the fix, another process could inherit the write end of the pipe of reports. The pipe
    /// then stayed open after the death of the guard, and `tenure` did not notice this death.
    #[tokio::test(flavor = "multi_thread", worker_threads = 2)]
    async fn regression_no_other_process_inherits_the_pipes_of_the_guard() {
        static STOP: AtomicBool = AtomicBool::new(false);
        let open_in_a_child = || {
            let open = StdCommand::new("ls").arg("/proc/self/fd").output().expect("it runs");
            String::from_utf8(open.stdout).expect("numbers")
        };
        // `ls` always has the descriptors that this process has inherited, and one for the
        // directory that it reads.
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
        assert!(others.join().expect("no pipe was inherited") > 0);
    }
}
