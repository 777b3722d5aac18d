//! What is measured side by side, and how.

use std::time::Duration;

pub mod backlog;
pub mod campaigns;
pub mod counts;
pub mod document;
pub mod failover;
pub mod groups;
pub mod latency;
pub mod machine;
pub mod many;
pub mod measured;
pub mod plot;
pub mod recorded;
pub mod report;
pub mod requests;
pub mod schemes;
pub mod server;
pub mod simulated;
pub mod steady;
pub mod still;
pub mod tails;

/// What does not hold although it was asked for, and is explained in the notes of the page.
pub const KNOWN: &[&str] = &[
    "steady state, money beside Morling as posted",
    "1,000 partitions of 10 workers, steady: dollars a month",
];

/// How much of everything.
#[derive(Debug)]
pub struct Size {
    /// How long steady elections are watched over HTTP.
    pub steady: Duration,
    pub crashes: u64,
    /// Deaths of members of a group, and its partitions.
    pub deaths: u64,
    pub partitions: u32,
    /// Partitions and members of the largest group.
    pub large: (u32, usize),
    pub campaigns: usize,
    pub rush: usize,
    pub idle: Duration,
    pub backlogs: Vec<u64>,
    pub compactions: usize,
    pub compacted: u64,
    pub elections: u64,
    pub follower_poll: Duration,
    pub follower_window: Duration,
    pub follower_rounds: usize,
    pub steps: u64,
    pub renewals: u64,
}

impl Size {
    pub fn full() -> Size {
        Size {
            steady: Duration::from_secs(30),
            crashes: 200,
            deaths: 200,
            partitions: 1_000,
            large: (10_000, 1_000),
            campaigns: 40,
            rush: 100,
            idle: Duration::from_secs(31),
            backlogs: vec![1_000, 10_000, 100_000, 1_000_000],
            compactions: 5,
            compacted: 100_000,
            elections: 10_000,
            follower_poll: Duration::from_secs(5),
            follower_window: Duration::from_secs(15),
            follower_rounds: 5,
            steps: 1_000_000,
            renewals: 1_000_000,
        }
    }

    /// Enough to see that everything works, and that counts are right.
    pub fn smoke() -> Size {
        Size {
            steady: Duration::from_secs(2),
            crashes: 200,
            deaths: 4,
            partitions: 100,
            large: (300, 30),
            campaigns: 4,
            rush: 20,
            idle: Duration::from_millis(100),
            backlogs: vec![1_000, 4_000],
            compactions: 1,
            compacted: 2_000,
            elections: 50,
            follower_poll: Duration::from_secs(1),
            follower_window: Duration::from_secs(2),
            follower_rounds: 1,
            steps: 1_000,
            renewals: 4_000,
        }
    }
}

/// A runtime on which time passes only while nothing is to be done.
pub fn paused() -> tokio::runtime::Runtime {
    tokio::runtime::Builder::new_current_thread()
        .enable_time()
        .start_paused(true)
        .build()
        .expect("a runtime without IO needs nothing")
}

/// Runs this on simulated time, on a thread of its own.
pub fn simulate<T: Send>(run: impl Future<Output = T> + Send) -> T {
    std::thread::scope(|scope| {
        scope.spawn(|| paused().block_on(run)).join().expect("the simulation does not panic")
    })
}
