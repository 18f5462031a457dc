//! The show itself: what happens, and what of it is said.

use std::net::Ipv4Addr;
use std::pin::pin;
use std::time::Instant;

use tokio::net::TcpListener;
use tokio::signal::ctrl_c;
use tokio::sync::mpsc::{UnboundedReceiver, unbounded_channel};
use wharf::{Client, Content, RunError, ToolResult, args, tasks::TaskHandle};

use crate::balancer;
use crate::log::Log;
use crate::node::LEASE;
use crate::redis::Redis;
use crate::stage::{Node, Said, random_key};

const NAMES: [&str; 3] = ["north", "east", "south"];
const CRATES: u32 = 5;

/// The crate during which the node is killed.
const KILL_AT: u32 = 3;

pub(crate) async fn run() -> wharf::Result<()> {
    tokio::select! {
        // Dropping the show ends all that it started.
        result = show() => result,
        _ = ctrl_c() => Err(RunError::new("interrupted")),
    }
}

async fn show() -> wharf::Result<()> {
    say("", "three processes become one server, get a task, and lose the one that works on it");
    let redis = Redis::start().await?;
    say("redis", &format!("listens at {}", redis.address));
    let (hear, heard) = unbounded_channel();
    let key = random_key()?;
    let mut nodes = Vec::new();
    for name in NAMES {
        let node = Node::start(name, &redis.url(), &key, hear.clone()).await?;
        say(name, &format!("is a node, process {}", node.process_id()));
        nodes.push(node);
    }
    drop(hear);
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
    let url = format!("http://{}/mcp", listener.local_addr()?);
    say("balancer", &format!("has them all behind {url}"));
    tokio::spawn(balancer::run(listener, nodes.iter().map(|node| node.address).collect()));

    let client = Client::connect(url.as_str()).await?;
    let task = client.call_task("load", args! { crates: CRATES }).await?;
    let id = task.id().ok_or_else(|| RunError::new("the server made no task"))?;
    let short: String = id.chars().take(8).collect();
    say("client", &format!("has task {short}…, to load {CRATES} crates; Redis has it, too"));
    let mut audience = Audience { nodes, heard, log: Log::default() };
    let result = audience.follow(&task).await?;
    say("client", &format!("has the result: {result}"));
    let log = audience.leave().await;
    say("", &log.verdict(CRATES).map_err(RunError::new)?);
    say(
        "",
        "a node is 20 lines: see examples/cluster/src/node.rs, and docs/tasks.md for what survives",
    );
    Ok(())
}

/// Who hears the nodes, and kills one.
struct Audience {
    nodes: Vec<Node>,
    heard: UnboundedReceiver<Said>,
    log: Log,
}

impl Audience {
    /// Waits for the end of the task, and kills the node that runs it on the way.
    async fn follow(&mut self, task: &TaskHandle) -> wharf::Result<String> {
        let mut result = pin!(async { task.wait().await });
        let mut silence = None;
        loop {
            let (name, line) = tokio::select! {
                result = &mut result => return Ok(text(&result?)),
                Some(said) = self.heard.recv() => said,
            };
            let line = line.ok_or_else(|| RunError::new(format!("{name} ended by itself")))?;
            if let Some((dead, since)) = silence.take() {
                let time = Instant::now().duration_since(since).as_secs_f32();
                say(name, &format!("takes the task over, {time:.1} s after {dead} fell silent"));
            }
            self.hear(name, &line);
            if !self.log.has_killed() && self.log.in_the_air() == KILL_AT {
                self.kill(name).await?;
                silence = Some((name, Instant::now()));
            }
        }
    }

    fn hear(&mut self, name: &'static str, line: &str) {
        say(name, line);
        self.log.hear(name, line);
    }

    async fn kill(&mut self, name: &'static str) -> wharf::Result<()> {
        let node = self.nodes.iter_mut().find(|node| node.name == name);
        node.ok_or_else(|| RunError::new("an unknown node spoke"))?.kill().await?;
        // What it had said by then comes first.
        while let Some((speaker, Some(line))) = self.heard.recv().await {
            self.hear(speaker, &line);
        }
        let (number, lease) = (self.log.kill(), LEASE.as_secs());
        say("", &format!("kill -9 {name}, with crate {number} in the air"));
        say(
            "",
            &format!("the task stays {name}'s for a lease of {lease} s; then anybody may have it"),
        );
        Ok(())
    }

    /// Ends the nodes, and gives all that was heard.
    async fn leave(mut self) -> Log {
        self.nodes.clear();
        while let Some((name, line)) = self.heard.recv().await {
            line.iter().for_each(|line| self.log.hear(name, line));
        }
        self.log
    }
}

fn text(result: &ToolResult) -> String {
    result.content.iter().filter_map(Content::as_text).collect()
}

fn say(who: &str, what: &str) {
    println!("{who:>8} │ {what}");
}
