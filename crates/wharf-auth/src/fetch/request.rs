//! Sends one request over one connection and reads the response.

use std::{fmt, sync::Arc};

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
use wharf_connect::HostStream;

use crate::fetch::{FetchError, target_url::TargetUrl};

/// Limits of a response's head: bytes and number of headers.
const MAX_HEAD_BYTES: usize = 64 << 10;
const MAX_HEADERS: usize = 100;

/// A response of any status.
#[derive(Clone)]
#[non_exhaustive]
pub struct FetchResponse {
    /// The status.
    pub status: StatusCode,
    /// The headers.
    pub headers: HeaderMap,
    /// The body.
    pub body: Bytes,
    url: String,
}

/// Omits body and headers: both may contain tokens.
impl fmt::Debug for FetchResponse {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FetchResponse")
            .field("url", &self.url)
            .field("status", &self.status)
            .field("bytes", &self.body.len())
            .finish_non_exhaustive()
    }
}

impl FetchResponse {
    /// Deserializes the body as JSON.
    ///
    /// # Errors
    /// If the body is not a valid `T`. The error does not quote the body, which may contain secrets.
    pub fn json<T: DeserializeOwned>(&self) -> Result<T, FetchError> {
        serde_json::from_slice(&self.body).map_err(|error| {
            let (url, status) = (&self.url, self.status);
            let kind = match error.classify() {
                serde_json::error::Category::Data => "unexpected JSON",
                _ => "invalid JSON",
            };
            let (line, column) = (error.line(), error.column());
            FetchError::InvalidResponse {
                message: format!(
                    "{url} returned {status} and {kind} (line {line}, column {column})"
                ),
                source: None,
            }
        })
    }

    /// URL of the response without its query, for messages.
    pub fn url(&self) -> &str {
        &self.url
    }

    /// `Location` of a redirect, which is not followed.
    pub fn location(&self) -> Option<&str> {
        self.headers.get(LOCATION)?.to_str().ok()
    }
}

pub(super) async fn exchange(
    target: &TargetUrl,
    stream: HostStream,
    request: Request<Full<Bytes>>,
    limit: usize,
) -> Result<FetchResponse, FetchError> {
    let invalid = |error: hyper::Error| {
        invalid_response(format!("{target} sent an invalid HTTP response: {error}"), error)
    };
    let mut builder = http1::Builder::new();
    builder.max_buf_size(MAX_HEAD_BYTES).max_headers(MAX_HEADERS);
    let (mut sender, connection) =
        builder.handshake(TokioIo::new(stream)).await.map_err(invalid)?;
    let _driver = ConnectionTask(tokio::spawn(async move {
        let _ = connection.await;
    }));
    let response = sender.send_request(request).await.map_err(invalid)?;
    let (parts, body) = response.into_parts();
    let body = read_body(target, body, limit).await?;
    Ok(FetchResponse {
        status: parts.status,
        headers: parts.headers,
        body,
        url: target.to_string(),
    })
}

async fn read_body(
    target: &TargetUrl,
    mut body: Incoming,
    limit: usize,
) -> Result<Bytes, FetchError> {
    let too_large = || FetchError::TooLarge {
        message: format!("the response of {target} exceeds {limit} bytes"),
    };
    if body.size_hint().lower() > limit as u64 {
        return Err(too_large());
    }
    let mut read_body = BytesMut::new();
    while let Some(frame) = body.frame().await {
        let frame = frame.map_err(|error| {
            invalid_response(format!("the response of {target} was interrupted: {error}"), error)
        })?;
        let Ok(data) = frame.into_data() else { continue };
        if read_body.len() + data.len() > limit {
            return Err(too_large());
        }
        read_body.extend_from_slice(&data);
    }
    Ok(read_body.freeze())
}

fn invalid_response(message: String, error: hyper::Error) -> FetchError {
    FetchError::InvalidResponse { message, source: Some(Arc::new(error)) }
}

/// Task that drives the connection; aborted on drop.
struct ConnectionTask(JoinHandle<()>);

impl Drop for ConnectionTask {
    fn drop(&mut self) {
        self.0.abort();
    }
}
