//! One node of the cluster. All nodes are alike; what they share is the Redis and the key in `WHARF_STATE_KEY`.

use std::net::Ipv4Addr;
use std::process;
use std::thread;
use std::time::Duration;

use tokio::time::sleep;
use wharf::prelude::*;
use wharf::tasks::TaskOptions;

/// What a node says when it begins to lift a crate, before the crate's number.
pub(crate) const LIFTS: &str = "lifts crate ";

/// How long lifting a crate takes.
const LIFTING: Duration = Duration::from_millis(500);

/// How long a node that shows no life keeps its tasks to itself: 30 s, unless an example is in a hurry.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Crane {
    node: String,
}

impl Crane {
    /// Lifts a crate onto the ship: the effect that nobody wants to happen twice.
    async fn lift(&self, number: u32) -> String {
        println!("{LIFTS}{number}");
        sleep(LIFTING).await;
        self.node.clone()
    }
}

/// Loads a ship, crate by crate, and tells which node lifted which crate.
#[tool(task)]
async fn load(crates: u32, State(crane): State<Crane>, ctx: Ctx) -> String {
    let mut loaded = Vec::new();
    for number in 1..=crates {
        let node = ctx.step(format!("crate {number}"), crane.lift(number)).await;
        if node != crane.node {
            println!("finds crate {number} aboard: {node} lifted it");
        }
        loaded.push(format!("crate {number} by {node}"));
    }
    loaded.join(", ")
}

pub(crate) async fn run(name: &str, port: u16, store: &str) -> wharf::Result<()> {
    end_with_the_show();
    let poll_interval = Duration::from_millis(250);
    let options = TaskOptions::default().lease(LEASE).poll_interval(poll_interval);
    Server::new("cluster", "1.0.0")
        .state(Crane { node: name.to_owned() })
        .tool::<load>()
        .tasks(options)
        .store(wharf::store::open(store).await?)
        .serve_http((Ipv4Addr::LOCALHOST, port))
        .await
}

/// The show holds the other end of stdin: when it is gone, however that happened, so is this node.
fn end_with_the_show() {
    thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        process::exit(0);
    });
}
