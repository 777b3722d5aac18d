//! A writer opens a log or an object while a busy writer of an older epoch writes without pauses.

use std::time::Duration;

use super::*;
use tenure_testkit::fault_store::{Call, Fault, FaultStore};
use tenure_testkit::time::{millis, timed, wait, within};

/// Returns a store with this round-trip time. A request takes half of this time, and its response
/// takes the other half.
fn way(memory: &Arc<MemoryStore>, request: Duration) -> FaultStore {
    let back = FaultStore::new(Arc::clone(memory) as Arc<dyn Store>);
    back.always(Fault::AnswerLate(request / 2));
    let way = FaultStore::new(Arc::new(back));
    way.always(Fault::Slow(request / 2));
    way
}

/// Opens the log under epoch 1 and appends entries until an append is refused. `pause` is the time
/// between two appends. Returns the numbers of the entries and the error.
async fn append_until_refused(log: FencedLog, pause: Duration) -> (Vec<u64>, FencingError) {
    let mut writer = log.open(e(1)).await.unwrap();
    let mut numbers = Vec::new();
    loop {
        match writer.append("zombie").await {
            Ok(number) => numbers.push(number),
            Err(error) => return (numbers, error),
        }
        wait(pause).await;
    }
}

async fn opens_during_appends(request: Duration, pause: Duration, most: usize) {
    let memory = Arc::new(MemoryStore::new());
    let zombie = log_of(&(Arc::new(way(&memory, request)) as Arc<dyn Store>));
    let zombie = tokio::spawn(append_until_refused(zombie, pause));
    wait(secs(1)).await;

    let own = way(&memory, millis(20));
    let log = log_of(&(Arc::new(own.clone()) as Arc<dyn Store>));
    let writer = within(secs(600), log.open(e(2))).await;
    let mut writer = writer.expect("the opening must end").unwrap();
    let requests = own.take_calls().len();
    assert!(requests <= most, "{requests} requests");

    // The older writer was refused. The log has exactly the successful appends of the older writer.
    wait(secs(1)).await;
    let before = all(&log, 1).await;
    let (numbers, error) = zombie.await.unwrap();
    assert_eq!(error.stale(), Some(Stale::new(e(1), e(2))), "{error}");
    assert!(!error.may_have_happened());
    assert_eq!(before.iter().map(|(number, ..)| *number).collect::<Vec<_>>(), numbers);
    assert_eq!(writer.last(), numbers.last().copied());
    assert_eq!(writer.latest().await.unwrap().unwrap().epoch, e(1));

    // The new writer can append to the log, and a trim succeeds.
    let first = writer.append("mine").await.unwrap();
    let last = writer.append("mine").await.unwrap();
    assert_eq!(log.trim(last).await.unwrap(), last);
    assert_eq!(all(&log, last).await, [(last, 2, "mine".to_owned())]);
    assert!(first < last && *numbers.last().unwrap() < first);
    let fresh = log_of(&(Arc::clone(&memory) as Arc<dyn Store>));
    assert_eq!(fresh.latest().await.unwrap().unwrap().number, last);
    let mut next = fresh.open(e(3)).await.unwrap();
    assert_eq!(next.append("next").await.unwrap(), last + 2);
}

/// Before the fix, `open` had not returned after 600 s and 20,000 appends of the older writer,
/// because `open` needs two requests and an append needs only one.
#[tokio::test(start_paused = true)]
async fn regression_a_busy_writer_does_not_delay_the_opening_of_a_log_forever() {
    opens_during_appends(millis(20), millis(10), 25).await;
    opens_during_appends(millis(20), Duration::ZERO, 30).await;
    // The older writer appends 20 times during each request of the successor.
    opens_during_appends(millis(1), Duration::ZERO, 300).await;
}

/// A process that is killed while it opens the log leaves fences, and free numbers below the
/// fences.
#[tokio::test(start_paused = true)]
async fn fences_of_a_killed_process_stop_no_other_writer() {
    for killed_after in (0..600).step_by(10) {
        let memory = Arc::new(MemoryStore::new());
        let log = || log_of(&(Arc::new(way(&memory, millis(20))) as Arc<dyn Store>));
        let zombie = tokio::spawn(append_until_refused(log(), millis(10)));
        wait(secs(1)).await;
        // The timeout drops the future of `open`, as if the process were killed.
        let _ = within(millis(killed_after), log().open(e(2))).await;
        let now = all(&log(), 1).await;
        assert!(log().latest().await.unwrap().unwrap().number >= now.last().unwrap().0);
        log().trim(10).await.unwrap();
        let mut writer =
            within(secs(60), log().open(e(3))).await.expect("the opening must end").unwrap();
        let number = writer.append("mine").await.unwrap();
        let (numbers, error) = zombie.await.unwrap();
        assert!(error.stale().is_some(), "{error}");
        let entries = all(&log(), 10).await;
        let expected = numbers.into_iter().filter(|number| *number >= 10).chain([number]);
        let found: Vec<u64> = entries.iter().map(|(number, ..)| *number).collect();
        assert_eq!(found, expected.collect::<Vec<_>>(), "killed after {killed_after} ms");
        log().trim(number).await.unwrap();
        assert_eq!(log().open(e(4)).await.unwrap().last(), Some(number));
    }
}

