//! Nothing. As this package is among the workspace's default members, a plain `cargo test` builds
//! `tenure` and `tenure-cli` with the features that its manifest names, and so tests every store.
//! `cargo test --no-default-features` turns them off.
