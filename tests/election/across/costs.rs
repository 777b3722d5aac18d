//! The requests of each step of an election across 3 stores, as in the table "Cost of 3 stores" of
//! the rules.

use futures::StreamExt as _;
use tenure_testkit::fault_store::Call;
use tenure_testkit::time::{secs, wait};

use super::scene::Scene;

/// Returns the numbers of LIST, GET and PUT since the last call.
fn requests(scene: &Scene) -> [usize; 3] {
    let calls: Vec<Call> = scene.stores.iter().flat_map(|store| store.take_calls()).collect();
    let count = |kinds: &[Call]| calls.iter().filter(|call| kinds.contains(call)).count();
    [count(&[Call::List]), count(&[Call::Get]), count(&[Call::Create, Call::Replace])]
}

#[tokio::test(start_paused = true)]
async fn each_step_has_the_cost_in_the_rules() {
    let scene = Scene::new(3).await;
    let node = |number| scene.builder(number).check_store(false).build().unwrap();
    requests(&scene);
    let first = node(1).campaign().await.unwrap();
    wait(secs(1)).await;
    assert_eq!(requests(&scene), [6, 0, 3], "the first campaign");
    wait(secs(10)).await;
    assert_eq!(requests(&scene), [0, 0, 3], "a renewal");

    first.resign().await.unwrap();
    let [list, get, put] = requests(&scene);
    assert_eq!([list, get], [0, 0], "a resignation");
    assert!((2..=3).contains(&put), "a resignation: {put}");
    let second = node(2).campaign().await.unwrap();
    wait(secs(1)).await;
    // A majority is sufficient, so the requests to the third store may be missing.
    let [list, get, put] = requests(&scene);
    assert!((8..=9).contains(&list) && (2..=3).contains(&get), "{list} LIST, {get} GET");
    assert_eq!(put, 3, "a new process takes over after a resignation");
    drop(second);
}

#[tokio::test(start_paused = true)]
async fn each_poll_of_an_observer_has_the_cost_of_the_rules() {
    let scene = Scene::new(3).await;
    let observer = scene.view();
    let election = observer.builder(9).check_store(false).poll_interval(secs(5)).build().unwrap();
    let mut observations = election.observe();
    tokio::spawn(async move { while observations.next().await.is_some() {} });
    // Returns the requests of 12 polls, after this time in seconds.
    let polls = async |after: u64| {
        wait(secs(after)).await;
        requests(&observer);
        wait(secs(60)).await;
        requests(&observer).map(|count| count / 12)
    };
    assert_eq!(polls(10).await, [3, 0, 0], "no epoch");
    let config = scene.builder(1).resign_on_drop(false).build().unwrap();
    let leadership = config.campaign().await.unwrap();
    assert_eq!(polls(10).await, [0, 3, 0], "a leader");
    drop(leadership);
    assert_eq!(polls(100).await, [3, 3, 0], "a lapsed epoch");
    config.campaign().await.unwrap().resign().await.unwrap();
    // A resignation ends once a majority is sealed, so the object of the third store may lapse.
    let [list, get, put] = polls(100).await;
    assert!((list, put) == (3, 0) && get <= 1, "a resigned epoch: {list} LIST, {get} GET");
}
