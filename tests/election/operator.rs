//! What operators do by hand: `depose` and `restore`, in both layouts, on several stores, through
//! faults and races.

mod depose;
mod restore;
mod rival;
mod scene;
mod takeover_delay;
mod two_restores;
mod unreadable;
