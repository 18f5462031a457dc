//! Nodes in separate processes behind a balancer, which can be killed at random.

use std::{
    fs, io,
    net::SocketAddr,
    path::{Path, PathBuf},
    sync::{Arc, PoisonError},
    time::Duration,
};

use tokio::{
    sync::Mutex,
    time::{Instant, sleep, sleep_until},
};

use crate::{
    processes::{NodePlan, NodeProcess, TestDirectory},
    proxy::Proxy,
    random::SeededRandom,
    task_history::{History, JournalEntry},
};

/// Nodes behind a balancer, on one store. Clones share the cluster.
#[derive(Clone)]
pub struct TestCluster {
    nodes: Arc<[Mutex<NodeProcess>]>,
    proxy: Proxy,
    journal: Arc<(PathBuf, TestDirectory)>,
    /// Killed processes and their time of death.
    deaths: Arc<std::sync::Mutex<Vec<(String, Instant)>>>,
}

impl TestCluster {
    /// Starts this number of nodes on `store`.
    ///
    /// # Errors
    /// If they do not start.
    pub async fn start(program: &str, store: &str, nodes: usize, lease: u64) -> io::Result<Self> {
        TestCluster::limited(program, store, nodes, lease, None).await
    }

    /// Starts nodes with a rate limit for tools per caller and second.
    ///
    /// # Errors
    /// If they do not start.
    pub async fn limited(
        program: &str,
        store: &str,
        nodes: usize,
        lease: u64,
        rate: Option<u32>,
    ) -> io::Result<Self> {
        let directory = TestDirectory::new()?;
        let journal = directory.path().join("journal");
        let (program, store) = (program.into(), store.into());
        let plan = NodePlan { program, store, journal: journal.clone(), lease, rate };
        let mut started = vec![];
        for number in 0..nodes {
            started.push(NodeProcess::start(plan.clone(), &format!("node{number}")).await?);
        }
        let proxy = Proxy::start(started.iter().map(NodeProcess::address).collect()).await?;
        let nodes = started.into_iter().map(Mutex::new).collect();
        let journal = Arc::new((journal, directory));
        Ok(TestCluster { nodes, proxy, journal, deaths: Arc::default() })
    }

    /// Address of the balancer.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.proxy.address())
    }

    /// Kills a node and restarts it at once.
    ///
    /// # Errors
    /// If it does not restart.
    pub async fn kill(&self, number: usize) -> io::Result<()> {
        let mut node = self.nodes[number].lock().await;
        let death = (node.by(), Instant::now());
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner).push(death);
        node.kill().await?;
        node.restart().await?;
        self.proxy.replace(number, node.address());
        Ok(())
    }

    /// Kills a random node every `pause` until `end`; returns the number of kills.
    ///
    /// # Errors
    /// If one does not restart.
    pub async fn kill_randomly(&self, pause: Duration, end: Instant) -> io::Result<usize> {
        let mut random = SeededRandom::new(u64::from(std::process::id()));
        let mut kills = 0;
        while Instant::now() < end {
            let next = Instant::now() + pause;
            self.kill(random.below(self.nodes.len())).await?;
            kills += 1;
            sleep_until(next).await;
        }
        Ok(kills)
    }

    /// Suspends a random node for `pause`, one after the other until `end`; returns the number of
    /// suspensions.
    ///
    /// # Errors
    /// If one does not exist.
    pub async fn freeze(&self, pause: Duration, end: Instant) -> io::Result<usize> {
        let mut random = SeededRandom::new(u64::from(std::process::id()));
        let mut times = 0;
        while Instant::now() < end {
            let node = self.nodes[random.below(self.nodes.len())].lock().await;
            node.freeze(true).await?;
            sleep(pause).await;
            node.freeze(false).await?;
            times += 1;
            sleep(random.millis(0..500)).await;
        }
        Ok(times)
    }

    /// Addresses of the nodes.
    pub async fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = vec![];
        for node in &*self.nodes {
            addresses.push(node.lock().await.address());
        }
        addresses
    }

    /// Killed processes and their time of death.
    #[must_use]
    pub fn deaths(&self) -> Vec<(String, Instant)> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// Memory of a node, in KiB.
    pub async fn memory(&self, number: usize) -> Option<u64> {
        self.nodes[number].lock().await.memory()
    }

    /// Adds the recorded effects of the tools to a history.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn read_journal(&self, history: &History) -> io::Result<()> {
        let path: &Path = &self.journal.0;
        for line in fs::read_to_string(path)?.lines() {
            // A killed node may have written half a line.
            if let Ok(JournalEntry { at, task, event }) = serde_json::from_str(line) {
                history.add(at, &task, event);
            }
        }
        Ok(())
    }
}
