//! The error replies of the API for groups.

use crate::http::refusal::Refusal;

pub const NO_GROUP: Refusal = Refusal::fixed(404, "no_such_group", "no --group has this name");
pub const NO_TOKEN: Refusal = Refusal::fixed(
    503,
    "not_owned",
    "this member does not own this partition, so there is no token",
);
pub const NOT_OWNED: Refusal = Refusal::fixed(
    409,
    "not_owned",
    "this member does not own this partition; nothing was changed",
);
pub const NOT_MEMBER: Refusal =
    Refusal::fixed(409, "not_member", "this process is not a member; nothing was changed");
pub const NOTHING_SEEN: Refusal =
    Refusal::fixed(503, "not_member", "this process is not a member, so it knows no assignment");

pub fn other_token(token: u64) -> Refusal {
    let why = format!("this member owns the partition with the token {token}; nothing was changed");
    Refusal::new(409, "other_token", why)
}
