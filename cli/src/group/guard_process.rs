//! Guard and standby as `tenure` sees them: a child with a pipe in each direction.

use std::ffi::OsString;
use std::io;
use std::os::fd::{AsFd, AsRawFd as _, OwnedFd};
use std::process::ExitStatus;

use nix::fcntl::{FcntlArg, FdFlag, fcntl};
use nix::unistd::Pid;
use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::net::unix::pipe;
use tokio::process::{Child, Command};

use super::epoch_file::EpochFile;
use super::guard::arguments;
use super::ipc::{Order, Report};
use super::pipes::Pipes;
use super::process::Tenure;

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
    Report(Report),
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
        epoch_file: Option<&EpochFile>,
    ) -> io::Result<GuardProcess> {
        let (orders_in, orders) = io::pipe()?;
        let (reports, reports_out) = io::pipe()?;
        // Another thread that starts a process right now leaks these ends to it. Then the death of
        // the guard is seen when the standby ends. Nobody else has the writing end of the orders.
        inherit(&orders_in)?;
        inherit(&reports_out)?;
        let pipes = Pipes { orders: orders_in.as_raw_fd(), reports: reports_out.as_raw_fd() };
        let arguments = arguments(pipes, epoch_file);
        let standby = Command::from(tenure.command("__standby", &arguments, command))
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
    pub async fn send(&mut self, order: Order) -> io::Result<()> {
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
        let _ = self.orders.try_write(format!("{}\n", Order::Leave).as_bytes());
    }
}

fn inherit(file: impl AsFd) -> io::Result<()> {
    fcntl(file, FcntlArg::F_SETFD(FdFlag::empty()))?;
    Ok(())
}
