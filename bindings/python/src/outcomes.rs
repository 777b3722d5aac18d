//! Outcomes of the library as JSON. The package builds its classes from this JSON.

use std::time::Duration;

use serde_json::{Value, json};
use tenure::{
    CampaignEvent, Deposed, Epoch, Leader, LeadershipEvent, Observation, Restored, Snapshot,
};

use crate::errors::Failure;

pub fn leader(leader: &Leader) -> Value {
    json!({
        "epoch": leader.epoch.get(),
        "candidate": leader.candidate,
        "validity": leader.validity.map(|it| it.as_secs_f64()),
        "expires_at": leader.expires_at.map(|at| at.timestamp_micros()),
        "heartbeat": leader.heartbeat,
        "elected_at": leader.elected_at.map(|at| at.timestamp_micros()),
        "renewed_at": leader.renewed_at.map(|at| at.timestamp_micros()),
        "data": leader.data,
    })
}

pub fn snapshot(snapshot: &Snapshot) -> Value {
    json!({
        "leader": snapshot.leader.as_ref().map(leader),
        "end": snapshot.end.map(|end| end.to_string()),
        "sealed_by": snapshot.sealed_by,
        "forced_by": snapshot.forced_by,
        "reason": snapshot.reason,
        "age": snapshot.age.map(|it| it.as_secs_f64()),
        "lapsed": snapshot.lapsed,
    })
}

pub fn observation(observation: &Observation) -> Value {
    match observation {
        Observation::Leader(held_by) => json!({"state": "held", "leader": leader(held_by)}),
        Observation::NoLeader => json!({"state": "vacant"}),
        _ => json!({"state": "unknown"}),
    }
}

pub fn campaign_event(event: &CampaignEvent) -> Value {
    match event {
        CampaignEvent::Following(followed) => {
            json!({"event": "following", "leader": leader(followed)})
        }
        CampaignEvent::StoreFailed(error) => {
            json!({"event": "store_failed", "message": error.to_string()})
        }
        CampaignEvent::Elected(epoch) => json!({"event": "elected", "epoch": epoch.get()}),
        _ => json!({"event": "other"}),
    }
}

pub fn leadership_event(event: &LeadershipEvent) -> Value {
    match event {
        LeadershipEvent::Renewed { remaining } => {
            json!({"event": "renewed", "remaining": remaining.as_secs_f64()})
        }
        LeadershipEvent::AtRisk { remaining, last_error } => json!({
            "event": "at_risk",
            "remaining": remaining.as_secs_f64(),
            "message": last_error.as_ref().map(ToString::to_string),
        }),
        LeadershipEvent::Degraded { .. } => json!({"event": "degraded"}),
        LeadershipEvent::Whole => json!({"event": "whole"}),
        LeadershipEvent::Lost(loss) => {
            json!({"event": "lost", "reason": loss.outcome(), "message": loss.to_string()})
        }
        _ => json!({"event": "other"}),
    }
}

pub fn deposed(outcome: &Deposed) -> Value {
    match outcome {
        Deposed::Sealed { leader: of, wait } => {
            json!({"outcome": "sealed", "leader": leader(of), "wait": wait.as_secs_f64()})
        }
        Deposed::Already { leader: of, ended } => {
            json!({"outcome": "already", "leader": leader(of), "end": ended.to_string()})
        }
        Deposed::NotCurrent(of) => json!({"outcome": "not_current", "leader": leader(of)}),
        Deposed::NeedsForce(of) => json!({"outcome": "needs_force", "leader": leader(of)}),
        Deposed::Held(epoch) => json!({"outcome": "held", "epoch": epoch.get()}),
        Deposed::Renewed(of) => json!({"outcome": "renewed", "leader": leader(of)}),
        Deposed::NoLeader => json!({"outcome": "no_leader"}),
        _ => json!({"outcome": "other"}),
    }
}

pub fn restored(outcome: &Restored) -> Value {
    let waits = |outcome, epoch: &Epoch, wait: &Duration| json!({"outcome": outcome, "epoch": epoch.get(), "wait": wait.as_secs_f64()});
    match outcome {
        Restored::Sealed { epoch, wait } => waits("sealed", epoch, wait),
        Restored::WaitsLess { epoch, wait } => waits("waits_less", epoch, wait),
        Restored::Already(epoch) => json!({"outcome": "already", "epoch": epoch.get()}),
        Restored::Exists(of) => json!({"outcome": "exists", "leader": leader(of)}),
        Restored::Held(epoch) => json!({"outcome": "held", "epoch": epoch.get()}),
        Restored::NeedsForce(of) => json!({"outcome": "needs_force", "leader": leader(of)}),
        Restored::NeedsWait => json!({"outcome": "needs_wait"}),
        _ => json!({"outcome": "other"}),
    }
}

/// Returns the data of a leader from its JSON.
pub fn parsed(text: &str) -> Result<Value, Failure> {
    serde_json::from_str(text).map_err(|error| crate::errors::invalid(error.to_string()))
}
