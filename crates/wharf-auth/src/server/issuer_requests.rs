//! HTTP client for requests to issuers.

use bytes::Bytes;
use http::{Method, Request, Response};
use wharf_model::{BoxFuture, Error};

use crate::fetch::{Fetch, FetchError, FetchResponse};

/// Sends requests to an issuer: [`Fetch`], or the application's own HTTP client.
pub trait Download: Send + Sync + 'static {
    /// Sends a request. Every status is a response.
    fn send(&self, request: Request<Bytes>) -> BoxFuture<Result<Response<Bytes>, Error>>;
}

impl Download for Fetch {
    fn send(&self, request: Request<Bytes>) -> BoxFuture<Result<Response<Bytes>, Error>> {
        let fetch = self.clone();
        Box::pin(async move {
            let (parts, body) = request.into_parts();
            let url = parts.uri.to_string();
            let fetched = match parts.method {
                Method::POST => fetch.post(&url, parts.headers, body).await,
                _ => fetch.get(&url, parts.headers).await,
            };
            let fetched: FetchResponse = fetched.map_err(|error: FetchError| Error::from(error))?;
            let mut response = Response::new(fetched.body);
            (*response.status_mut(), *response.headers_mut()) = (fetched.status, fetched.headers);
            Ok(response)
        })
    }
}
