//! What operators do by hand: `depose` and `restore`, in both layouts, on several stores, through
//! faults and races.

#[path = "operator/depose.rs"]
mod depose;
#[path = "operator/restore.rs"]
mod restore;
#[path = "operator/rival.rs"]
mod rival;
#[path = "operator/scene.rs"]
mod scene;
mod support;
#[path = "operator/takeover_delay.rs"]
mod takeover_delay;
#[path = "operator/two_restores.rs"]
mod two_restores;
#[path = "operator/unreadable.rs"]
mod unreadable;
