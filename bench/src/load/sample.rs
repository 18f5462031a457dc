//! Measurements of a run.

use std::collections::BTreeMap;
use std::io;
use std::time::{Duration, Instant};

use super::client::Turn;
use crate::process::Server;

/// Figures by key.
pub type Sample = BTreeMap<&'static str, f64>;

/// Counters of the load generator.
#[derive(Debug, Default)]
pub struct Tally {
    /// Successful calls.
    pub calls: u64,
    /// Received notifications.
    pub notifications: u64,
    /// Missing notifications.
    pub lost: u64,
    /// Number of task polls.
    pub looks: u64,
    /// Latency of each call.
    pub latencies: Vec<Duration>,
}

impl Tally {
    /// Adds a successful call.
    pub fn add(&mut self, latency: Duration, turn: Turn, expected: u64) {
        self.calls += 1;
        self.notifications += turn.notifications;
        self.lost += expected.saturating_sub(turn.notifications);
        self.looks += turn.looks;
        self.latencies.push(latency);
    }

    fn percentile(&self, share: f64) -> f64 {
        let last = self.latencies.len().saturating_sub(1);
        let at = (last as f64 * share).round() as usize;
        self.latencies.get(at).map_or(0.0, |latency| microseconds(*latency))
    }
}

/// Clocks and CPU times at the start of the measurement.
#[derive(Debug)]
pub struct Meter {
    began: Instant,
    server_cpu: Duration,
    store_cpu: Duration,
}

impl Meter {
    /// Reads the wall clock and the CPU times of the server and its store.
    pub fn start(server: &Server, store: Option<&Server>) -> io::Result<Self> {
        let (server_cpu, store_cpu) = (server.usage()?.cpu, cpu(store)?);
        Ok(Meter { began: Instant::now(), server_cpu, store_cpu })
    }

    /// Reads them again and computes the figures per call.
    pub fn stop(
        self,
        server: &Server,
        store: Option<&Server>,
        tally: &mut Tally,
    ) -> io::Result<Sample> {
        let elapsed = self.began.elapsed().as_secs_f64();
        let (usage, store_cpu) = (server.usage()?, cpu(store)?);
        tally.latencies.sort_unstable();
        let calls = tally.calls.max(1) as f64;
        let mut sample = Sample::from([
            ("calls_per_second", tally.calls as f64 / elapsed),
            ("cpu_us", microseconds(usage.cpu - self.server_cpu) / calls),
            ("p50_us", tally.percentile(0.5)),
            ("p99_us", tally.percentile(0.99)),
            ("max_us", tally.percentile(1.0)),
            ("memory_bytes", usage.memory as f64),
            ("peak_bytes", usage.peak as f64),
        ]);
        if tally.notifications + tally.lost > 0 {
            sample.insert("events_per_second", tally.notifications as f64 / elapsed);
            sample.insert("lost_per_call", tally.lost as f64 / calls);
        }
        if tally.looks > 0 {
            sample.insert("looks_per_task", tally.looks as f64 / calls);
        }
        if store.is_some() {
            sample.insert("store_cpu_us", microseconds(store_cpu - self.store_cpu) / calls);
        }
        Ok(sample)
    }
}

fn cpu(store: Option<&Server>) -> io::Result<Duration> {
    store.map_or(Ok(Duration::ZERO), |store| Ok(store.usage()?.cpu))
}

fn microseconds(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}
