//! Client helpers: options, calls and their events.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use wharf_client::ClientTransport;
use wharf_model::{
    ActiveCall, ClientCapabilities, ClientRequest, Deadlines, Error, ErrorKind, Event,
    Implementation, LiveSubscriptionFilter, Method, Notification, Outcome, Reply, Request,
    RequestBuilder, SubscriptionFilter,
};
use wharf_transport::{
    TokioTimer,
    client::{ClientTransportOptions, TraceEvent, connect_http},
};
use wharf_wire::ClientIdentity;

pub(crate) const LEGACY: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";

pub(crate) fn options() -> ClientTransportOptions {
    let mut capabilities = ClientCapabilities::default();
    capabilities.roots = Some(Default::default());
    ClientTransportOptions::new(ClientIdentity {
        info: Implementation::new("test", "1"),
        capabilities,
        notifications: Vec::new(),
    })
}

pub(crate) fn pinned(revision: &str) -> ClientTransportOptions {
    let mut options = options();
    options.revisions = wharf_wire::AllowedRevisions::One(revision.parse().unwrap());
    options
}

pub(crate) async fn connect(url: &str) -> Arc<dyn ClientTransport> {
    connect_http(url, Vec::new(), options()).await.unwrap()
}

pub(crate) async fn connect_pinned(url: &str, revision: &str) -> Arc<dyn ClientTransport> {
    connect_http(url, Vec::new(), pinned(revision)).await.unwrap()
}

/// Connects and returns the error.
pub(crate) async fn refused(url: &str, options: ClientTransportOptions) -> Error {
    match connect_http(url, Vec::new(), options).await {
        Ok(link) => panic!("connected: {:?}", link.about()),
        Err(error) => error,
    }
}

/// Options that record all trace events.
pub(crate) fn traced(
    mut options: ClientTransportOptions,
) -> (ClientTransportOptions, Arc<Mutex<Vec<String>>>) {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = log.clone();
    options.trace = Some(Arc::new(move |traced| {
        let line = match traced {
            TraceEvent::Sent(it) => format!("sent {}", String::from_utf8_lossy(it)),
            TraceEvent::Received(it) => format!("received {}", String::from_utf8_lossy(it)),
            other => format!("{other:?}"),
        };
        kept.lock().unwrap().push(line);
    }));
    (options, log)
}

/// A call in flight.
pub(crate) struct HttpCall {
    exchange: ActiveCall,
    pub(crate) received: Vec<Notification>,
    pub(crate) asked: usize,
}

pub(crate) fn begin(link: &Arc<dyn ClientTransport>, request: Request) -> HttpCall {
    begin_within(link, request, Deadlines::NONE)
}

/// Begins a call with these deadlines.
pub(crate) fn begin_within(
    link: &Arc<dyn ClientTransport>,
    request: Request,
    deadlines: Deadlines,
) -> HttpCall {
    let exchange = ActiveCall::start(&**link, request, Arc::new(TokioTimer), deadlines);
    HttpCall { exchange: exchange.for_caller(), received: Vec::new(), asked: 0 }
}

pub(crate) fn tool(name: &str, arguments: &str) -> Request {
    let mut request =
        RequestBuilder::new(Method::CallTool).target(name).arguments(arguments).build();
    request.progress = true;
    request
}

impl HttpCall {
    /// Runs the call to its end. Server-to-client requests are answered with one root.
    pub(crate) async fn done(&mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.step().await {
                return outcome;
            }
        }
    }

    /// Runs the call until this many notifications have arrived.
    pub(crate) async fn receive(&mut self, count: usize) {
        while self.received.len() < count {
            let ended = self.step().await;
            assert!(ended.is_none(), "{ended:?}");
        }
    }

    async fn step(&mut self) -> Option<Outcome> {
        match poll_fn(|cx| self.exchange.poll_event(cx)).await {
            Event::Done(outcome) => return Some(outcome),
            Event::Notify(notification) => self.received.push(notification),
            Event::ClientRequest(id, ClientRequest::Roots) => {
                self.asked += 1;
                let answer = r#"{"roots":[{"uri":"file:///here"}]}"#.to_owned();
                self.exchange.response_sender().deliver(id, Ok(answer));
            }
            other => panic!("{other:?}"),
        }
        None
    }

    /// Polls the call for this long.
    pub(crate) async fn run_for(&mut self, time: Duration) {
        let mut sleep = pin!(tokio::time::sleep(time));
        poll_fn(|cx| {
            while let Poll::Ready(event) = self.exchange.poll_event(cx) {
                match event {
                    Event::Notify(notification) => self.received.push(notification),
                    other => panic!("{other:?}"),
                }
            }
            sleep.as_mut().poll(cx)
        })
        .await;
    }

    /// Progress values received so far.
    pub(crate) fn progress(&self) -> Vec<f64> {
        let number = |it: &Notification| match it {
            Notification::Progress { progress, .. } => Some(*progress),
            _ => None,
        };
        self.received.iter().filter_map(number).collect()
    }
}

/// Text of a tool's result, or the error.
pub(crate) fn text(outcome: Outcome) -> Result<String, Error> {
    match outcome {
        Outcome::Complete(Reply::Tool(result)) => {
            let json = serde_json::to_value(&result).unwrap();
            Ok(json["content"][0]["text"].as_str().unwrap_or_default().to_owned())
        }
        Outcome::Failed(error) => Err(*error),
        other => panic!("{other:?}"),
    }
}

pub(crate) async fn call(link: &Arc<dyn ClientTransport>, name: &str) -> Result<String, Error> {
    text(begin(link, tool(name, "{}")).done().await)
}

pub(crate) async fn fails(link: &Arc<dyn ClientTransport>, name: &str) -> Error {
    call(link, name).await.unwrap_err()
}

pub(crate) fn listen(link: &Arc<dyn ClientTransport>, uris: &[&str]) -> HttpCall {
    let filter =
        SubscriptionFilter::default().tools(true).uris(uris.iter().map(|uri| (*uri).to_owned()));
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(LiveSubscriptionFilter::new(filter));
    begin(link, request)
}

/// Fails if the work takes longer than this, with a paused clock that advances only when idle.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.unwrap()
}

#[track_caller]
pub(crate) fn assert_error(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error:?}");
    for word in words {
        assert!(error.message.contains(word), "{word:?} in {error:?}");
    }
}
