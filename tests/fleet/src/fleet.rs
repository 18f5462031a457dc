//! Nodes in processes of their own behind a balancer, and somebody who kills them.

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
    history::{History, JournalEntry},
    processes::{NodePlan, NodeProcess, TestDirectory},
    proxy::Proxy,
    random::SeededRandom,
};

/// Nodes behind a balancer, on one store. Clones are the same fleet.
#[derive(Clone)]
pub struct TestCluster {
    nodes: Arc<[Mutex<NodeProcess>]>,
    proxy: Proxy,
    journal: Arc<(PathBuf, TestDirectory)>,
    /// Which process was killed, and when.
    deaths: Arc<std::sync::Mutex<Vec<(String, Instant)>>>,
}

impl TestCluster {
    /// So many nodes, which keep everything in `store`.
    ///
    /// # Errors
    /// If they do not start.
    pub async fn start(program: &str, store: &str, nodes: usize, lease: u64) -> io::Result<Self> {
        TestCluster::limited(program, store, nodes, lease, None).await
    }

    /// The same, where a caller may use tools only so often a second.
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

    /// Where the balancer is.
    #[must_use]
    pub fn proxy(&self) -> &Proxy {
        &self.proxy
    }

    #[must_use]
    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.proxy.address())
    }

    /// Kills a node, and starts it again at once.
    ///
    /// # Errors
    /// If it does not come back.
    pub async fn kill(&self, number: usize) -> io::Result<()> {
        let mut node = self.nodes[number].lock().await;
        let death = (node.by(), Instant::now());
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner).push(death);
        node.kill().await?;
        node.restart().await?;
        self.proxy.replace(number, node.address());
        Ok(())
    }

    /// Kills a random node every `pause` until `end`: how often.
    ///
    /// # Errors
    /// If one does not come back.
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

    /// Freezes a random node for `pause`, one after the other until `end`: how often.
    ///
    /// # Errors
    /// If one is not there.
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

    /// Where each node is.
    pub async fn addresses(&self) -> Vec<SocketAddr> {
        let mut addresses = vec![];
        for node in &*self.nodes {
            addresses.push(node.lock().await.address());
        }
        addresses
    }

    /// Which processes were killed, and when.
    #[must_use]
    pub fn deaths(&self) -> Vec<(String, Instant)> {
        self.deaths.lock().unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// How much memory a node has, in KiB.
    pub async fn memory(&self, number: usize) -> Option<u64> {
        self.nodes[number].lock().await.memory()
    }

    /// Adds to a history what the tools did.
    ///
    /// # Errors
    /// If the journal cannot be read.
    pub fn read_journal(&self, history: &History) -> io::Result<()> {
        let path: &Path = &self.journal.0;
        for line in fs::read_to_string(path)?.lines() {
            // A node that was killed may have written half a line.
            if let Ok(JournalEntry { at, task, event }) = serde_json::from_str(line) {
                history.add(at, &task, event);
            }
        }
        Ok(())
    }
}
