//! Tests that the store reports the date of each answer.

use chrono::DurationRound as _;
use tenure::Process;

use super::*;

/// Before the fix, the client computed the date of an answer: it added the elapsed time to the date
/// of an older answer. Dates have whole seconds, but the client treated the sum as exact. So
/// `probe` reported a difference of half a second between equal clocks.
#[tokio::test]
async fn regression_an_answer_has_its_own_date_in_whole_seconds() {
    let (_server, store) = start();
    done(store.create(KEY, body("one")).await);
    let second = chrono::Duration::seconds(1);
    for _ in 0..20 {
        let sent = Process::system().now().time_of_day();
        let object = found(store.get(KEY, None, MAX).await).served_at.expect("a date");
        let page = store.list("app/", "", 9).await.unwrap().served_at.expect("a date");
        let received = Process::system().now().time_of_day();
        for date in [object, page] {
            assert_eq!(date.duration_trunc(second), Ok(date), "the date has whole seconds");
            assert!(date <= received && sent < date + second, "{sent} {date} {received}");
        }
    }
}
