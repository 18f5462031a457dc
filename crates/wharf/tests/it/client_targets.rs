//! Clients over byte streams and transports of the application.

use std::{
    io,
    sync::{
        Arc, Mutex, Weak,
        atomic::{AtomicUsize, Ordering},
    },
};

use serde_json::{Value, json, value::RawValue};
use tokio::{
    io::{
        AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, ReadHalf, WriteHalf,
        copy_bidirectional, duplex, split,
    },
    sync::Notify,
    task::AbortHandle,
};
use wharf::{
    Client, Endpoint, Era, Error, ErrorKind, Principal, ProtocolVersion, args,
    client::{
        CallError, ClientTransport, ControlRequest, NotificationListener, ServerInfo,
        StreamConnector, Target,
    },
    model::{BoxFuture, ChangeVersion, Outbox, Outcome, Request, RequestExtensions, Service},
    prelude::*,
};

const ERAS: [Era; 2] = [Era::Modern, Era::Legacy];
const BUFFER: usize = 64 << 10;

/// Adds two numbers.
#[tool]
async fn add(a: i64, b: i64) -> i64 {
    a + b
}

/// Notifies the test that it runs, and never returns.
#[tool]
async fn hang(State(started): State<Arc<Notify>>) -> String {
    started.notify_one();
    std::future::pending().await
}

fn server(started: Arc<Notify>) -> Endpoint {
    let server = Server::new("harbour", "1.0.0").state(started);
    server.tool::<add>().tool::<hang>().build().unwrap()
}

fn era_of(client: &Client) -> Era {
    client.about().revision.parse::<ProtocolVersion>().unwrap().era()
}

async fn sum(client: &Client) -> Result<i64, CallError> {
    client.call_as("add", args! { a: 1, b: 2 }).await
}

/// Scripted server of one legacy version, which answers the handshake.
async fn answer_handshake(stream: DuplexStream, version: &str) {
    let (reader, mut writer) = split(stream);
    let mut lines = BufReader::new(reader).lines();
    while let Some(line) = lines.next_line().await.unwrap() {
        let request: Value = serde_json::from_str(&line).unwrap();
        assert_ne!(request["method"], "server/discover");
        if request["method"] == "initialize" {
            let result = json!({
                "protocolVersion": version, "capabilities": {},
                "serverInfo": {"name": "old", "version": "1"},
            });
            let reply = json!({"jsonrpc": "2.0", "id": request["id"], "result": result});
            writer.write_all(format!("{reply}\n").as_bytes()).await.unwrap();
        }
    }
}

#[tokio::test]
async fn an_era_allows_each_of_its_versions() {
    for version in ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"] {
        let (ours, theirs) = duplex(BUFFER);
        tokio::spawn(async move { answer_handshake(theirs, version).await });
        let builder = Client::builder().era(Era::Legacy);
        let client = builder.connect(split(ours)).await.unwrap();
        assert_eq!(client.about().revision, version);
    }
    for era in ERAS {
        let server = server(Arc::default()).connect_memory();
        let client = Client::builder().era(era).connect(server).await.unwrap();
        assert_eq!(era_of(&client), era);
    }
}

/// Connections to one server that the test can cut.
struct Connections {
    server: Endpoint,
    open: Mutex<Vec<AbortHandle>>,
}

type Pair = (ReadHalf<DuplexStream>, WriteHalf<DuplexStream>);

impl Connections {
    fn new(started: Arc<Notify>) -> Arc<Self> {
        Arc::new(Connections { server: server(started), open: Mutex::default() })
    }

    fn open(&self) -> Pair {
        let ((ours, mut near), (mut far, theirs)) = (duplex(BUFFER), duplex(BUFFER));
        let (server, (reader, writer)) = (self.server.clone(), split(theirs));
        tokio::spawn(async move { server.serve_stream(reader, writer).await });
        let cable = tokio::spawn(async move { copy_bidirectional(&mut near, &mut far).await });
        self.open.lock().unwrap().push(cable.abort_handle());
        split(ours)
    }

    fn cut_last(&self) {
        self.open.lock().unwrap().last().unwrap().abort();
    }

    fn count(&self) -> usize {
        self.open.lock().unwrap().len()
    }
}

