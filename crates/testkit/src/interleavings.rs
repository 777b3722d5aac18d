//! Runs a few tasks in every interleaving, with the library shuttle.

use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::Duration;

use shuttle::scheduler::{DfsScheduler, Schedule, Scheduler, Task, TaskId};
use shuttle::{Config, FailurePersistence, Runner};

/// Maximum number of interleavings. A test that exceeds this number has too many tasks.
const MOST: usize = 50_000;

/// Lets other tasks run. This function does not use shuttle's `yield_now`, which also wakes the
/// calling task, and so could hide a missing wake-up.
pub fn others_may_run() {
    shuttle::thread::sleep(Duration::ZERO);
}

pub fn spawn(task: impl Future<Output = ()> + Send + 'static) {
    // Dropping the handle would abandon the unfinished task.
    std::mem::forget(shuttle::future::spawn(task));
}

/// A scheduler that runs only the first task until it has spawned all other tasks. After that, the
/// scheduler explores every order of the tasks.
struct AllSpawnedFirst(DfsScheduler);

impl Scheduler for AllSpawnedFirst {
    fn new_execution(&mut self) -> Option<Schedule> {
        self.0.new_execution()
    }

    fn next_task(
        &mut self,
        runnable: &[&Task],
        current: Option<TaskId>,
        is_yielding: bool,
    ) -> Option<TaskId> {
        let spawner = runnable.iter().position(|task| task.id() == TaskId::from(0));
        let runnable = spawner.map_or(runnable, |at| &runnable[at..=at]);
        self.0.next_task(runnable, current, is_yielding)
    }

    fn next_u64(&mut self) -> u64 {
        self.0.next_u64()
    }
}

/// Calls `start` repeatedly, and runs the tasks that it [spawns](spawn) in every possible order.
/// Returns the number of orders, or the message of the first panic. A deadlock of the tasks causes
/// a panic.
pub fn every_interleaving(
    start: impl Fn() + Send + Sync + 'static,
) -> Result<usize, String> {
    let mut config = Config::new();
    config.failure_persistence = FailurePersistence::None;
    let runner = Runner::new(AllSpawnedFirst(DfsScheduler::new(Some(MOST), false)), config);
    match catch_unwind(AssertUnwindSafe(move || runner.run(start))) {
        Ok(interleavings) => {
            assert!(interleavings < MOST, "the number of interleavings exceeds {MOST}");
            Ok(interleavings)
        }
        Err(panic) => match panic.downcast::<String>() {
            Ok(message) => Err(*message),
            Err(panic) => Err(panic.downcast::<&str>().map_or("no message", |words| *words).into()),
        },
    }
}