/// A free number below a fence is the end of the log only if all objects above this number are
/// fences.
#[tokio::test(start_paused = true)]
async fn a_deleted_entry_below_a_fence_is_not_the_end_of_the_log() {
    let memory = Arc::new(MemoryStore::new());
    let store = Arc::clone(&memory) as Arc<dyn Store>;
    let zombie = log_of(&(Arc::new(way(&memory, millis(20))) as Arc<dyn Store>));
    let zombie = tokio::spawn(append_until_refused(zombie, millis(10)));
    wait(millis(200)).await;
    let log = log_of(&(Arc::new(way(&memory, millis(20))) as Arc<dyn Store>));
    log.open(e(2)).await.unwrap().append("mine").await.unwrap();
    let (numbers, _) = zombie.await.unwrap();
    let last = numbers.last().unwrap();
    let fence = memory.get(&format!("log/{:020}", last + 1), None, 1_000).await.unwrap();
    let GetOutcome::Found(fence) = fence else { panic!("{fence:?}") };
    assert!(String::from_utf8_lossy(&fence.body).contains("fence_after"), "{fence:?}");
    memory.delete(vec![format!("log/{last:020}")]).await.unwrap();
    let error = log_of(&store).read_from(1).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.to_string().contains("was not trimmed"), "{error}");
}

/// Creates a log with a claim at 1, entries at 2 and 3, and fences at 5 and 9. The numbers 4 and 6
/// to 8 are free, because the writers of the fences were killed while they opened the log.
async fn log_with_fences_left(memory: &MemoryStore) {
    let line = |epoch: u64, number: u64, rest: &str| {
        format!("{{\"tenure_log\":1,\"epoch\":{epoch},\"nonce\":\"{number:032x}\",{rest}}}\n")
    };
    for (number, epoch, rest) in [
        (1, 1, "\"claim\":0,\"claims_after\":0"),
        (2, 1, "\"claim\":1"),
        (3, 1, "\"claim\":1"),
        (5, 2, "\"claim\":0,\"fence_after\":3"),
        (9, 2, "\"claim\":0,\"fence_after\":5"),
    ] {
        let body = line(epoch, number, rest) + "body";
        memory.create(&format!("log/{number:020}"), body.into()).await.unwrap();
    }
}

/// A fence records the number directly below the first number that was free when the fence was
/// created. The search for the newest entry continues at this number.
#[tokio::test(start_paused = true)]
async fn the_newest_entry_is_found_below_the_fences_of_several_writers() {
    let memory = Arc::new(MemoryStore::new());
    log_with_fences_left(&memory).await;
    let log = log_of(&(Arc::clone(&memory) as Arc<dyn Store>));
    assert_eq!(log.latest().await.unwrap().unwrap().number, 3);
    let entries = [2, 3].map(|number| (number, 1, "body".to_owned()));
    assert_eq!(all(&log, 1).await, entries);
    assert_eq!(all(&log, 3).await, entries[1..]);
    assert_eq!(all(&log, 4).await, []);
    assert_eq!(log.trim(3).await.unwrap(), 3);
    assert_eq!(all(&log, 3).await, entries[1..]);
    let mut writer = log.open(e(3)).await.unwrap();
    assert_eq!(writer.last(), Some(3));
    assert_eq!(writer.append("mine").await.unwrap(), 11);
    let entries = all(&log, 3).await;
    assert_eq!(entries.iter().map(|it| it.0).collect::<Vec<_>>(), [3, 11]);
}

/// The newest entry is never trimmed, so a missing newest entry is an error. Before the fix, a
/// reader mistook the fences above the missing entry for the end of the log, and returned no error.
#[tokio::test(start_paused = true)]
async fn regression_a_deleted_newest_entry_below_fences_is_an_error() {
    let memory = Arc::new(MemoryStore::new());
    log_with_fences_left(&memory).await;
    memory.delete(vec![format!("log/{:020}", 3)]).await.unwrap();
    let log = log_of(&(Arc::clone(&memory) as Arc<dyn Store>));
    for error in [log.latest().await.unwrap_err(), log.trim(2).await.unwrap_err()] {
        assert!(error.to_string().contains("was not trimmed"), "{error}");
    }
    let error = log.read_from(3).try_collect::<Vec<_>>().await.unwrap_err();
    assert!(error.to_string().contains("was not trimmed"), "{error}");
}

