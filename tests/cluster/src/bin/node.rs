//! A node of the cluster: `cluster-node STORE JOURNAL NAME LEASE [RATE]`. Prints its address on
//! stdout.

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
use wharf::server::{CallLimits, Item, KeyRing, Limits, Rates};
use wharf::{http::Http, prelude::*, tasks::TaskOptions};
use wharf_cluster_tests::{
    recording_tools::{
        EffectJournal, LISTENERS, ToolState, count, interview, linger, may_see, note, touch,
        whoami, worker,
    },
    task_history::{JournalEntry, TaskEvent},
};
use wharf_model::Rate;

/// A file that all nodes append to. Its entries survive killed processes.
struct FileJournal(Mutex<File>);

impl EffectJournal for FileJournal {
    fn write(&self, task: &str, event: TaskEvent) {
        let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
        let at = u64::try_from(since.as_millis()).unwrap_or(0);
        let line = serde_json::to_string(&JournalEntry { at, task: task.into(), event });
        let mut file = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        // One write per line: the system appends it as a whole.
        let written = line.map_err(io::Error::from).and_then(|line| {
            file.write_all(format!("{line}\n").as_bytes())?;
            file.sync_data()
        });
        // A node that cannot record an effect must not perform it.
        if written.is_err() {
            std::process::abort();
        }
    }
}

/// Authenticates every caller as the name it sends.
async fn authenticate(mut request: Request, next: Next) -> Response {
    let token = request.headers().get(header::AUTHORIZATION).and_then(|it| it.to_str().ok());
    let name = token.and_then(|token| token.strip_prefix("Bearer ")).map(str::to_owned);
    if let Some(name) = name {
        request.extensions_mut().insert(Principal::new(name));
    }
    next.run(request).await
}

/// Rate limits: bursts of two seconds; only tool calls count.
fn rates(per_second: f64) -> Rates {
    let tool_calls = Rate { per_second, burst: per_second * 2.0 };
    Rates::default().calls(Rate { per_second: 1e6, burst: 1e6 }).tool_calls(tool_calls)
}

#[tokio::main]
async fn main() -> Result<(), Box<dyn Error + Send + Sync>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || arguments.next().ok_or("usage: cluster-node STORE JOURNAL NAME LEASE [RATE]");
    let (store, journal, name, lease) = (next()?, next()?, next()?, next()?);
    let rate = arguments.next().map(|rate| rate.parse::<f64>()).transpose()?;
    let file = OpenOptions::new().create(true).append(true).open(journal)?;
    let tool_state = ToolState::new(Arc::new(FileJournal(Mutex::new(file))), &name);
    let options = TaskOptions::default()
        .lease(Duration::from_millis(lease.parse()?))
        // Tasks of this cluster lose their nodes often, through no fault of the tasks.
        .attempts(1000)
        .backoff(Duration::from_millis(50))
        .longest_backoff(Duration::from_millis(500))
        .poll_interval(Duration::from_millis(200));
    let limits = Limits::default()
        .calls(CallLimits::default().rates(rate.map(rates)))
        // Callers behind the balancer have no address here, and this is a load test.
        .http_rates(None);
    let mut server = Server::new("cluster-node", "1.0.0")
        .store(wharf_store::open(&store).await?)
        .store_key(KeyRing::from_env("WHARF_STORE_KEY")?)
        .limits(limits)
        .http(Http::new().health())
        .tasks(options)
        .state(tool_state)
        .add(worker())
        .tool::<count>()
        .tool::<whoami>()
        .tool::<interview>()
        .tool::<linger>()
        .tool::<touch>()
        .access(|caller: Option<&Principal>, item: Item<'_>| match item {
            Item::Resource(note) => caller.is_some_and(|it| may_see(it.id(), &note.uri)),
            _ => true,
        });
    for (who, number) in LISTENERS.into_iter().flat_map(|who| [(who, 0), (who, 1)]) {
        server = server.add(Resource::new(note(who, number), async || "a note"));
    }
    let endpoint = server.build()?;
    let listener = tokio::net::TcpListener::bind(("127.0.0.1", 0)).await?;
    println!("{}", listener.local_addr()?);
    axum::serve(listener, endpoint.axum().layer(from_fn(authenticate))).await?;
    Ok(())
}
