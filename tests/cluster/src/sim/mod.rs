//! A cluster in one thread: simulated hosts, network and time, all determined by a seed.

mod bus;
mod callers;
mod fault_injector;
mod node;
mod rpc;
mod store;
mod timer;

use std::{cell::Cell, fmt::Write, sync::Arc, time::Duration};

use wharf_model::StateCipher;
use wharf_server::{KeyRing, TaskOptions};

use self::{
    callers::{KnownTasks, SimCaller},
    fault_injector::FaultInjector,
    node::{NodeClient, SimNode},
    store::StoreHost,
};
use crate::{
    random::SeededRandom,
    task_history::{History, TaskTally},
};

/// Start time of the simulation, in milliseconds since 1970.
const BEGIN: u64 = 1_800_000_000_000;
/// Duration of the faults.
const STORM: Duration = Duration::from_secs(12);
/// Time from which there are no more faults.
const TROUBLE_ENDS: Duration = STORM;
const TICK: Duration = Duration::from_millis(10);
const LEASE: Duration = Duration::from_secs(2);
const PEOPLE: [&str; 2] = ["alice", "bob"];

/// Key of the cluster.
const KEY: &str = "0707070707070707070707070707070707070707070707070707070707070707";

/// Result of one seed.
pub struct SimReport {
    pub problems: Vec<String>,
    pub tally: TaskTally,
    pub history: History,
    /// Injected faults.
    pub faults: Vec<String>,
}

/// Milliseconds since the start of the simulation.
fn now() -> u64 {
    let elapsed = turmoil::sim_elapsed().unwrap_or_default();
    u64::try_from(elapsed.as_millis()).unwrap_or(u64::MAX)
}

/// The key that all nodes share.
fn state_cipher() -> Arc<dyn StateCipher> {
    Arc::new(KEY.parse::<KeyRing>().unwrap_or_else(|_| KeyRing::random()))
}

/// Runs the cluster of this seed to its end.
#[must_use]
pub fn run(seed: u64) -> SimReport {
    wharf_server::seed_rng(seed);
    let mut random = SeededRandom::of(seed, "cluster");
    let mut sim = turmoil::Builder::new()
        .rng_seed(seed)
        .enable_random_order()
        .tick_duration(TICK)
        .min_message_latency(Duration::from_millis(1))
        .max_message_latency(random.millis(10..80))
        // Connection attempts of a whole outage arrive at once. Beyond 64 turmoil panics; a kernel ignores them.
        .tcp_capacity(4096)
        .simulation_duration(TROUBLE_ENDS + callers::SETTLE_TIMEOUT * 3)
        .build();
    let (node_client, disk, history) =
        (NodeClient::default(), StoreHost::default(), History::default());
    let served = disk.clone();
    sim.host(store::HOST, move || served.clone().serve());
    let names: Vec<String> = (0..3).map(|number| format!("node{number}")).collect();
    let options = options(&mut random);
    for name in &names {
        let node = SimNode {
            name: name.clone(),
            node_client: node_client.clone(),
            disk: disk.clone(),
            history: history.clone(),
            options: options.clone(),
            clock: (0.99 + 0.02 * random.fraction(), random.millis(0..7_200_000)),
        };
        let starts = Cell::new(0);
        sim.host(name.as_str(), move || {
            starts.set(starts.get() + 1);
            node.clone().run(starts.get())
        });
    }
    let mut fault_injector = FaultInjector::new(seed, &names, &PEOPLE);
    let (nodes, known, spared) =
        (names.into(), KnownTasks::default(), fault_injector.spares_callers());
    for name in PEOPLE {
        let (node_client, history, known) = (node_client.clone(), history.clone(), known.clone());
        let person = SimCaller {
            name,
            seed,
            nodes: Arc::clone(&nodes),
            node_client,
            history,
            known,
            spared,
        };
        sim.client(name, person.live(2 + random.below(7)));
    }
    let mut problems = vec![];
    loop {
        match sim.step() {
            Ok(false) => fault_injector.apply_faults(&mut sim, STORM),
            Ok(true) => break,
            Err(error) => {
                problems.push(format!("the simulation ended early: {error}"));
                break;
            }
        }
    }
    // Nodes that are dropped with the simulation still record effects, too late to count.
    problems.extend(history.problems(LEASE * 2));
    SimReport { problems, tally: TaskTally::of(&history), history, faults: fault_injector.log }
}

fn options(random: &mut SeededRandom) -> TaskOptions {
    TaskOptions::default()
        .lease(LEASE)
        .attempts(*random.pick(&[2, 4, 50]))
        .backoff(Duration::from_millis(200))
        .longest_backoff(Duration::from_secs(2))
        .poll_interval(Duration::from_millis(200))
        .running(*random.pick(&[1, 3, 100]))
}

impl SimReport {
    /// The whole history, for debugging.
    #[must_use]
    pub fn story(&self) -> String {
        let mut story = String::new();
        let _ = writeln!(story, "{:?}\nfaults:", self.history);
        self.faults.iter().for_each(|fault| story.extend([fault, "\n"]));
        story.push_str("problems:\n");
        self.problems.iter().for_each(|problem| story.extend([problem, "\n"]));
        story
    }
}
