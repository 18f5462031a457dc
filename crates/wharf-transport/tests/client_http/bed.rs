//! A caller.

use std::{
    future::poll_fn,
    pin::pin,
    sync::{Arc, Mutex},
    task::Poll,
    time::Duration,
};

use wharf_client::Link;
use wharf_model::{
    Ask, ClientCapabilities, Deadlines, Error, ErrorKind, Event, Exchange, Filter, Implementation,
    LiveFilter, Method, Notification, Outcome, Reply, Request, RequestBuilder,
};
use wharf_transport::{
    TokioTimer,
    client::{LinkOptions, Traced, connect_http},
};
use wharf_wire::ClientSelf;

pub(crate) const LEGACY: [&str; 3] = ["2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";

pub(crate) fn options() -> LinkOptions {
    let mut capabilities = ClientCapabilities::default();
    capabilities.roots = Some(Default::default());
    LinkOptions::new(ClientSelf { info: Implementation::new("test", "1"), capabilities })
}

pub(crate) fn pinned(revision: &str) -> LinkOptions {
    let mut options = options();
    options.pin = Some(revision.parse().unwrap());
    options
}

pub(crate) async fn connect(url: &str) -> Arc<dyn Link> {
    connect_http(url, Vec::new(), options()).await.unwrap()
}

pub(crate) async fn connect_pinned(url: &str, revision: &str) -> Arc<dyn Link> {
    connect_http(url, Vec::new(), pinned(revision)).await.unwrap()
}

/// Why no link came of it.
pub(crate) async fn refused(url: &str, options: LinkOptions) -> Error {
    match connect_http(url, Vec::new(), options).await {
        Ok(link) => panic!("connected: {:?}", link.about()),
        Err(error) => error,
    }
}

/// Options that keep all that is traced.
pub(crate) fn traced(mut options: LinkOptions) -> (LinkOptions, Arc<Mutex<Vec<String>>>) {
    let log: Arc<Mutex<Vec<String>>> = Arc::default();
    let kept = log.clone();
    options.trace = Some(Arc::new(move |traced| {
        let line = match traced {
            Traced::Sent(it) => format!("sent {}", String::from_utf8_lossy(it)),
            Traced::Received(it) => format!("received {}", String::from_utf8_lossy(it)),
            other => format!("{other:?}"),
        };
        kept.lock().unwrap().push(line);
    }));
    (options, log)
}

/// A call under way.
pub(crate) struct Calling {
    exchange: Exchange,
    pub(crate) heard: Vec<Notification>,
    pub(crate) asked: usize,
}

pub(crate) fn begin(link: &Arc<dyn Link>, request: Request) -> Calling {
    let deadlines = Deadlines { idle: None, total: None };
    let exchange = Exchange::start(&**link, request, Arc::new(TokioTimer), deadlines);
    Calling { exchange: exchange.for_caller(), heard: Vec::new(), asked: 0 }
}

pub(crate) fn tool(name: &str, arguments: &str) -> Request {
    let mut request =
        RequestBuilder::new(Method::CallTool).target(name).arguments(arguments).build();
    request.progress = true;
    request
}

impl Calling {
    /// Goes on until the call is over. Questions are answered with one root.
    pub(crate) async fn done(&mut self) -> Outcome {
        loop {
            if let Some(outcome) = self.step().await {
                return outcome;
            }
        }
    }

    /// Goes on until as many notifications have come.
    pub(crate) async fn hear(&mut self, count: usize) {
        while self.heard.len() < count {
            let ended = self.step().await;
            assert!(ended.is_none(), "{ended:?}");
        }
    }

    async fn step(&mut self) -> Option<Outcome> {
        match poll_fn(|cx| self.exchange.poll_event(cx)).await {
            Event::Done(outcome) => return Some(outcome),
            Event::Notify(notification) => self.heard.push(notification),
            Event::Ask(id, Ask::Roots) => {
                self.asked += 1;
                let answer = r#"{"roots":[{"uri":"file:///here"}]}"#.to_owned();
                self.exchange.answers().deliver(id, Ok(answer));
            }
            other => panic!("{other:?}"),
        }
        None
    }

    /// Lets the call go on for as long as it has something to do at once.
    pub(crate) async fn run_for(&mut self, time: Duration) {
        let mut sleep = pin!(tokio::time::sleep(time));
        poll_fn(|cx| {
            while let Poll::Ready(event) = self.exchange.poll_event(cx) {
                match event {
                    Event::Notify(notification) => self.heard.push(notification),
                    other => panic!("{other:?}"),
                }
            }
            sleep.as_mut().poll(cx)
        })
        .await;
    }

    /// The progress that was heard.
    pub(crate) fn progress(&self) -> Vec<f64> {
        let number = |it: &Notification| match it {
            Notification::Progress { progress, .. } => Some(*progress),
            _ => None,
        };
        self.heard.iter().filter_map(number).collect()
    }
}

/// The text of a tool's result, or the error.
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

pub(crate) async fn call(link: &Arc<dyn Link>, name: &str) -> Result<String, Error> {
    text(begin(link, tool(name, "{}")).done().await)
}

pub(crate) async fn fails(link: &Arc<dyn Link>, name: &str) -> Error {
    call(link, name).await.unwrap_err()
}

pub(crate) fn listen(link: &Arc<dyn Link>, uris: &[&str]) -> Calling {
    let filter = Filter {
        tools: true,
        uris: uris.iter().map(|uri| (*uri).to_owned()).collect(),
        ..Filter::default()
    };
    let mut request = RequestBuilder::new(Method::Listen).build();
    request.filter = Some(LiveFilter::new(filter));
    begin(link, request)
}

/// Whatever it is, it takes no longer than this, by a clock that stands still while there is work.
pub(crate) async fn soon<T>(work: impl Future<Output = T>) -> T {
    tokio::time::timeout(Duration::from_secs(120), work).await.unwrap()
}

#[track_caller]
pub(crate) fn says(error: &Error, kind: ErrorKind, words: &[&str]) {
    assert_eq!(error.kind, kind, "{error:?}");
    for word in words {
        assert!(error.message.contains(word), "{word:?} in {error:?}");
    }
}
