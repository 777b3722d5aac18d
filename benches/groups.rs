//! What a plan for a large group takes: 10,000 partitions and 1,000 members.

use criterion::{Criterion, criterion_group, criterion_main};
use tenure::protocol::group::assignment::Marks;
use tenure::protocol::group::assignor::{Assignor as _, Seat, Share, StickyAssignor};

const PARTITIONS: usize = 10_000;
const MEMBERS: usize = 1_000;

fn plans(criterion: &mut Criterion) {
    let names: Vec<String> = (0..MEMBERS).map(|member| format!("worker-{member}")).collect();
    let seats: Vec<Seat<'_>> = names.iter().map(|name| Seat { name, weight: 1 }).collect();
    let marks = Marks::default();
    let share = |holder| Share { holder, marks: &marks, avoid: None, kept: None };
    let none = vec![share(None); PARTITIONS];
    let placed = StickyAssignor.assign(&seats, &none);
    let all: Vec<Share<'_>> = placed.iter().copied().map(share).collect();
    // The last member joins: all others hold what it is to have.
    let before = StickyAssignor.assign(&seats[1..], &none);
    let joins: Vec<Share<'_>> = before.into_iter().map(share).collect();
    let mut group = criterion.benchmark_group("10,000 partitions, 1,000 members");
    group.bench_function("all are placed", |it| it.iter(|| StickyAssignor.assign(&seats, &none)));
    group.bench_function("nothing moves", |it| it.iter(|| StickyAssignor.assign(&seats, &all)));
    group.bench_function("a join", |it| it.iter(|| StickyAssignor.assign(&seats, &joins)));
    group.finish();
}

criterion_group!(benches, plans);
criterion_main!(benches);
