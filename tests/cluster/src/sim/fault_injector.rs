//! Injection of faults.

use std::time::Duration;

use turmoil::Sim;

use super::store;
use crate::random::SeededRandom;

/// Breaks links and hosts at random, and repairs them. Each has one fault at a time.
pub struct FaultInjector {
    random: SeededRandom,
    nodes: Vec<String>,
    callers: Vec<String>,
    /// Probability of each kind of fault.
    mood: [usize; 7],
    next: Duration,
    faults: Vec<ActiveFault>,
    /// Injected faults, to be read beside the history.
    pub log: Vec<String>,
}

/// Probability of each kind of fault: a node cut off, its requests lost, its replies lost, both
/// late, callers cut off, a node down, the store down.
const MOODS: [[usize; 7]; 4] =
    [[2, 1, 1, 2, 1, 2, 1], [6, 1, 1, 1, 0, 1, 0], [1, 1, 4, 4, 0, 1, 0], [1, 0, 1, 1, 1, 8, 1]];

struct ActiveFault {
    kind: FaultKind,
    until: Duration,
}

#[derive(Clone, Debug, PartialEq)]
enum FaultKind {
    /// Everything between two hosts is lost.
    Cut(String, String),
    /// Everything from one host to another is lost.
    CutOneWay(String, String),
    /// Everything between two hosts is held back.
    Held(String, String),
    /// A host has crashed.
    Down(String),
}

impl FaultKind {
    /// The hosts it concerns: a link, or one host.
    fn place(&self) -> (&str, &str) {
        match self {
            FaultKind::Cut(a, b) | FaultKind::CutOneWay(a, b) | FaultKind::Held(a, b) if a < b => {
                (a, b)
            }
            FaultKind::Cut(a, b) | FaultKind::CutOneWay(a, b) | FaultKind::Held(a, b) => (b, a),
            FaultKind::Down(host) => (host, host),
        }
    }

    fn begin(&self, sim: &mut Sim<'_>) {
        match self {
            FaultKind::Cut(a, b) => sim.partition(a.as_str(), b.as_str()),
            FaultKind::CutOneWay(from, to) => sim.partition_oneway(from.as_str(), to.as_str()),
            FaultKind::Held(a, b) => sim.hold(a.as_str(), b.as_str()),
            FaultKind::Down(host) => sim.crash(host.as_str()),
        }
    }

    fn end(&self, sim: &mut Sim<'_>) {
        match self {
            FaultKind::Cut(a, b) => sim.repair(a.as_str(), b.as_str()),
            FaultKind::CutOneWay(from, to) => sim.repair_oneway(from.as_str(), to.as_str()),
            FaultKind::Held(a, b) => sim.release(a.as_str(), b.as_str()),
            FaultKind::Down(host) => sim.bounce(host.as_str()),
        }
    }
}

impl FaultInjector {
    #[must_use]
    pub fn new(seed: u64, nodes: &[String], callers: &[&str]) -> Self {
        let mut random = SeededRandom::of(seed, "storm");
        FaultInjector {
            mood: *random.pick(&MOODS),
            random,
            nodes: nodes.to_vec(),
            callers: callers.iter().map(ToString::to_string).collect(),
            next: Duration::from_millis(300),
            faults: vec![],
            log: vec![],
        }
    }

    /// Returns whether callers are never cut off: then every waiting call gets a reply or an error.
    #[must_use]
    pub fn spares_callers(&self) -> bool {
        self.mood[4] == 0
    }

    /// Applies the faults that are due, until everything is repaired at `end`.
    pub fn apply_faults(&mut self, sim: &mut Sim<'_>, end: Duration) {
        let now = sim.elapsed();
        let (over, going_on) =
            std::mem::take(&mut self.faults).into_iter().partition(|it| it.until.min(end) <= now);
        self.faults = going_on;
        let over: Vec<ActiveFault> = over;
        for fault in over {
            self.log.push(format!("{:9.3} s  no more {:?}", now.as_secs_f64(), fault.kind));
            fault.kind.end(sim);
        }
        if now < self.next || now >= end {
            return;
        }
        self.next = now + self.random.millis(100..1500);
        let kind = self.choose();
        if self.faults.iter().any(|it| it.kind.place() == kind.place()) {
            return;
        }
        self.log.push(format!("{:9.3} s  {kind:?}", now.as_secs_f64()));
        kind.begin(sim);
        let lasts = match kind {
            FaultKind::Down(_) => self.random.millis(50..4000),
            _ => self.random.millis(100..7000),
        };
        self.faults.push(ActiveFault { kind, until: now + lasts });
    }

    fn choose(&mut self) -> FaultKind {
        let node = self.random.pick(&self.nodes).clone();
        let store = store::HOST.to_owned();
        let mut drawn = self.random.below(self.mood.iter().sum());
        let kind = self.mood.iter().position(|weight| match drawn.checked_sub(*weight) {
            Some(rest) => {
                drawn = rest;
                false
            }
            None => true,
        });
        match kind {
            Some(0) => FaultKind::Cut(node, store),
            Some(1) => FaultKind::CutOneWay(node, store),
            Some(2) => FaultKind::CutOneWay(store, node),
            Some(3) => FaultKind::Held(node, store),
            Some(4) => FaultKind::Cut(self.random.pick(&self.callers).clone(), node),
            Some(5) => FaultKind::Down(node),
            _ => FaultKind::Down(store),
        }
    }
}
