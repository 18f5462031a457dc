//! One request over one connection, and what came back.

use std::fmt;

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, Request, StatusCode, header::LOCATION};
use http_body_util::{BodyExt, Full};
use hyper::{
    body::{Body, Incoming},
    client::conn::http1,
};
use hyper_util::rt::TokioIo;
use serde::de::DeserializeOwned;
use tokio::task::JoinHandle;

use crate::fetch::{FetchError, connect::Stream, target_url::Place};

/// The longest head of an answer, and how many headers it may have.
const HEAD: usize = 64 << 10;
const HEADERS: usize = 100;

/// An answer, whatever its status.
#[derive(Clone)]
#[non_exhaustive]
pub struct Fetched {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body as it is.
    pub body: Bytes,
    from: String,
}

/// Shows no body and no header: both may hold tokens.
impl fmt::Debug for Fetched {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Fetched")
            .field("from", &self.from)
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl Fetched {
    /// The body, read as JSON.
    ///
    /// # Errors
    /// If it is not what `T` needs. The body itself is not repeated: it may hold secrets.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let (from, status) = (&self.from, self.status);
            let kind = match error.classify() {
                serde_json::error::Category::Data => "JSON of another shape",
                _ => "no JSON",
            };
            let (line, column) = (error.line(), error.column());
            FetchError::Garbled(format!(
                "{from} answered with {status} and {kind} (line {line}, column {column})"
            ))
        })
    }

    /// Whom it came from, without query, for messages.
    pub fn from(&self) -> &str {
        &self.from
    }

    /// Where the server wants to send us, which we do not follow.
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION)?.to_str().ok()
    }
}

pub(super) async fn exchange(
    place: &Place,
    stream: Stream,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<Fetched, FetchError> {
    let garbled = |error: hyper::Error| {
        FetchError::Garbled(format!("{place} does not answer as HTTP says ({error})"))
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(HEAD).max_headers(HEADERS);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(garbled)?;
    let _driver = Driver(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let response = sender.send_request(request).await.map_err(garbled)?;
    let (parts, body) = response.into_parts();
    let body = whole(place, body, limit).await?;
    Ok(Fetched { status: parts.status, headers: parts.headers, body, from: place.to_string() })
}

async fn whole(place: &Place, mut body: Incoming, limit: usize) -> Result<Bytes, FetchError> {
    let too_large =
        || FetchError::TooLarge(format!("{place} answered with more than {limit} bytes"));
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut whole = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            FetchError::Garbled(format!("{place} broke off while it answered ({error})"))
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if whole.len() + data.len() > limit {
            return Err(too_large());
        }
        whole.extend_from_slice(&data);
    }
    Ok(whole.freeze())
}

/// Moves the bytes, for as long as somebody wants them.
struct Driver(JoinHandle<()>);

impl Drop for Driver {
    fn drop(&mut self) {
        self.0.abort();
    }
}
