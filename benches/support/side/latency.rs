//! How long requests take.

use std::f64::consts::TAU;
use std::fmt;
use std::str::FromStr;
use std::time::Duration;

/// A distribution of latencies.
#[derive(Debug, Clone, Copy, PartialEq)]
pub enum Latency {
    None,
    Fixed(Duration),
    /// Log-normal: half of the requests take less than the median.
    LogNormal {
        median: Duration,
        sigma: f64,
    },
    /// The same, but for a share of requests, which take at least `from`, with the tail of a Pareto
    /// distribution: connections that are stuck, partitions that are moved.
    LongTail {
        median: Duration,
        sigma: f64,
        share: f64,
        from: Duration,
        alpha: f64,
    },
}

const SIGMA: f64 = 0.5;

impl Latency {
    pub const MEDIAN: Duration = Duration::from_millis(20);
    /// What stands for S3: half under 20 ms, 99 of 100 under 64 ms.
    pub const USUAL: Latency = Latency::LogNormal { median: Latency::MEDIAN, sigma: SIGMA };

    /// One in ten takes a second or more, and four in a hundred more than 6 s, the timeout at a
    /// validity of 30 s. Far worse than S3, so that there is something to count.
    pub const LONG_TAIL: Latency = Latency::LongTail {
        median: Latency::MEDIAN,
        sigma: SIGMA,
        share: 0.1,
        from: Duration::from_secs(1),
        alpha: 0.5,
    };

    pub fn draw(&self, rng: &mut fastrand::Rng) -> Duration {
        match *self {
            Latency::None => Duration::ZERO,
            Latency::Fixed(latency) => latency,
            Latency::LogNormal { median, sigma } => {
                // Box and Muller.
                let radius = (-2.0 * (1.0 - rng.f64()).ln()).sqrt();
                median.mul_f64((sigma * radius * (TAU * rng.f64()).cos()).exp())
            }
            Latency::LongTail { median, sigma, share, from, alpha } => {
                if rng.f64() < share {
                    // An hour is never waited for; more could not be represented.
                    let factor = (1.0 - rng.f64()).powf(-1.0 / alpha).min(3_600.0);
                    return from.mul_f64(factor);
                }
                Latency::LogNormal { median, sigma }.draw(rng)
            }
        }
    }

    /// A source of latencies from a seed.
    pub fn source(self, seed: u64) -> impl FnMut() -> Duration + Send {
        let mut rng = fastrand::Rng::with_seed(seed);
        move || self.draw(&mut rng)
    }
}

/// One word, for the server's own process.
impl fmt::Display for Latency {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Latency::None => f.write_str("none"),
            Latency::Fixed(latency) => write!(f, "{}", latency.as_micros()),
            Latency::LogNormal { .. } => f.write_str("usual"),
            Latency::LongTail { .. } => f.write_str("long"),
        }
    }
}

impl FromStr for Latency {
    type Err = std::num::ParseIntError;

    fn from_str(word: &str) -> Result<Latency, Self::Err> {
        Ok(match word {
            "none" => Latency::None,
            "usual" => Latency::USUAL,
            "long" => Latency::LONG_TAIL,
            micros => Latency::Fixed(Duration::from_micros(micros.parse()?)),
        })
    }
}
