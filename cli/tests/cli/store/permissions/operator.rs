//! Tests that operators need no separate policy, except for `probe`.

use std::io::{BufRead as _, BufReader};
use std::process::Stdio;
use std::sync::Arc;
use std::time::Duration;

use tenure::{Deposed, Epoch, ErrorKind, Restored};
use tenure_history::Reader;

use super::policy::Policy;
use super::{ANY, CANDIDATE, LAYOUTS, OBSERVER, elect, election, place, store};
use tenure_testkit::command::with_deadline;
use tenure_testkit::s3_server::{BUCKET, S3Server};

#[tokio::test]
async fn a_candidate_may_depose_and_restore_and_an_observer_may_read_the_history() {
    let server = S3Server::start().await;
    let candidate = store(&server, "candidate", &[&Policy::parse(CANDIDATE, BUCKET, ANY)]);
    let observer = store(&server, "observer", &[&Policy::parse(OBSERVER, BUCKET, ANY)]);
    let above = Epoch::new(7).unwrap();
    for layout in LAYOUTS {
        std::mem::forget(elect(candidate.clone(), "a", layout).await.unwrap());
        let may_not = election(observer.clone(), "o", layout).unwrap();
        let denied = may_not.depose_dead(None).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::AccessDenied, "{denied}");
        let denied = may_not.restore(above, Duration::ZERO).await.unwrap_err();
        assert_eq!(denied.kind(), ErrorKind::AccessDenied, "{denied}");

        let ann = election(candidate.clone(), "ann", layout).unwrap();
        let deposed = ann.depose_dead(None).await.unwrap();
        assert!(matches!(deposed, Deposed::Sealed { .. }), "{deposed:?}");
        let restored = ann.restore(above, Duration::ZERO).await.unwrap();
        assert!(matches!(restored, Restored::Sealed { .. }), "{restored:?}");

        let reader = Reader::new(Arc::clone(&observer) as _, place(layout)).unwrap();
        let history = reader.layout(layout).read().await.unwrap();
        assert_eq!(history.spans.last().map(|span| span.epoch), Some(above));
    }
}

/// Before the fix, `status` and `watch` without permission to read `once-per.json` reported nothing
/// about the periods of the job. Both verbs must still ignore a missing record.
#[test]
fn regression_an_observer_reports_periods_that_it_may_not_read() {
    let server = S3Server::start_blocking();
    let (without, some) = Policy::parse(OBSERVER, BUCKET, "app").without("once-per.json");
    assert!(some, "the policy has a statement about the periods");
    drop(store(&server, "observer", &[&without]));
    let tenure = |line: &[&str]| {
        let mut tenure = std::process::Command::new(crate::TENURE);
        tenure.args(line).args(["--store", &format!("s3://{BUCKET}/app")]).envs(server.env());
        tenure.envs([("AWS_ACCESS_KEY_ID", "observer"), ("AWS_SECRET_ACCESS_KEY", "secret")]);
        tenure
    };
    let status = |options: &[&str]| {
        let said = tenure(&[&["status"], options].concat()).output().expect("the command runs");
        assert_eq!(said.status.code(), Some(0), "{said:?}");
        [said.stdout, said.stderr].map(|text| String::from_utf8_lossy(&text).into_owned())
    };
    assert!(status(&[]).iter().all(|text| !text.contains("period")));
    server.put_raw("app/once-per.json", "{}");
    let [out, err] = status(&[]);
    assert!(out.starts_with("period     unreadable: ") && out.contains("403"), "{out}");
    assert_eq!(err, "");
    assert!(status(&["--json"])[1].contains("once-per.json"));
    server.put_raw("app/lock-0000000001.json", r#"{"expired":true}"#);
    let said = tenure(&["history"]).output().expect("the command runs");
    assert_eq!(said.status.code(), Some(77), "{said:?}");
    assert!(String::from_utf8_lossy(&said.stdout).contains("epoch"), "{said:?}");

    let mut watch = tenure(&["watch", "--metrics-addr", "127.0.0.1:0"]);
    let mut watch = watch.stderr(Stdio::piped()).stdout(Stdio::null()).spawn().expect("it starts");
    let lines = BufReader::new(watch.stderr.take().expect("a pipe")).lines();
    let warned = with_deadline(watch.id(), || {
        lines.map_while(Result::ok).any(|line| line.contains("metric of completed periods"))
    });
    watch.kill().and_then(|()| watch.wait()).expect("the watch ends");
    assert!(warned);
}

/// The policy for `probe` in docs/reference/policies.md.
const PROBER: &str = r#"{ "Version": "2012-10-17", "Statement": [
    { "Effect": "Allow", "Action": "s3:ListBucket", "Resource": "arn:aws:s3:::BUCKET" },
    { "Effect": "Allow", "Action": ["s3:GetObject", "s3:PutObject", "s3:DeleteObject"],
      "Resource": "arn:aws:s3:::BUCKET/PREFIX/probe-*" }
] }"#;

#[test]
fn a_probe_needs_access_only_to_its_own_keys() {
    let probe = |policy: &Policy| {
        let server = S3Server::start_blocking();
        drop(store(&server, "prober", &[policy]));
        let mut tenure = std::process::Command::new(crate::TENURE);
        let said = tenure
            .args(["probe", "--rounds", "1", "--store", &format!("s3://{BUCKET}/app")])
            .envs(server.env())
            .env("AWS_ACCESS_KEY_ID", "prober")
            .env("AWS_SECRET_ACCESS_KEY", "secret")
            .output()
            .expect("the command runs");
        let text = [said.stdout, said.stderr].concat();
        (said.status.code(), String::from_utf8_lossy(&text).into_owned(), server.keys().len())
    };
    let policy = Policy::parse(PROBER, BUCKET, "app");
    let (code, said, left) = probe(&policy);
    assert_eq!((code, left), (Some(0), 0), "{said}");
    for (less, missing) in policy.with_one_less() {
        let (code, said, _) = probe(&less);
        assert_ne!(code, Some(0), "without {missing}: {said}");
    }
}
