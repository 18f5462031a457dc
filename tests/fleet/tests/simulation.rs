//! The lease and delivery protocol of tasks, simulated. `SEED=7` runs one seed and tells all of it;
//! `WHARF_SEEDS=10000` runs more of them than the usual thousand.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use wharf_fleet_tests::sim;

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn whatever_goes_wrong_tasks_keep_their_promises() {
    if let Some(seed) = number("SEED") {
        let report = sim::run(seed);
        println!("{}", report.story());
        assert_eq!(report.problems, [""; 0], "seed {seed}");
        return;
    }
    let seeds = number("WHARF_SEEDS").unwrap_or(1000);
    let next = AtomicU64::new(0);
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let failed: Vec<(u64, Vec<String>)> = thread::scope(|scope| {
        let work = || {
            let mut failed = vec![];
            loop {
                let seed = next.fetch_add(1, Ordering::Relaxed);
                if seed >= seeds {
                    return failed;
                }
                let report = sim::run(seed);
                if !report.problems.is_empty() {
                    failed.push((seed, report.problems));
                }
            }
        };
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        all.into_iter().flat_map(|it| it.join().expect("a simulation panicked")).collect()
    });
    for (seed, problems) in &failed {
        println!("SEED={seed}: {problems:#?}");
    }
    assert!(failed.is_empty(), "{} of {seeds} seeds: see above", failed.len());
}
