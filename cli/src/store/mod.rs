//! Opening the store that a URL names, and retries until it can be reached.

pub mod open;
pub mod patience;
pub mod url;
