//! Public documents beside the endpoint, such as a server card: `GET` and `HEAD` with `ETag`, caching and CORS headers for
//! every origin.

use bytes::Bytes;
use http::{HeaderMap, HeaderName, HeaderValue, Method, header, request::Parts};
use sha2::{Digest, Sha256};

use crate::server::http::{HttpBody, response, response::HttpResponse};

/// Methods of a document, for `Allow` and for preflight requests.
const METHODS: &str = "GET, HEAD, OPTIONS";

/// CORS headers: every web page may read the document.
const CORS: [(HeaderName, HeaderValue); 4] = [
    (header::ACCESS_CONTROL_ALLOW_ORIGIN, HeaderValue::from_static("*")),
    (header::ACCESS_CONTROL_ALLOW_METHODS, HeaderValue::from_static("GET")),
    (header::ACCESS_CONTROL_ALLOW_HEADERS, HeaderValue::from_static("Content-Type, If-None-Match")),
    (header::ACCESS_CONTROL_EXPOSE_HEADERS, HeaderValue::from_static("ETag")),
];

/// Document that an endpoint serves beside itself, whoever asks: a server card, a catalog.
///
/// Every web page may read it (CORS), clients may cache it for an hour, and `If-None-Match` saves its transfer. The
/// `Host` of requests is checked as for the endpoint; `Accept` is ignored.
///
/// ```
/// # mod wharf { pub use wharf_transport::server::http::*; pub mod http { pub use super::*; } }
/// use wharf::http::{Http, PublicDocument};
///
/// let document = PublicDocument::new("/.well-known/motto", "text/plain", "Ships in harbour are safe.");
/// let http = Http::new().document(document.expect("a content type"));
/// assert!(http.pages().contains(&"/.well-known/motto"));
/// ```
#[derive(Clone, Debug)]
pub struct PublicDocument {
    path: String,
    content_type: HeaderValue,
    body: Bytes,
    etag: HeaderValue,
    is_beside_endpoint: bool,
    needs_authentication: bool,
}

impl PublicDocument {
    /// Creates a document at a path of the origin, which begins with a slash. None if the content type is not a valid
    /// header value.
    pub fn new(
        path: impl Into<String>,
        content_type: &str,
        body: impl Into<Bytes>,
    ) -> Option<PublicDocument> {
        let (path, body) = (path.into(), body.into());
        let digest = Sha256::digest(&body);
        let tag: String = digest.iter().take(16).map(|byte| format!("{byte:02x}")).collect();
        Some(PublicDocument {
            path: if path.starts_with('/') { path } else { format!("/{path}") },
            content_type: content_type.parse().ok()?,
            etag: format!("\"{tag}\"").parse().ok()?,
            body,
            is_beside_endpoint: false,
            needs_authentication: false,
        })
    }

    /// Moves the document below the path of the endpoint: `/server-card` becomes `/mcp/server-card`. It is then mounted
    /// with the endpoint, and not at the root of the origin.
    #[must_use]
    pub fn beside_endpoint(mut self) -> Self {
        self.is_beside_endpoint = true;
        self
    }

    /// Serves the document only to requests that the authenticator accepts. Without an authenticator it is not found.
    #[must_use]
    pub fn authenticated(mut self, on: bool) -> Self {
        self.needs_authentication = on;
        self
    }

    /// Completes the path, once that of the endpoint is known.
    pub(crate) fn place(mut self, endpoint: &str) -> Self {
        if self.is_beside_endpoint {
            self.path = format!("{}{}", endpoint.trim_end_matches('/'), self.path);
        }
        self
    }

    /// Returns the path.
    pub(crate) fn path(&self) -> &str {
        &self.path
    }

    /// Returns true if the document is mounted at the root of the origin, wherever the endpoint is.
    pub(crate) fn is_at_root(&self) -> bool {
        !self.is_beside_endpoint
    }

    /// Returns true if only authenticated requests may read the document.
    pub(crate) fn needs_authentication(&self) -> bool {
        self.needs_authentication
    }

    /// Answers a request for the document.
    pub(crate) fn respond(&self, parts: &Parts) -> HttpResponse {
        let mut reply = match parts.method {
            Method::GET | Method::HEAD if self.is_current(&parts.headers) => response::status(304),
            Method::GET => self.whole(HttpBody::whole(self.body.clone())),
            Method::HEAD => self.whole(HttpBody::empty()),
            Method::OPTIONS => response::status(204),
            _ => response::not_allowed(METHODS),
        };
        let headers = reply.headers_mut();
        headers.extend(CORS);
        if matches!(parts.method, Method::GET | Method::HEAD) {
            headers.insert(header::ETAG, self.etag.clone());
            let caching = if self.needs_authentication { "private" } else { "public" };
            let caching = format!("{caching}, max-age=3600");
            headers.extend(caching.parse().ok().map(|it| (header::CACHE_CONTROL, it)));
        }
        reply
    }

    /// Response with the headers of the document.
    fn whole(&self, body: HttpBody) -> HttpResponse {
        let mut reply = response::status(200);
        *reply.body_mut() = body;
        let headers = reply.headers_mut();
        headers.insert(header::CONTENT_TYPE, self.content_type.clone());
        headers.insert(header::CONTENT_LENGTH, self.body.len().into());
        reply
    }

    /// Returns true if `If-None-Match` names this version: the client has it (RFC 9110, weak comparison).
    fn is_current(&self, headers: &HeaderMap) -> bool {
        let fields = headers.get_all(header::IF_NONE_MATCH);
        let tags = fields.iter().filter_map(|field| field.to_str().ok());
        let mut tags = tags.flat_map(|field| field.split(',')).map(str::trim);
        tags.any(|tag| {
            tag == "*" || tag.trim_start_matches("W/").as_bytes() == self.etag.as_bytes()
        })
    }
}
