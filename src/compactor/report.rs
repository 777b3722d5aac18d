//! The report of a compaction.

use std::fmt;

use serde::Serialize;

use crate::epoch::Epoch;
use crate::error::ErrorKind;

/// The result of one run of a [`Compactor`](crate::Compactor).
///
/// Each epoch in `listed` is also counted in exactly one of `deleted`, `kept` and `failed`.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize)]
#[non_exhaustive]
pub struct Report {
    /// Number of epoch objects that the run listed. Other objects do not count.
    pub listed: u64,
    /// Number of epoch objects that this run deleted, or that another process deleted first. In a
    /// dry run, the number of epoch objects that a real run would delete.
    pub deleted: u64,
    /// Number of epoch objects that this run kept. The run keeps the newest epochs and the young
    /// epochs. If the run listed [`Epoch::MAX`] or an epoch that a restore holds, it also keeps all
    /// lower epochs.
    pub kept: u64,
    /// Number of the epochs in `kept` that are superseded, but are younger than `min_age_ms` or
    /// have no date. The number is 0 if the run was interrupted, or if [`Epoch::MAX`] or a held
    /// epoch stopped the run.
    pub too_young: u64,
    /// Number of epoch objects that the store refused or failed to delete, and of objects whose
    /// deletion got no answer. The next run tries to delete these objects again.
    pub failed: u64,
    /// Total length of the deleted bodies in bytes. In a versioned bucket, older versions do not
    /// count.
    pub bytes: u64,
    /// Number of requests that this run sent: one for each call of the
    /// [`Store`](crate::store::Store).
    pub requests: u64,
    /// Newest epoch that the run has listed. `None` if the run listed no epoch object. If the
    /// newest epoch is [`Epoch::MAX`], the run deletes nothing and does not list lower epochs.
    pub newest: Option<Epoch>,
    /// True if an unfinished restore holds the newest epoch. The epochs below the held epoch stay
    /// until the restore is finished. See [`Election::restore`](crate::Election::restore).
    pub held: bool,
    /// Minimum age of a deleted epoch, in milliseconds: the `min_age` of the compactor, but at
    /// least 1 s more than the longest validity that the run read. If `min_age` is 0, the minimum
    /// age is always 0.
    pub min_age_ms: u64,
    /// True for a dry run, which deletes nothing.
    pub dry_run: bool,
    /// True if the caller stopped the run before its end. The remaining listed epochs count as
    /// `kept`, and unlisted epochs do not count. The next run continues with the oldest epoch.
    pub interrupted: bool,
    /// Key of the first epoch object that the store failed to delete, with the store's reason.
    pub first_failure: Option<String>,
    /// Kind of the failure in `first_failure`. The kind determines the remedy.
    #[serde(skip)]
    pub first_failure_kind: Option<ErrorKind>,
}

impl fmt::Display for Report {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Report { listed, deleted, kept, too_young, failed, bytes, requests, .. } = self;
        let would = if self.dry_run { "would delete" } else { "deleted" };
        match self.newest {
            _ if self.interrupted => write!(
                f,
                "interrupted: {would} {deleted} of the {listed} epochs listed so far \
                 ({bytes} bytes)"
            )?,
            None => write!(f, "no epochs")?,
            Some(Epoch::MAX) if *deleted == 0 => {
                write!(f, "{would} nothing: the newest is the last epoch, {}", Epoch::MAX)?;
            }
            Some(newest) => {
                write!(f, "{would} {deleted} of {listed} epochs ({bytes} bytes), kept {kept}")?;
                if *too_young > 0 {
                    write!(f, " ({too_young} superseded, but too young to delete)")?;
                }
                write!(f, ", newest {newest}")?;
                if self.held {
                    write!(f, ", which an unfinished restore holds: run `restore` again")?;
                }
            }
        }
        if *failed > 0 {
            write!(f, ", {failed} could not be deleted")?;
        }
        if let Some(first) = &self.first_failure {
            write!(f, " (first: {first})")?;
        }
        write!(f, "; {requests} requests")?;
        if self.interrupted { write!(f, "; run it again to continue") } else { Ok(()) }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn report() -> Report {
        Report {
            listed: 30,
            deleted: 17,
            kept: 11,
            too_young: 0,
            failed: 2,
            bytes: 900,
            requests: 3,
            newest: Epoch::new(40),
            held: false,
            min_age_ms: 3_600_000,
            dry_run: false,
            interrupted: false,
            first_failure: Some("app/lock-0000000001.json: InternalError".to_owned()),
            first_failure_kind: Some(ErrorKind::Unavailable),
        }
    }

    #[test]
    fn a_report_reads_as_a_sentence() {
        assert_eq!(
            report().to_string(),
            "deleted 17 of 30 epochs (900 bytes), kept 11, newest 40, 2 could not be deleted \
             (first: app/lock-0000000001.json: InternalError); 3 requests"
        );
        let dry = Report { failed: 0, first_failure: None, dry_run: true, ..report() };
        assert!(dry.to_string().starts_with("would delete 17 of 30 epochs"));
        let young = Report { deleted: 0, kept: 30, too_young: 29, failed: 0, ..report() };
        assert!(
            young.to_string().contains("kept 30 (29 superseded, but too young to delete), newest"),
            "{young}"
        );
        let held = Report { deleted: 0, kept: 30, failed: 0, held: true, ..report() };
        assert!(
            held.to_string().contains("newest 40, which an unfinished restore holds"),
            "{held}"
        );
        assert_eq!(Report::default().to_string(), "no epochs; 0 requests");
        let stopped = Report { failed: 0, first_failure: None, interrupted: true, ..report() };
        assert_eq!(
            stopped.to_string(),
            "interrupted: deleted 17 of the 30 epochs listed so far (900 bytes); 3 requests; run it \
             again to continue"
        );
        let last = Report { newest: Some(Epoch::MAX), requests: 1, ..Report::default() };
        assert_eq!(
            last.to_string(),
            "deleted nothing: the newest is the last epoch, 9999999999; 1 requests"
        );
        let below = Report { newest: Some(Epoch::MAX), ..report() };
        let text = below.to_string();
        assert!(
            text.starts_with("deleted 17 of 30 epochs (900 bytes), kept 11, newest "),
            "{text}"
        );
    }

    #[test]
    fn a_report_serialises_with_its_field_names() {
        let json = serde_json::to_value(report()).unwrap();
        assert_eq!(json["deleted"], 17);
        assert_eq!(json["newest"], 40);
        assert_eq!(json["dry_run"], false);
        assert_eq!(serde_json::to_value(Report::default()).unwrap()["newest"], json!(null));
    }
}
