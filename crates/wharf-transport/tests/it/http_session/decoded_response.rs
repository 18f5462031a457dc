//! A response, decoded as JSON or as events.

use std::{
    collections::{HashMap, VecDeque},
    future::poll_fn,
    pin::Pin,
    sync::{Arc, Mutex},
    time::Duration,
};

use http::Response;
use http_body::Body;
use serde_json::Value;
use tokio::time::timeout;
use wharf_transport::server::http::HttpBody;

use super::support::{EVENTS, JSON};

/// A response whose body may still be in transit.
#[derive(Debug)]
pub(crate) struct TestResponse {
    pub(crate) status: u16,
    pub(crate) kind: String,
    pub(crate) session: Option<String>,
    pub(crate) retry_after: Option<String>,
    body: HttpBody,
    text: Vec<u8>,
    events: VecDeque<SseEvent>,
    names: StreamNames,
    of: String,
}

/// Stream names for tests. Streams of shared sessions have unpredictable ids, so tests number them
/// in the order of appearance.
#[derive(Clone, Debug, Default)]
pub(crate) struct StreamNames(Arc<Mutex<HashMap<String, Vec<String>>>>);

impl StreamNames {
    fn normalized(&self, session: &str, id: &str) -> String {
        let Some((stream, event)) = id.split_once('-').filter(|it| it.0 != "0") else {
            return id.to_owned();
        };
        if super::NODES == 1 {
            return id.to_owned();
        }
        let mut names = self.0.lock().unwrap();
        let streams = names.entry(session.to_owned()).or_default();
        let index = streams.iter().position(|it| it == stream).unwrap_or_else(|| {
            streams.push(stream.to_owned());
            streams.len() - 1
        });
        format!("{}-{event}", index + 1)
    }

    pub(crate) fn real(&self, session: &str, id: &str) -> String {
        let names = self.0.lock().unwrap();
        let streams = names.get(session);
        let real = id.split_once('-').and_then(|(stream, event)| {
            let index: usize = stream.parse().ok().filter(|it: &usize| it.to_string() == stream)?;
            let stream = streams?.get(index.checked_sub(1)?)?;
            Some(format!("{stream}-{event}"))
        });
        real.unwrap_or_else(|| id.to_owned())
    }
}

#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct SseEvent {
    pub(crate) id: String,
    pub(crate) data: Value,
    pub(crate) retry: Option<u64>,
}

impl TestResponse {
    pub(crate) fn new(reply: Response<HttpBody>, names: StreamNames, of: String) -> TestResponse {
        let header = |name| reply.headers().get(name).map(|it| it.to_str().unwrap().to_owned());
        TestResponse {
            status: reply.status().as_u16(),
            kind: header("content-type").unwrap_or_default(),
            session: header("mcp-session-id"),
            retry_after: header("retry-after"),
            body: reply.into_body(),
            text: Vec::new(),
            events: VecDeque::new(),
            names,
            of,
        }
    }

    /// Reads the next chunk of the body. False at its end.
    async fn read(&mut self) -> bool {
        let frame = poll_fn(|cx| Pin::new(&mut self.body).poll_frame(cx)).await;
        let Some(frame) = frame else { return false };
        self.text.extend_from_slice(&frame.unwrap().into_data().unwrap());
        true
    }

    /// The whole body.
    pub(crate) async fn whole(mut self) -> Vec<u8> {
        while self.read().await {}
        self.text
    }

    /// The body as JSON.
    pub(crate) async fn json(self) -> Value {
        assert_eq!(self.kind, JSON, "{self:?}");
        serde_json::from_slice(&self.whole().await).unwrap()
    }

    /// Next event; `None` at the end of the stream.
    pub(crate) async fn next(&mut self) -> Option<SseEvent> {
        assert_eq!((self.status, &*self.kind), (200, EVENTS), "{self:?}");
        loop {
            if let Some(event) = self.events.pop_front() {
                return Some(event);
            }
            if !self.read().await {
                assert_eq!(self.text, b"", "half an event");
                return None;
            }
            self.parse();
        }
    }

    fn parse(&mut self) {
        let text = std::str::from_utf8(&self.text).unwrap();
        let whole = text.rfind("\n\n").map_or(0, |end| end + 2);
        for block in text[..whole].split_terminator("\n\n") {
            let mut event = SseEvent::default();
            for line in block.lines() {
                match line.split_once(": ") {
                    Some(("id", id)) => event.id = self.names.normalized(&self.of, id),
                    Some(("retry", retry)) => event.retry = Some(retry.parse().unwrap()),
                    Some(("data", "")) => {}
                    Some(("data", data)) => event.data = serde_json::from_str(data).unwrap(),
                    _ => assert_eq!(line, ":"),
                }
            }
            self.events.push_back(event);
        }
        let rest = &text[whole..];
        self.text = if rest == ":\n" { Vec::new() } else { rest.as_bytes().to_vec() };
    }

    /// Next event that carries a message.
    pub(crate) async fn message(&mut self) -> Option<SseEvent> {
        loop {
            let event = self.next().await?;
            if !event.data.is_null() {
                return Some(event);
            }
        }
    }

    /// Messages up to the end of the stream.
    pub(crate) async fn messages(mut self) -> Vec<SseEvent> {
        let mut messages = Vec::new();
        while let Some(event) = self.message().await {
            messages.push(event);
        }
        messages
    }

    /// Ids of the next `count` messages.
    pub(crate) async fn ids(&mut self, count: usize) -> Vec<String> {
        let mut ids = Vec::new();
        for _ in 0..count {
            ids.push(self.message().await.unwrap().id);
        }
        ids
    }

    /// True if nothing arrives within a long time.
    pub(crate) async fn is_silent(&mut self) -> bool {
        timeout(Duration::from_secs(3600), self.message()).await.is_err()
    }
}