#[tokio::test]
async fn a_pair_of_streams_is_a_target_in_each_era() {
    for era in ERAS {
        let connections = Connections::new(Arc::default());
        let client = Client::builder().era(era).connect(connections.open()).await.unwrap();
        assert_eq!(era_of(&client), era);
        assert_eq!(sum(&client).await.unwrap(), 3);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pair_of_streams_cannot_be_opened_again() {
    let connections = Connections::new(Arc::default());
    let client = Client::connect(connections.open()).await.unwrap();
    connections.cut_last();
    // The first call may still use the old connection, and fails with it.
    let _ = sum(&client).await;
    let error = sum(&client).await.unwrap_err();
    assert_eq!(error.kind(), ErrorKind::ConnectionClosed, "{error}");
    assert!(error.message().contains("`StreamConnector`"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_connection_that_is_cut_during_a_call_is_opened_again_for_the_next() {
    for era in ERAS {
        let started = Arc::new(Notify::new());
        let connections = Connections::new(started.clone());
        let opened = connections.clone();
        let connector = StreamConnector::new(move || {
            let pair = opened.open();
            async move { Ok(pair) }
        });
        let client = Client::builder().era(era).connect(connector).await.unwrap();

        let cut = async {
            started.notified().await;
            connections.cut_last();
        };
        let (lost, ()) = tokio::join!(client.call("hang", ()).into_future(), cut);
        assert_eq!(lost.unwrap_err().kind(), ErrorKind::ConnectionClosed);

        assert_eq!(sum(&client).await.unwrap(), 3);
        assert_eq!(era_of(&client), era);
        assert_eq!(connections.count(), 2);
    }
}

#[tokio::test]
async fn an_error_of_a_connector_has_its_name() {
    let connector = StreamConnector::new(async || Err::<Pair, _>(io::Error::other("no carrier")));
    let error = Client::connect(connector.name("the modem")).await.unwrap_err();
    assert!(error.message().contains("the modem: no carrier"), "{error}");
}

/// Middleware that counts calls.
struct Counting {
    inner: Arc<dyn ClientTransport>,
    calls: AtomicUsize,
}

impl Service for Counting {
    fn call(&self, request: Request, outbox: Outbox) -> BoxFuture<Outcome> {
        self.calls.fetch_add(1, Ordering::Relaxed);
        self.inner.call(request, outbox)
    }

    fn change_version(&self) -> Option<ChangeVersion> {
        self.inner.change_version()
    }
}

impl ClientTransport for Counting {
    fn about(&self) -> Arc<ServerInfo> {
        self.inner.about()
    }

    fn request(
        &self,
        method: String,
        params: Option<Box<RawValue>>,
        outbox: Outbox,
    ) -> BoxFuture<Result<Box<RawValue>, Error>> {
        self.inner.request(method, params, outbox)
    }

    fn run(&self, control: ControlRequest) -> BoxFuture<Result<(), Error>> {
        self.inner.run(control)
    }

    fn add_listener(&self, listener: Weak<dyn NotificationListener>) {
        self.inner.add_listener(listener);
    }

    fn scope(&self) -> RequestExtensions {
        self.inner.scope()
    }

    fn sends_param_headers(&self) -> bool {
        self.inner.sends_param_headers()
    }

    fn close(&self) -> BoxFuture<()> {
        self.inner.close()
    }
}

async fn counting() -> Arc<Counting> {
    let inner = Client::connect(server(Arc::default())).await.unwrap().transport();
    Arc::new(Counting { inner, calls: AtomicUsize::new(0) })
}

#[tokio::test]
async fn a_transport_of_the_application_is_a_target() {
    let transport = counting().await;
    let client = Client::connect(transport.clone()).await.unwrap();
    assert_eq!(client.about().info.name, "harbour");
    assert_eq!(sum(&client).await.unwrap(), 3);
    assert_eq!(transport.calls.load(Ordering::Relaxed), 1);

    let shared: Arc<dyn ClientTransport> = transport.clone();
    let client = Client::connect(shared).await.unwrap();
    assert_eq!(sum(&client).await.unwrap(), 3);
    assert_eq!(transport.calls.load(Ordering::Relaxed), 2);
}

#[tokio::test]
async fn a_transport_of_the_application_sets_the_principal() {
    let targets: [Target; 2] =
        [counting().await.into(), (tokio::io::empty(), tokio::io::sink()).into()];
    for target in targets {
        let builder = Client::builder().principal(Principal::new("alice"));
        let error = builder.connect(target).await.unwrap_err();
        assert!(error.message().contains("only for a server in this process"), "{error}");
    }
}
