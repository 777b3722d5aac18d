//! The guard as `tenure` sees it: a child with a pipe in each direction.

use std::io;
use std::process::Stdio;

use tokio::io::{AsyncBufReadExt as _, AsyncWriteExt as _, BufReader, Lines};
use tokio::process::{Child, ChildStdin, ChildStdout, Command};

use super::Tenure;
use super::orders::{Order, Report};

/// Dropping it without [`GuardProcess::dismiss`] ends the guard's stdin, and so kills the group.
#[derive(Debug)]
pub struct GuardProcess {
    child: Child,
    orders: ChildStdin,
    reports: Lines<BufReader<ChildStdout>>,
}

impl GuardProcess {
    /// Starts the guard from this binary, in a process group of its own, so that the signals of a
    /// terminal do not reach it.
    pub fn spawn(tenure: &Tenure) -> io::Result<GuardProcess> {
        let mut child = Command::new(&tenure.binary)
            .arg0("tenure")
            .arg("__guard")
            .args(tenure.options)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .process_group(0)
            .spawn()?;
        let (Some(orders), Some(reports)) = (child.stdin.take(), child.stdout.take()) else {
            unreachable!("both were asked for as pipes just above");
        };
        Ok(GuardProcess { child, orders, reports: BufReader::new(reports).lines() })
    }

    /// Never waits for long as long as few orders are unanswered: the pipe holds hundreds.
    pub async fn tell(&mut self, order: Order) -> io::Result<()> {
        self.orders.write_all(format!("{order}\n").as_bytes()).await
    }

    /// What the guard says next; `None` once it has died. May be dropped at any time.
    pub async fn hear(&mut self) -> Option<Report> {
        self.reports.next_line().await.ok().flatten()?.parse().ok()
    }

    /// Sends the guard away once the group is gone.
    pub async fn dismiss(mut self) {
        // It has nothing left to guard: an error says that it left before it was told to.
        let _ = self.tell(Order::Done).await;
        drop(self.orders);
        // It may have been stopped by somebody, and would then never leave.
        let _ = self.child.kill().await;
    }
}
