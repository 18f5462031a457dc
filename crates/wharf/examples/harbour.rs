//! Tools with state, a question to the user, and an effect that happens once.
//!
//! Run it with `cargo run -p wharf-mcp --example harbour`, and point a client at it.
use std::{
    io,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use wharf::prelude::*;

/// Adds two numbers.
#[tool]
async fn add(
    /// The first number.
    a: i64,
    /// The second number.
    b: i64,
) -> i64 {
    a + b
}

/// Deploys a build, after the user agrees.
#[tool(destructive)]
async fn deploy(build: String, State(db): State<Db>, ctx: Ctx) -> Result<Json<Receipt>, ToolError> {
    let yes: Confirm = ctx.ask("confirm", format!("Deploy {build}?")).await?;
    let receipt = ctx.step("deploy", db.deploy(&build, yes)).await;
    ctx.progress(1.0).await;
    Ok(Json(receipt))
}

/// What the user is asked.
#[derive(Deserialize, JsonSchema)]
struct Confirm {
    /// Really?
    confirmed: bool,
}

/// What a deployment leaves behind.
#[derive(Serialize, Deserialize, JsonSchema)]
struct Receipt {
    build: String,
    /// None if the user kept what is there.
    number: Option<u64>,
}

/// Stands for a database: cheap to clone, shared by all calls.
#[derive(Clone)]
struct Db {
    deployments: Arc<AtomicU64>,
}

impl Db {
    fn open() -> io::Result<Self> {
        Ok(Db { deployments: Arc::default() })
    }

    async fn deploy(&self, build: &str, Confirm { confirmed }: Confirm) -> Receipt {
        let number = confirmed.then(|| self.deployments.fetch_add(1, Ordering::Relaxed) + 1);
        Receipt { build: build.to_owned(), number }
    }
}

#[tokio::main]
async fn main() -> wharf::Result<()> {
    Server::new("harbour", "1.0.0").state(Db::open()?).tool::<add>().tool::<deploy>().run().await
}
