//! Simulation of the lease and delivery protocol of tasks. `SEED=7` runs one seed and prints its history;
//! `WHARF_SEEDS=10000` runs more seeds than the usual 250, and `WHARF_FIRST_SEED=0` begins at this seed instead of a
//! random one.
//!
//! Each seed has its own process: a second simulation in the same process was observed to differ from the first,
//! because of state in a dependency that is not reset.

use std::{
    env,
    hash::{BuildHasher, Hasher, RandomState},
    process::Command,
    sync::atomic::{AtomicU64, Ordering},
    thread,
};

use wharf_cluster_tests::{sim, task_history::TaskTally};

/// Number of seeds of a usual run: a minute on two cores.
const SEEDS: u64 = 250;
/// First seeds are chosen below this number.
const SEED_RANGE: u64 = 1_000_000_000;
/// Marks the line with the tally in the output of a seed.
const TALLY: &str = "tally: ";

fn number(name: &str) -> Option<u64> {
    env::var(name).ok()?.parse().ok()
}

/// Returns a number that differs from run to run.
fn random() -> u64 {
    RandomState::new().build_hasher().finish()
}

/// Runs the seed named in the environment, if this process was started for one.
fn run_seed() -> bool {
    let Some(seed) = number("SEED") else { return false };
    let report = sim::run(seed);
    let tally = serde_json::to_string(&report.tally).expect("it can be written");
    println!("{}\n{TALLY}{tally}", report.story());
    assert!(report.problems.is_empty(), "seed {seed}: see above");
    true
}

/// Runs a seed in its own process; returns whether it passed, and its output.
fn run_seed_in_process(seed: u64) -> (bool, String) {
    let this = env::current_exe().expect("there is a program");
    let told = Command::new(this)
        .args(["simulation::one_seed", "--exact", "--nocapture", "--ignored"])
        .env("SEED", seed.to_string())
        .output()
        .expect("it can be started");
    (told.status.success(), String::from_utf8_lossy(&told.stdout).into_owned())
}

#[test]
#[ignore = "the other tests run it, once for each seed"]
fn one_seed() {
    run_seed();
}

#[test]
fn a_seed_leads_to_the_same_story_each_time() {
    let story =
        |seed| run_seed_in_process(seed).1.split_once(TALLY).map(|(story, _)| story.to_owned());
    for seed in 0..3 {
        let once = story(seed);
        assert!(once.is_some(), "seed {seed} has no story");
        assert_eq!(once, story(seed), "seed {seed}");
    }
}

#[test]
fn task_guarantees_hold_under_injected_faults() {
    if run_seed() {
        return;
    }
    let seeds = number("WHARF_SEEDS").unwrap_or(SEEDS);
    // Every run uses other seeds than the last one.
    let first = number("WHARF_FIRST_SEED").unwrap_or_else(|| random() % SEED_RANGE);
    let end = first + seeds;
    println!("seeds {first} to {}; these again: WHARF_FIRST_SEED={first}", end - 1);
    println!("more seeds: WHARF_SEEDS=10000; one with its story: SEED={first}");
    let next = AtomicU64::new(first);
    let work = || {
        let (mut sum, mut failed) = (TaskTally::default(), 0);
        loop {
            let seed = next.fetch_add(1, Ordering::Relaxed);
            if seed >= end {
                return (sum, failed);
            }
            let (is_well, story) = run_seed_in_process(seed);
            let tally = story.split_once(TALLY).and_then(|it| it.1.lines().next());
            let tally = tally.and_then(|json| serde_json::from_str(json).ok());
            match tally {
                Some(tally) if is_well => sum = sum + tally,
                _ => {
                    failed += 1;
                    let problems = story.split_once("problems:").map_or(&*story, |it| it.1);
                    println!("SEED={seed}: {problems}");
                }
            }
        }
    };
    let threads = thread::available_parallelism().map_or(2, usize::from);
    let (sum, failed) = thread::scope(|scope| {
        let all: Vec<_> = (0..threads).map(|_| scope.spawn(work)).collect();
        let all = all.into_iter().map(|it| it.join().expect("it ends"));
        all.fold((TaskTally::default(), 0), |(sum, failed), it| (sum + it.0, failed + it.1))
    });
    println!("{seeds} seeds: {sum:?}");
    assert_eq!(failed, 0, "of {seeds} seeds: see above");
    // Otherwise the test proved nothing.
    assert!(sum.completed > 0 && sum.cancelled > 0 && sum.taken_over > 0, "{sum:?}");
}
