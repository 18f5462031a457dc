//! A node of a fleet: `fleet-node STORE JOURNAL NAME LEASE`. Says on stdout where it listens.

use std::{
    error::Error,
    fs::{File, OpenOptions},
    io::{self, Write},
    sync::{Arc, Mutex, PoisonError},
    time::{Duration, SystemTime},
};

use axum::{
    extract::Request,
    http::header,
    middleware::{Next, from_fn},
    response::Response,
};
use wharf::{Http, TaskOptions, prelude::*};
use wharf_fleet_tests::{
    history::{Entry, Event},
    work::{Desk, Journal, count, whoami, worker},
};

/// A file that all nodes append to. What is in it stays, whoever is killed.
struct Appended(Mutex<File>);

impl Journal for Appended {
    fn write(&self, task: &str, event: Event) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_millis()).unwrap_or(0);
        let line = serde_json::to_string(&Entry { at, task: task.into(), event });
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One write a line: the system appends it as a whole.
        let written = line.map_err(io::Error::from).and_then(|line| {
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        });
        // A node that cannot say what it does must not do it.
        if written.is_err() {
            std::process::abort();
        }
    }
}

/// Everybody is who they say they are.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let name = token.and_then(|token| token.strip_prefix("Bearer ")).map(str::to_owned);
    if let Some(name) = name {
        request.extensions_mut().insert(Principal::new(name));
    }
    next.run(request).await
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: fleet-node STORE JOURNAL NAME LEASE");
    let (store, journal, name, lease) = (next()?, next()?, next()?, next()?);
    let file = OpenOptions::new().create(true).append(true).open(journal)?;
    let desk = Desk::new(Arc::new(Appended(Mutex::new(file))), &name);
    let options = TaskOptions {
        lease: Duration::from_millis(lease.parse()?),
        // Tasks of this fleet lose their nodes all the time, which is no fault of theirs.
        attempts: 1000,
        backoff: Duration::from_millis(50),
        longest_backoff: Duration::from_millis(500),
        poll_interval: Duration::from_millis(200),
        ..TaskOptions::default()
    };
    let endpoint = Server::new("fleet-node", "1.0.0")
        .store(wharf_store::open(&store).await?)
        .http(Http::new().health())
        // Callers that come through a balancer have no address here, and this is a load test.
        .http_rates(None)
        .tasks(options)
        .state(desk)
        .add(worker())
        .tool::<count>()
        .tool::<whoami>()
        .build()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, endpoint.axum().layer(from_fn(authenticate))).await?;
    Ok(())
}
