//! What the state machine costs: nothing beside a request.

use std::hint::black_box;

use criterion::{Criterion, criterion_group, criterion_main};
use tenure::internals::{Machine, find};

fn steps(c: &mut Criterion) {
    let mut group = c.benchmark_group("protocol");
    let mut following = Machine::following();
    group.bench_function("poll", |b| b.iter(|| black_box(&mut following).poll()));
    let mut leading = Machine::leading();
    group.bench_function("renew", |b| b.iter(|| black_box(&mut leading).renew()));
    group.bench_function("campaign and resign", |b| b.iter(Machine::live));
    group.bench_function("clone", |b| b.iter(|| black_box(&following).clone()));
    for epochs in [1_000, 1_000_000] {
        let name = format!("find the newest of {epochs}");
        group.bench_function(name, |b| b.iter(|| find(black_box(epochs))));
    }
    group.finish();
}

criterion_group!(benches, steps);
criterion_main!(benches);
