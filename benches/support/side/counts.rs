//! Requests by kind, and what S3 asks for them.

use std::ops::AddAssign;

/// Dollars for a million requests: S3 Standard, list price in us-east-1 without free tiers.
const LIST_OR_PUT: f64 = 5.0;
const GET: f64 = 0.4;

/// How many requests of each kind were sent.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct Counts {
    pub list: u64,
    /// HEAD among them.
    pub get: u64,
    pub put: u64,
    /// Free.
    pub delete: u64,
}

impl Counts {
    pub fn total(&self) -> u64 {
        self.list + self.get + self.put + self.delete
    }

    pub fn dollars(&self) -> f64 {
        ((self.list + self.put) as f64 * LIST_OR_PUT + self.get as f64 * GET) / 1e6
    }
}

impl AddAssign for Counts {
    fn add_assign(&mut self, other: Counts) {
        self.list += other.list;
        self.get += other.get;
        self.put += other.put;
        self.delete += other.delete;
    }
}
