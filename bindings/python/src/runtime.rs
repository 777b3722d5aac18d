//! The Tokio runtime of the process, its threads, and the end of the process.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::thread::available_parallelism;
use std::time::Duration;

use futures::future::join_all;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use tenure::Process;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::errors::Failure;
use crate::leadership::Lead;

/// The runtime, and the process that started it. A fork copies no thread.
static RUNTIME: OnceLock<(Runtime, u32)> = OnceLock::new();
/// Number of background tasks: leaderships, and campaigns that end after a cancellation.
static TASKS: AtomicUsize = AtomicUsize::new(0);
/// True once the interpreter ends. From then on no thread calls Python.
static CLOSED: AtomicBool = AtomicBool::new(false);
/// Parent of the tokens of all calls. The end of the interpreter cancels it.
static CALLS: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
/// Locked during a call of Python from the thread for these calls.
static RUNNING: Mutex<()> = Mutex::new(());
static LEADS: Mutex<Vec<Weak<Lead>>> = Mutex::new(Vec::new());

/// Returns the runtime, and starts it at the first call. Fails in a process that was forked after
/// this start.
pub fn runtime() -> Result<&'static Runtime, Failure> {
    let (runtime, pid) = RUNTIME.get_or_init(|| {
        let threads = available_parallelism().map_or(2, |count| count.get().clamp(2, 4));
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tenure")
            .enable_all()
            .build()
            .expect("a runtime needs only threads and a poll of the kernel");
        (runtime, std::process::id())
    });
    if *pid == std::process::id() { Ok(runtime) } else { Err(Failure::Forked) }
}

/// Fails in a sub-interpreter, because the threads of the runtime call only the first interpreter.
pub fn refuse_sub_interpreters(py: Python<'_>) -> PyResult<()> {
    static FIRST: OnceLock<usize> = OnceLock::new();
    // Each interpreter has its own module `builtins`.
    let here = py.import("builtins")?.as_ptr() as usize;
    if *FIRST.get_or_init(|| here) == here {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "tenure runs only in the first interpreter of a process: use a process instead of a \
         sub-interpreter",
    ))
}

/// Returns true in a process that was forked after the start of the runtime.
pub fn is_forked() -> bool {
    RUNTIME.get().is_some_and(|(_, pid)| *pid != std::process::id())
}

pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Counts a task, until it is dropped.
pub struct Counted(());

impl Counted {
    pub fn start() -> Counted {
        TASKS.fetch_add(1, Ordering::SeqCst);
        Counted(())
    }
}

impl Drop for Counted {
    fn drop(&mut self) {
        TASKS.fetch_sub(1, Ordering::SeqCst);
    }
}

/// Returns whether the interpreter ends.
pub fn is_closed() -> bool {
    CLOSED.load(Ordering::SeqCst)
}

/// Returns the token of a new call.
pub fn call_token() -> CancellationToken {
    CALLS.child_token()
}

/// Runs a future in the background, and counts it until its end.
pub fn background(future: impl Future<Output = ()> + Send + 'static) {
    let Ok(runtime) = runtime() else { return };
    let counted = Counted::start();
    runtime.spawn(async move {
        let _counted = counted;
        future.await;
    });
}

/// Returns the process of all elections. Its background tasks run on the runtime of this module.
pub fn process() -> Process {
    Process::system().with_spawner(background)
}

/// Waits for a duration. The waits of elections use the clock of their process instead.
#[allow(clippy::disallowed_methods, reason = "these waits are not simulated")]
pub async fn pause(duration: Duration) {
    tokio::time::sleep(duration).await;
}

/// Keeps a weak reference, so that the end of the interpreter resigns the leadership.
pub fn remember(lead: &Arc<Lead>) {
    let mut leads = locked(&LEADS);
    leads.retain(|lead| lead.strong_count() > 0);
    leads.push(Arc::downgrade(lead));
}

/// Calls Python from a separate thread. So a thread of the runtime never waits for the GIL, and
/// renewals continue while Python code holds the GIL.
pub fn call_python(call: impl FnOnce(Python<'_>) + Send + 'static) {
    type Call = Box<dyn FnOnce(Python<'_>) + Send>;
    static CALLS: OnceLock<Mutex<mpsc::Sender<Call>>> = OnceLock::new();
    if is_closed() || is_forked() {
        return;
    }
    let calls = CALLS.get_or_init(|| {
        let (sender, receiver) = mpsc::channel::<Call>();
        let thread = std::thread::Builder::new().name("tenure-python".to_owned());
        let serve = move || {
            for call in receiver {
                let _running = locked(&RUNNING);
                if !is_closed() {
                    Python::try_attach(call);
                }
            }
        };
        // If the system refuses the thread, no callback is called.
        let _ = thread.spawn(serve);
        Mutex::new(sender)
    });
    let _ = locked(calls).send(Box::new(call));
}

/// Waits until no background task is left, at most for `seconds`. Returns whether none is left.
#[pyfunction]
pub fn idle(py: Python<'_>, seconds: f64) -> PyResult<bool> {
    let runtime = runtime()?;
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(py.detach(|| runtime.block_on(all_ended(limit))))
}

/// Cancels all calls, resigns all leaderships of this process, and waits at most for `seconds`. The
/// interpreter calls this function at its end.
#[pyfunction]
pub fn shutdown(py: Python<'_>, seconds: f64) {
    CLOSED.store(true, Ordering::SeqCst);
    let Some((runtime, pid)) = RUNTIME.get() else { return };
    if *pid != std::process::id() {
        return;
    }
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    CALLS.cancel();
    py.detach(|| {
        runtime.block_on(async {
            tokio::select! {
                () = end() => {}
                () = pause(limit) => {}
            }
        });
    });
}

/// Ends all work of this process. The interpreter must not end during a call from another thread.
async fn end() {
    while RUNNING.try_lock().is_err() {
        pause(STEP).await;
    }
    resign_all().await;
}

/// Resigns until no task is left. A campaign may be elected while it is cancelled.
async fn resign_all() {
    while TASKS.load(Ordering::SeqCst) > 0 {
        let leads: Vec<_> = locked(&LEADS).drain(..).filter_map(|lead| lead.upgrade()).collect();
        join_all(leads.iter().map(|lead| lead.resign(None))).await;
        pause(STEP).await;
    }
}

/// Pause between two looks at the number of tasks.
const STEP: Duration = Duration::from_millis(5);

async fn all_ended(limit: Duration) -> bool {
    let polls = limit.as_millis().div_ceil(STEP.as_millis());
    for _ in 0..polls {
        if TASKS.load(Ordering::SeqCst) == 0 {
            return true;
        }
        pause(STEP).await;
    }
    TASKS.load(Ordering::SeqCst) == 0
}
