//! Opens the store of a URL, and retries until the store can be reached.

pub mod find;
pub mod open;
pub mod patience;
pub mod url;
pub mod urls;