fn failed<T: std::fmt::Debug>(
    (took, outcome): (Duration, Result<T, FencingError>),
) -> (Duration, FencingError) {
    (took, outcome.unwrap_err())
}

/// Before the fix, if the newest entry was missing, `open` sent 15,000 requests without a pause and
/// did not end. `latest` and `trim` also sent their requests without a pause.
#[tokio::test(start_paused = true)]
async fn regression_a_missing_newest_entry_ends_an_opening_after_a_few_requests() {
    let memory = Arc::new(MemoryStore::new());
    log_with_fences_left(&memory).await;
    memory.delete(vec![format!("log/{:020}", 3)]).await.unwrap();
    let faults = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
    // This fault makes every listing after the first 100 fail, so that a call that would never end
    // returns an error.
    faults.on(Call::List).skip(100).always().fault(Fault::Denied);
    let log = || log_of(&(Arc::new(faults.clone()) as Arc<dyn Store>));
    for call in ["open", "latest", "trim"] {
        let (took, error) = match call {
            "open" => failed(timed(log().open(e(3))).await),
            "latest" => failed(timed(log().latest()).await),
            _ => failed(timed(log().trim(2)).await),
        };
        let FencingError::Failed(error) = error else { panic!("{call}: {error}") };
        assert_eq!(error.kind(), tenure::ErrorKind::CorruptRecord, "{call}: {error}");
        assert!(error.to_string().contains("0003 is missing and was not trimmed"), "{error}");
        assert!(took >= millis(775) && took < millis(1_555), "{call}: {took:?}");
        let requests = faults.take_calls().len();
        assert!(requests < 100, "{call}: {requests} requests");
    }
}

/// Opens the object and writes to it until a write is refused. `pause` is the time between two
/// writes. Returns the number of successful writes and the error.
async fn write_until_refused(
    object: FencedObject,
    epoch: u64,
    pause: Duration,
) -> (u64, FencingError) {
    let mut writer = object.open(e(epoch)).await.unwrap();
    for written in 0.. {
        if let Err(error) = writer.write(written.to_string()).await {
            let again = writer.write("again").await;
            assert_eq!(again.unwrap_err().stale(), error.stale(), "the refusal must be final");
            return (written, error);
        }
        wait(pause).await;
    }
    unreachable!("the loop ends when a write is refused")
}

/// Before the fix, 426 openings failed, because a claim needs two requests and a write of the older
/// writer needs only one.
#[tokio::test(start_paused = true)]
async fn regression_a_busy_writer_does_not_delay_the_opening_of_an_object_forever() {
    for (request, pause) in [(20, 10), (20, 0), (1, 0)] {
        let memory = Arc::new(MemoryStore::new());
        let object = |request| {
            let way = way(&memory, millis(request));
            (way.clone(), object_of(&(Arc::new(way) as Arc<dyn Store>)))
        };
        let zombie = tokio::spawn(write_until_refused(object(request).1, 1, millis(pause)));
        wait(secs(1)).await;
        let (own, object) = object(20);
        let mut writer = object.open(e(2)).await.unwrap();
        let requests = own.take_calls().len();
        assert!(requests <= 2 * (2 + 17) + 3, "{requests} requests");
        let (written, error) = zombie.await.unwrap();
        assert_eq!(error.stale(), Some(Stale::new(e(1), e(2))), "{error}");
        assert!(!error.may_have_happened(), "{error}");
        let last = (written - 1).to_string();
        assert_eq!(writer.body().unwrap(), last.as_bytes(), "the last write of the older writer");
        for _ in 0..40 {
            writer.write("mine").await.unwrap();
        }
        assert_eq!(object.open(e(3)).await.unwrap().body().unwrap(), "mine");
    }
}

