//! The lease and delivery protocol of tasks, simulated. `SEED=7` runs one seed and tells all of it;
//! `WHARF_SEEDS=10000` runs more of them than the usual thousand.

use std::{
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use wharf_fleet_tests::{history::Tally, sim};

fn number(name: &str) -> Option<u64> {
    std::env::var(name).ok()?.parse().ok()
}

#[test]
fn a_seed_leads_to_the_same_story_each_time() {
    for seed in [3, 4] {
        assert_eq!(sim::run(seed).story(), sim::run(seed).story(), "seed {seed}");
    }
}

#[test]
fn whatever_goes_wrong_tasks_keep_their_promises() {
    if let Some(seed) = number("SEED") {
        let report = sim::run(seed);
        println!("{}\n{:?}", report.story(), report.tally);
        assert_eq!(report.problems, [""; 0], "seed {seed}");
        return;
    }
    let seeds = number("WHARF_SEEDS").unwrap_or(1000);
    let next = AtomicU64::new(0);
    let work = || {
        let (mut sum, mut failed) = (Tally::default(), 0);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= seeds {
                return (sum, failed);
            }
            let report = sim::run(seed);
            sum = sum + report.tally;
            if !report.problems.is_empty() {
                failed += 1;
                println!("SEED={seed}: {:#?}", report.problems);
            }
        }
    };
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let (sum, failed) = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let all = all.into_iter().map(|it| it.join().expect("a simulation panicked"));
        all.fold((Tally::default(), 0), |(sum, failed), it| (sum + it.0, failed + it.1))
    });
    println!("{seeds} seeds: {sum:?}");
    assert_eq!(failed, 0, "seeds failed of {seeds}: see above");
    // Otherwise nothing was proved.
    assert!(sum.completed > 0 && sum.cancelled > 0 && sum.taken_over > 0, "{sum:?}");
}
