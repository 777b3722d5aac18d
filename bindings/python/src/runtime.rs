//! The Tokio runtime of the process, its threads, and the end of the process.

use std::future::Future;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::{Arc, LazyLock, Mutex, MutexGuard, OnceLock, PoisonError, Weak, mpsc};
use std::thread::{ThreadId, available_parallelism};
use std::time::Duration;

use futures::future::join_all;
use pyo3::exceptions::PyImportError;
use pyo3::prelude::*;
use tenure::Process;
use tokio::runtime::{Builder, Runtime};
use tokio_util::sync::CancellationToken;

use crate::errors::Failure;
use crate::leadership::Lead;

/// The runtime, and the id of the process that started it. A fork copies no threads, so the runtime
/// works only in that process.
static RUNTIME: OnceLock<(Runtime, u32)> = OnceLock::new();
/// Number of background tasks: leaderships, and campaigns that end after a cancellation.
static TASKS: AtomicUsize = AtomicUsize::new(0);
/// The thread that ends the interpreter. Once it is set, no thread of this module calls Python.
static CLOSER: OnceLock<ThreadId> = OnceLock::new();
/// Parent of the cancellation tokens of all calls. `shutdown` cancels it.
static CALLS: LazyLock<CancellationToken> = LazyLock::new(CancellationToken::new);
static LEADS: Mutex<Vec<Weak<Lead>>> = Mutex::new(Vec::new());

/// Returns the runtime, and starts it at the first call. Fails in a process that was forked after
/// the runtime had started.
pub fn runtime() -> Result<&'static Runtime, Failure> {
    let (runtime, pid) = RUNTIME.get_or_init(|| {
        let threads = available_parallelism().map_or(2, |count| count.get().clamp(2, 4));
        let runtime = Builder::new_multi_thread()
            .worker_threads(threads)
            .thread_name("tenure")
            .enable_all()
            .build()
            .expect("the system has threads and file descriptors left");
        (runtime, std::process::id())
    });
    if *pid == std::process::id() { Ok(runtime) } else { Err(Failure::Forked) }
}

/// Fails in a sub-interpreter, because the threads of the runtime call only the main interpreter.
pub fn refuse_sub_interpreters(py: Python<'_>) -> PyResult<()> {
    static FIRST: OnceLock<usize> = OnceLock::new();
    let is_main = match py.import("_interpreters").or_else(|_| py.import("_xxsubinterpreters")) {
        Ok(module) => module.call_method0("get_main")?.eq(module.call_method0("get_current")?)?,
        // Some builds of Python lack these modules. Their interpreters are told apart by the
        // address of `builtins`, because each has its own.
        Err(_) => {
            let here = py.import("builtins")?.as_ptr() as usize;
            *FIRST.get_or_init(|| here) == here
        }
    };
    if is_main {
        return Ok(());
    }
    Err(PyImportError::new_err(
        "tenure runs only in the main interpreter of a process: use a process instead of a \
         sub-interpreter",
    ))
}

/// Returns true in a process that was forked after the start of the runtime.
fn is_forked() -> bool {
    RUNTIME.get().is_some_and(|(_, pid)| *pid != std::process::id())
}

/// A value that only this process uses. A forked child neither uses nor drops it, because a thread
/// of the parent may have held a lock in the value at the fork.
pub struct Local<T>(Option<T>);

impl<T> Local<T> {
    pub fn new(value: T) -> Local<T> {
        Local(Some(value))
    }

    pub fn get(&self) -> Result<&T, Failure> {
        if is_forked() {
            return Err(Failure::Forked);
        }
        Ok(self.0.as_ref().expect("only the drop takes the value"))
    }
}

impl<T> Drop for Local<T> {
    fn drop(&mut self) {
        if is_forked() {
            std::mem::forget(self.0.take());
        }
    }
}

pub fn locked<T: ?Sized>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A task counts as running until its `Counted` is dropped.
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

/// Returns whether `shutdown` has been called.
pub fn is_closed() -> bool {
    CLOSER.get().is_some()
}

/// Returns whether a call can start. After `shutdown`, the result is false in a daemon thread, so
/// that its call never returns. In an exit handler, which runs on the thread of `shutdown`, the
/// result is an error.
pub fn may_start() -> Result<bool, Failure> {
    match CLOSER.get() {
        None => Ok(true),
        Some(closer) if *closer == std::thread::current().id() => Err(Failure::Closed),
        Some(_) => Ok(false),
    }
}