/// The older writer creates a new `FencedObject` and opens it for each write, as in
/// docs/how-to/fence-an-object.md. Before the fix, five openings of the successor failed during
/// 1,227 writes of the older writer.
#[tokio::test(start_paused = true)]
async fn regression_a_writer_that_opens_the_object_for_each_write_stops() {
    for request in [20, 10, 2] {
        let memory = Arc::new(MemoryStore::new());
        let zombie = way(&memory, millis(request));
        let store = Arc::new(zombie.clone()) as Arc<dyn Store>;
        let zombie = tokio::spawn(async move {
            for written in 0_u64.. {
                let object = object_of(&store);
                let written = match object.open(e(1)).await {
                    Ok(mut writer) => writer.write(written.to_string()).await,
                    Err(error) => Err(error),
                };
                if let Err(error) = written {
                    return error;
                }
            }
            unreachable!("the loop ends when a write is refused")
        });
        wait(secs(1)).await;
        let own = way(&memory, millis(20));
        let object = object_of(&(Arc::new(own.clone()) as Arc<dyn Store>));
        object.open(e(2)).await.unwrap();
        let requests = own.take_calls().len();
        assert!(requests <= 2 * (2 + 17) + 3, "{request} ms: {requests} requests");
        let error = zombie.await.unwrap();
        assert_eq!(error.stale(), Some(Stale::new(e(1), e(2))), "{error}");
    }
}

/// The object works without the permission to read or write the reservation.
#[tokio::test(start_paused = true)]
async fn an_object_works_without_access_to_its_reservation() {
    let memory = Arc::new(MemoryStore::new());
    let faults = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
    faults.on(Call::Get).key("reservation").always().fault(Fault::Denied);
    let object = object_of(&(Arc::new(faults.clone()) as Arc<dyn Store>));
    let mut writer = object.open(e(1)).await.unwrap();
    for _ in 0..40 {
        writer.write("one").await.unwrap();
    }
    faults.on(Call::Replace).times(3).fault(Fault::Refuse);
    object.open(e(2)).await.unwrap();
    refused(writer.write("two").await, 1, 2);
    // If the store refuses each claim, the opening ends with an error.
    faults.on(Call::Replace).always().fault(Fault::Refuse);
    let opened = within(secs(600), object.open(e(3))).await;
    let error = opened.expect("the opening must end").unwrap_err();
    assert!(
        error.to_string().contains("other writers changed the object during each attempt"),
        "{error}"
    );
}

/// A writer of a lower epoch is refused because of the reservation. A writer of the same epoch
/// leaves the reservation unchanged, and a writer of a greater epoch replaces it.
#[tokio::test(start_paused = true)]
async fn only_a_greater_epoch_replaces_a_reservation() {
    const KEY: &str = "o.reservation";
    let memory = Arc::new(MemoryStore::new());
    let faults = FaultStore::new(Arc::clone(&memory) as Arc<dyn Store>);
    let object = object_of(&(Arc::new(faults.clone()) as Arc<dyn Store>));
    object.open(e(1)).await.unwrap();
    // This opening writes the reservation, but its claims fail.
    faults.on(Call::Replace).always().fault(Fault::Refuse);
    let opened = within(secs(600), object.open(e(3))).await;
    opened.expect("the opening must end").unwrap_err();
    faults.heal();
    assert!(object_at(&memory, KEY).await.contains("\"epoch\":3"));
    faults.on(Call::Replace).times(2).fault(Fault::Refuse);
    refused(object.open(e(2)).await, 2, 3);
    assert!(object_at(&memory, "o").await.contains("\"epoch\":1"));
    let of_three = object_at(&memory, KEY).await;
    faults.on(Call::Replace).times(2).fault(Fault::Refuse);
    object.open(e(3)).await.unwrap();
    assert_eq!(object_at(&memory, KEY).await, of_three, "the reservation was left unchanged");
    faults.on(Call::Replace).times(2).fault(Fault::Refuse);
    object.open(e(4)).await.unwrap();
    assert!(object_at(&memory, KEY).await.contains("\"epoch\":4"));
}

/// The pauses between the six attempts are 50, 100, 200, 400 and 800 ms. Half of each pause is
/// random. `open` also pauses for 50 ms before its second claim, and for 100 ms before its third
/// claim.
#[tokio::test(start_paused = true)]
async fn the_pauses_between_attempts_to_reserve_increase() {
    for _ in 0..5 {
        let (faults, store) = {
            let faults = FaultStore::new(Arc::new(MemoryStore::new()));
            (faults.clone(), Arc::new(faults) as Arc<dyn Store>)
        };
        let object = object_of(&store);
        object.open(e(1)).await.unwrap();
        faults.on(Call::Replace).times(2).fault(Fault::Refuse);
        faults.on(Call::Create).always().fault(Fault::Refuse);
        faults.take_calls();
        let (took, writer) = timed(object.open(e(2))).await;
        writer.unwrap();
        let creates = faults.take_calls().iter().filter(|call| **call == Call::Create).count();
        assert_eq!(creates, 6);
        assert!(took >= millis(775 + 75) && took < millis(1_550 + 150 + 5), "{took:?}");
    }
}
