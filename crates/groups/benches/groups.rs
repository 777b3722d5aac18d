//! Measures the time of a plan for a large group of 10,000 partitions and 1,000 members. A plan
//! should take at most 10 ms.
//!
//! ```text
//! cargo bench -p tenure-groups --features internals --bench groups
//! ```

use std::sync::Arc;

use criterion::{Criterion, criterion_group, criterion_main};
use tenure_groups::protocol::assignment::{Marks, PartitionNumber};
use tenure_groups::protocol::assignor::{Assignor as _, Seat, Share, StickyAssignor};

const PARTITIONS: usize = 10_000;
const MEMBERS: usize = 1_000;

fn worker(number: usize) -> String {
    format!("worker-{number}")
}

/// One plan to measure. The functions return the weight of a member, the [`Marks`] of a partition,
/// and the number of its owner.
struct Case {
    name: &'static str,
    weight: fn(usize) -> u32,
    marks: fn(usize) -> Marks,
    holder: fn(usize) -> Option<usize>,
}

fn unmarked(_: usize) -> Marks {
    Marks::default()
}

fn pinned(partition: usize) -> Marks {
    Marks { pinned: Some(Arc::from(worker(partition % MEMBERS))), ..Marks::default() }
}

fn barred(partition: usize) -> Marks {
    Marks { barred: Some(Arc::from(worker(partition % MEMBERS))), ..Marks::default() }
}

/// Pins every tenth partition to one of 100 members, and bars one member from another tenth of the
/// partitions.
fn some_marked(partition: usize) -> Marks {
    match partition % 10 {
        0 => pinned(partition / 100),
        1 => barred(partition),
        _ => Marks::default(),
    }
}

fn evenly(partition: usize) -> Option<usize> {
    Some(partition % MEMBERS)
}

fn nobody(_: usize) -> Option<usize> {
    None
}

fn one(_: usize) -> Option<usize> {
    Some(0)
}

/// Returns the owner of a partition. The last member is joining, so it owns no partition.
fn all_but_one(partition: usize) -> Option<usize> {
    Some(partition % (MEMBERS - 1))
}

/// Returns the owner of a partition. One member has left, so its former partitions have no owner.
fn and_one_more(partition: usize) -> Option<usize> {
    Some(partition % (MEMBERS + 1)).filter(|member| *member < MEMBERS)
}

fn plans(criterion: &mut Criterion) {
    let weight = |_| 1;
    let case = |name, marks, holder| Case { name, weight, marks, holder };
    let weighted = Case {
        weight: |member| 1 + u32::from(member % 2 == 0),
        ..case("none is owned, weights differ", unmarked, nobody)
    };
    let cases = [
        case("none is owned", unmarked, nobody),
        case("nothing moves", unmarked, evenly),
        case("a join", unmarked, all_but_one),
        case("a leave", unmarked, and_one_more),
        case("one member owns all", unmarked, one),
        weighted,
        case("a fifth is marked, none is owned", some_marked, nobody),
        case("a fifth is marked, one member owns all", some_marked, one),
        case("all are pinned, one member owns all", pinned, one),
        case("all are barred, none is owned", barred, nobody),
        case("all are barred, one member owns all", barred, one),
    ];
    let names: Vec<String> = (0..MEMBERS).map(worker).collect();
    let mut group = criterion.benchmark_group("10,000 partitions, 1,000 members");
    for Case { name, weight, marks, holder } in cases {
        let seat = |(member, name)| Seat::new(name, weight(member));
        let seats: Vec<_> = names.iter().map(|it| &**it).enumerate().map(seat).collect();
        let marks: Vec<_> = (0..PARTITIONS).map(marks).collect();
        let share = |(partition, marks)| {
            let mut share = Share::new(PartitionNumber(0), "", marks);
            share.holder = holder(partition);
            share
        };
        let shares: Vec<_> = marks.iter().enumerate().map(share).collect();
        group.bench_function(name, |it| it.iter(|| StickyAssignor.assign(&seats, &shares)));
    }
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
