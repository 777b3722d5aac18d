//! The date of an answer.

use chrono::DurationRound as _;
use tenure::Process;

use super::*;

/// `probe` warned of clocks half a second apart that agreed. The client added the time since an
/// older answer to its date in whole seconds, and took the sum for exact.
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
            assert_eq!(date.duration_trunc(second), Ok(date), "in whole seconds");
            assert!(date <= received && sent < date + second, "{sent} {date} {received}");
        }
    }
}