/// Returns the cancellation token of a new call.
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

/// Keeps a weak reference, with which `shutdown` resigns the leadership.
pub fn remember(lead: &Arc<Lead>) {
    let mut leads = locked(&LEADS);
    leads.retain(|lead| lead.strong_count() > 0);
    leads.push(Arc::downgrade(lead));
}

/// A thread that makes calls to Python for the runtime. The threads of the runtime never wait for
/// the GIL, so renewals continue while Python code holds it.
pub struct Caller {
    thread: &'static str,
    calls: OnceLock<Mutex<mpsc::Sender<Call>>>,
    /// True during a call.
    running: AtomicBool,
}

type Call = Box<dyn FnOnce(Python<'_>) + Send>;

/// Wakes the waiting tasks of event loops.
pub static WAKER: Caller = Caller::new("tenure-wake");
/// Passes log records. A slow handler of the application delays only later records.
pub static LOGGER: Caller = Caller::new("tenure-log");

impl Caller {
    const fn new(thread: &'static str) -> Caller {
        Caller { thread, calls: OnceLock::new(), running: AtomicBool::new(false) }
    }

    pub fn call(&'static self, call: impl FnOnce(Python<'_>) + Send + 'static) {
        if is_closed() || is_forked() {
            return;
        }
        let calls = self.calls.get_or_init(|| {
            let (sender, receiver) = mpsc::channel::<Call>();
            let serve = move || self.serve(receiver);
            // If the thread cannot be started, the calls are dropped.
            let _ = std::thread::Builder::new().name(self.thread.to_owned()).spawn(serve);
            Mutex::new(sender)
        });
        let _ = locked(calls).send(Box::new(call));
    }

    /// Runs the calls. The thread attaches to Python only once, because to attach takes a lock of
    /// CPython. Before Python 3.12, a fork copies the locked lock, and the child waits for it for
    /// ever.
    fn serve(&self, mut calls: mpsc::Receiver<Call>) {
        self.running.store(true, Ordering::SeqCst);
        if !is_closed() {
            Python::try_attach(|py| {
                loop {
                    self.running.store(false, Ordering::SeqCst);
                    let call = py.detach(|| self.next(&mut calls));
                    call(py);
                }
            });
        }
        self.running.store(false, Ordering::SeqCst);
    }

    /// Waits for the next call. Never returns after `shutdown`, because the thread must not take
    /// the GIL while the interpreter ends.
    fn next(&self, calls: &mut mpsc::Receiver<Call>) -> Call {
        if let Ok(call) = calls.recv() {
            self.running.store(true, Ordering::SeqCst);
            if !is_closed() {
                return call;
            }
            self.running.store(false, Ordering::SeqCst);
        }
        loop {
            std::thread::park();
        }
    }
}

/// Waits for at most `seconds` until no background task is left. Returns false if one is left.
#[pyfunction]
pub fn idle(py: Python<'_>, seconds: f64) -> PyResult<bool> {
    let runtime = runtime()?;
    let limit = Duration::try_from_secs_f64(seconds).unwrap_or_default();
    Ok(py.detach(|| runtime.block_on(all_ended(limit))))
}

/// Cancels all calls, resigns all leaderships of this process, and waits for at most `seconds`
/// until all have ended. The interpreter calls this function when it ends.
#[pyfunction]
pub fn shutdown(py: Python<'_>, seconds: f64) {
    CLOSER.get_or_init(|| std::thread::current().id());
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

/// Resigns all leaderships. Also waits for running calls to Python, because the interpreter must
/// not end during a call from another thread.
async fn end() {
    let callers = async {
        for caller in [&WAKER, &LOGGER] {
            while caller.running.load(Ordering::SeqCst) {
                pause(STEP).await;
            }
        }
    };
    tokio::join!(callers, resign_all());
}

/// Resigns all leaderships until no task is left. It repeats, because a campaign may be elected
/// while it is cancelled.
async fn resign_all() {
    while TASKS.load(Ordering::SeqCst) > 0 {
        let leads: Vec<_> = locked(&LEADS).drain(..).filter_map(|lead| lead.upgrade()).collect();
        join_all(leads.iter().map(|lead| lead.resign(None))).await;
        pause(STEP).await;
    }
}

/// Pause between two checks of the number of tasks.
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
