//! Connections for the HTTP client of `hyper-util`.

use std::task::{Context, Poll};

use http::Uri;
use hyper_util::rt::TokioIo;
use wharf_connect::{ConnectionError, HostConnector, HostStream, Origin};
use wharf_model::BoxFuture;

/// Connects to the origin of a URL.
#[derive(Clone)]
pub(super) struct HttpConnector(HostConnector);

impl HttpConnector {
    pub(super) fn new(connector: &HostConnector) -> HttpConnector {
        let connector = connector.clone().forwards(true);
        #[cfg(feature = "tls")]
        let connector = connector.protocols(&[b"h2", b"http/1.1"]);
        HttpConnector(connector)
    }

    /// Returns the value of `Proxy-Authorization`, if a proxy forwards the requests to `origin`.
    pub(super) fn forward_authorization(&self, origin: &Origin) -> Option<&str> {
        self.0.forward_authorization(origin)
    }
}

impl tower_service::Service<Uri> for HttpConnector {
    type Response = TokioIo<HostStream>;
    type Error = ConnectionError;
    type Future = BoxFuture<Result<TokioIo<HostStream>, ConnectionError>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), ConnectionError>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, uri: Uri) -> Self::Future {
        let connector = self.0.clone();
        Box::pin(async move {
            let origin = Origin::parse(&uri.to_string())?;
            connector.connect(&origin).await.map(TokioIo::new)
        })
    }
}
