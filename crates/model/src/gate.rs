//! A gate that can stop or kill a simulated process. While the gate is closed, the futures of the
//! process are not polled.

use std::future::Future;
use std::panic::AssertUnwindSafe;
use std::pin::Pin;
use std::sync::{Arc, Mutex, MutexGuard};
use std::task::{Context, Poll, Waker};

/// The gate of a process. The tasks of the process run only while the gate is open.
#[derive(Debug, Default)]
pub struct Gate(Mutex<GateState>);

#[derive(Debug, Default)]
struct GateState {
    /// Number of faults that keep the gate closed.
    closed: u32,
    dead: bool,
    wakers: Vec<Waker>,
}

impl Gate {
    fn state(&self) -> MutexGuard<'_, GateState> {
        self.0.lock().unwrap()
    }

    pub fn close(&self) {
        self.state().closed += 1;
    }

    pub fn open(&self) {
        let mut state = self.state();
        state.closed -= 1;
        if state.closed == 0 {
            state.wake();
        }
    }

    pub fn kill(&self) {
        let mut state = self.state();
        state.dead = true;
        state.wake();
    }

    pub fn is_closed(&self) -> bool {
        self.state().closed > 0
    }
}

impl GateState {
    fn wake(&mut self) {
        self.wakers.drain(..).for_each(Waker::wake);
    }
}

/// A task of a process. The output of this future shows whether the task returned, panicked, or was
/// killed.
pub struct Pausable {
    gate: Arc<Gate>,
    inner: Option<Pin<Box<dyn Future<Output = ()> + Send>>>,
}

/// The way in which a task ended.
#[derive(Debug)]
pub enum TaskEnd {
    Returned,
    Killed,
    Panicked(String),
}

impl Pausable {
    pub fn new(gate: Arc<Gate>, inner: impl Future<Output = ()> + Send + 'static) -> Pausable {
        Pausable { gate, inner: Some(Box::pin(inner)) }
    }
}

impl Future for Pausable {
    type Output = TaskEnd;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<TaskEnd> {
        let dead = {
            let mut state = self.gate.state();
            if !state.dead {
                if !state.wakers.iter().any(|waker| waker.will_wake(cx.waker())) {
                    state.wakers.push(cx.waker().clone());
                }
                if state.closed > 0 {
                    return Poll::Pending;
                }
            }
            state.dead
        };
        if dead {
            // Drop the future only after the release of the gate's lock, because the drop may wake
            // other tasks.
            self.inner = None;
            return Poll::Ready(TaskEnd::Killed);
        }
        let Some(inner) = self.inner.as_mut() else { return Poll::Ready(TaskEnd::Returned) };
        match std::panic::catch_unwind(AssertUnwindSafe(|| inner.as_mut().poll(cx))) {
            Ok(Poll::Pending) => Poll::Pending,
            Ok(Poll::Ready(())) => Poll::Ready(TaskEnd::Returned),
            Err(panic) => {
                let text = panic.downcast_ref::<String>().cloned();
                let text = text.or_else(|| panic.downcast_ref::<&str>().map(|s| (*s).to_owned()));
                Poll::Ready(TaskEnd::Panicked(text.unwrap_or_default()))
            }
        }
    }
}

/// Waits while the gate is closed. A closed gate stops a task only at the next poll of the task. So
/// a task that closes its own gate calls this function to stop immediately.
pub async fn pass(gate: &Gate) {
    std::future::poll_fn(|cx| {
        let mut state = gate.state();
        if state.closed == 0 {
            return Poll::Ready(());
        }
        state.wakers.push(cx.waker().clone());
        Poll::Pending
    })
    .await;
}
