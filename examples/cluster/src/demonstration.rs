//! Runs the demonstration and prints its steps.

use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wharf::{Client, Content, RunError, ToolResult, args, tasks::TaskHandle};

use crate::balancer;
use crate::lift_log::LiftLog;
use crate::node::LEASE;
use crate::node_process::{NodeProcess, OutputLine, random_key};
use crate::redis::RedisProcess;

const NAMES: [&str; 3] = ["north", "east", "south"];
const CRATES: u32 = 5;

/// The crate during which the node is killed.
const KILL_DURING: u32 = 3;

pub(crate) async fn run() -> wharf::Result<()> {
    tokio::select! {
        // Dropping the future ends all processes that it started.
        result = demonstration() => result,
        _ = ctrl_c() => Err(RunError::new("interrupted")),
    }
}

async fn demonstration() -> wharf::Result<()> {
    print_line(
        "",
        "three processes form one server, get a task, and lose the process that runs it",
    );
    let redis = RedisProcess::start().await?;
    print_line("redis", &format!("listens at {}", redis.address));
    let (sender, output) = unbounded_channel();
    let key = random_key()?;
    let mut nodes = Vec::new();
    for name in NAMES {
        let node = NodeProcess::start(name, &redis.url(), &key, sender.clone()).await?;
        print_line(name, &format!("node started, process {}", node.process_id()));
        nodes.push(node);
    }
    drop(sender);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    print_line("balancer", &format!("forwards {url} to all nodes"));
    tokio::spawn(balancer::run(listener, nodes.iter().map(|node| node.address).collect()));

    let client = Client::connect(url.as_str()).await?;
    let task = client.call_task("load", args! { crates: CRATES }).await?;
    let id = task.id().ok_or_else(|| RunError::new("the server made no task"))?;
    let short: String = id.chars().take(8).collect();
    print_line(
        "client",
        &format!("started task {short}… to load {CRATES} crates; it is stored in Redis"),
    );
    let mut observer = NodeObserver { nodes, output, log: LiftLog::default() };
    let result = observer.follow(&task).await?;
    print_line("client", &format!("has the result: {result}"));
    let log = observer.finish().await;
    print_line("", &log.check(CRATES).map_err(RunError::new)?);
    print_line(
        "",
        "a node is 20 lines: see examples/cluster/src/node.rs, and docs/tasks.md for the guarantees",
    );
    Ok(())
}

/// Receives the output of the nodes and kills one.
struct NodeObserver {
    nodes: Vec<NodeProcess>,
    output: UnboundedReceiver<OutputLine>,
    log: LiftLog,
}

impl NodeObserver {
    /// Waits for the result of the task, and kills the node that runs it in between.
    async fn follow(&mut self, task: &TaskHandle) -> wharf::Result<String> {
        let mut result = pin!(async { task.wait().await });
        let mut silence = None;
        loop {
            let (name, line) = tokio::select! {
                result = &mut result => return Ok(text(&result?)),
                Some(line) = self.output.recv() => line,
            };
            let line = line.ok_or_else(|| RunError::new(format!("{name} exited unexpectedly")))?;
            if let Some((dead, since)) = silence.take() {
                let time = Instant::now().duration_since(since).as_secs_f32();
                print_line(
                    name,
                    &format!("takes the task over, {time:.1} s after {dead} was killed"),
                );
            }
            self.record(name, &line);
            if !self.log.has_killed() && self.log.last_lifted() == KILL_DURING {
                self.kill(name).await?;
                silence = Some((name, Instant::now()));
            }
        }
    }

    fn record(&mut self, name: &'static str, line: &str) {
        print_line(name, line);
        self.log.record(name, line);
    }

    async fn kill(&mut self, name: &'static str) -> wharf::Result<()> {
        let node = self.nodes.iter_mut().find(|node| node.name == name);
        node.ok_or_else(|| RunError::new("output from an unknown node"))?.kill().await?;
        // Handles the remaining output of the killed node first.
        while let Some((speaker, Some(line))) = self.output.recv().await {
            self.record(speaker, &line);
        }
        let (number, lease) = (self.log.kill(), LEASE.as_secs());
        print_line("", &format!("kill -9 {name}, with crate {number} in the air"));
        print_line(
            "",
            &format!(
                "{name} keeps the lease of the task for {lease} s; then another node can claim it"
            ),
        );
        Ok(())
    }

    /// Ends the nodes and returns the complete log.
    async fn finish(mut self) -> LiftLog {
        self.nodes.clear();
        while let Some((name, line)) = self.output.recv().await {
            line.iter().for_each(|line| self.log.record(name, line));
        }
        self.log
    }
}

fn text(result: &ToolResult) -> String {
    result.content.iter().filter_map(Content::as_text).collect()
}

fn print_line(name: &str, text: &str) {
    println!("{name:>8} │ {text}");
}
