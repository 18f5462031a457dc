//! Node of the cluster. All nodes are identical; they share Redis and the key in `WHARF_STATE_KEY`.

use std::net::Ipv4Addr;
use std::process;
use std::thread;
use std::time::Duration;

use tokio::time::sleep;
use wharf::prelude::*;
use wharf::tasks::TaskOptions;

/// Output of a node when it starts to lift a crate, followed by the crate's number.
pub(crate) const LIFT_OUTPUT: &str = "lifts crate ";

/// Time to lift a crate.
const LIFT_TIME: Duration = Duration::from_millis(500);

/// Lease of a task: the time after which other nodes claim the tasks of a dead one. The default is 30 s.
pub(crate) const LEASE: Duration = Duration::from_secs(3);

#[derive(Clone)]
struct Crane {
    node: String,
}

impl Crane {
    /// Lifts a crate onto the ship: a side effect that must not be repeated.
    async fn lift(&self, number: u32) -> String {
        println!("{LIFT_OUTPUT}{number}");
        sleep(LIFT_TIME).await;
        self.node.clone()
    }
}

/// Loads a ship, crate by crate, and returns which node lifted which crate.
#[tool(task)]
async fn load(crates: u32, State(crane): State<Crane>, ctx: Ctx) -> String {
    let mut loaded = Vec::new();
    for number in 1..=crates {
        let node = ctx.step(format!("crate {number}"), crane.lift(number)).await;
        if node != crane.node {
            println!("skips crate {number}: {node} lifted it");
        }
        loaded.push(format!("crate {number} by {node}"));
    }
    loaded.join(", ")
}

pub(crate) async fn run(name: &str, port: u16, store: &str) -> wharf::Result<()> {
    exit_with_parent();
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

/// Exits the process when stdin closes, which happens when the parent process ends in any way.
fn exit_with_parent() {
    thread::spawn(|| {
        let _ = std::io::copy(&mut std::io::stdin(), &mut std::io::sink());
        process::exit(0);
    });
}
