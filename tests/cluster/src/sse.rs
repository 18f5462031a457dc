//! Server-sent events of a stream.

use std::{io, time::Duration};

use http_body_util::BodyExt;
use hyper::body::{Bytes, Incoming};
use serde_json::Value;
use tokio::time::timeout;

/// Longer than the keep-alive interval of a server, 15 seconds.
pub const SILENCE_TIMEOUT: Duration = Duration::from_secs(40);

/// One event. One without a message only carries the id to resume from.
#[derive(Clone, Debug, PartialEq)]
pub struct SseEvent {
    pub id: Option<String>,
    pub message: Option<Value>,
}

/// The events of a body.
#[derive(Debug)]
pub struct SseEvents {
    body: Incoming,
    text: Vec<u8>,
}

impl SseEvents {
    #[must_use]
    pub fn new(body: Incoming) -> Self {
        SseEvents { body, text: vec![] }
    }

    /// Returns the next event; `None` at the end.
    ///
    /// # Errors
    /// If the connection breaks, is silent for too long, or sends something that is not an event.
    pub async fn next(&mut self) -> io::Result<Option<SseEvent>> {
        loop {
            if let Some(end) = self.text.windows(2).position(|it| it == b"\n\n") {
                let event: Vec<u8> = self.text.drain(..end + 2).collect();
                return parse(&String::from_utf8_lossy(&event)).map(Some);
            }
            let Some(frame) = timeout(SILENCE_TIMEOUT, self.body.frame()).await? else {
                return Ok(None);
            };
            let frame = frame.map_err(io::Error::other)?;
            self.text.extend_from_slice(frame.data_ref().unwrap_or(&Bytes::new()));
        }
    }
}

fn parse(event: &str) -> io::Result<SseEvent> {
    let field = |name: &str| {
        let fields = event.lines().filter_map(|line| line.strip_prefix(name));
        let values: Vec<_> = fields.map(|it| it.strip_prefix(' ').unwrap_or(it)).collect();
        (!values.is_empty()).then(|| values.join("\n"))
    };
    let data = field("data:").filter(|data| !data.is_empty());
    let message = data.map(|data| serde_json::from_str(&data).map_err(io::Error::other));
    Ok(SseEvent { id: field("id:"), message: message.transpose()? })
}
