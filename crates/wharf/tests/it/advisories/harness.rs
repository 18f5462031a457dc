//! Test harness: the attacked server on a real socket.

use std::{net::SocketAddr, time::Duration};

use hyper::{server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};
use tower_service::Service;
use wharf::{
    Endpoint, Principal, Server,
    http::{Http, HttpLimits, HttpService},
    server::Limits,
};

use crate::advisories::attacked_server::{HandlerCounts, server};

/// Timeout after which a test fails. No test measures a duration.
pub const PATIENCE: Duration = Duration::from_secs(60);

/// Running server and its counters.
pub struct Harness {
    pub endpoint: Endpoint,
    pub counts: HandlerCounts,
    pub address: SocketAddr,
    serving: JoinHandle<()>,
}

impl Harness {
    /// Starts a server with the default configuration.
    pub async fn start() -> Harness {
        Harness::with(Http::new()).await
    }

    pub async fn with(http: Http) -> Harness {
        Harness::tuned(|server| server.http(http)).await
    }

    pub async fn limited(limits: HttpLimits) -> Harness {
        Harness::tuned(|server| server.limits(Limits::default().http(limits))).await
    }

    pub async fn tuned(tune: impl FnOnce(Server) -> Server) -> Harness {
        Harness::serve("127.0.0.1:0", tune, |endpoint, listener| async move {
            endpoint.serve_http_on(listener).await;
        })
        .await
    }

    /// Listens on the IPv6 loopback address; `None` if the machine has none.
    pub async fn on_ipv6() -> Option<Harness> {
        TcpListener::bind("[::1]:0").await.ok()?;
        let serve = |endpoint: Endpoint, listener| async move {
            endpoint.serve_http_on(listener).await;
        };
        Some(Harness::serve("[::1]:0", |server| server, serve).await)
    }

    /// Serves behind a layer that sets the principal from the bearer token, as an application would.
    pub async fn behind_bearer(tune: impl FnOnce(Server) -> Server) -> Harness {
        Harness::serve("127.0.0.1:0", tune, |endpoint, listener| async move {
            loop {
                let (stream, _) = listener.accept().await.expect("a listener");
                tokio::spawn(serve_with_principal(stream, endpoint.http()));
            }
        })
        .await
    }

    async fn serve<F>(
        address: &str,
        tune: impl FnOnce(Server) -> Server,
        serve: impl FnOnce(Endpoint, TcpListener) -> F,
    ) -> Harness
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let counts = HandlerCounts::default();
        let endpoint = tune(server(&counts)).build().expect("the server builds");
        let listener = Endpoint::listen_http(address).await.expect("a port");
        let address = listener.local_addr().expect("an address");
        let serving = tokio::spawn(serve(endpoint.clone(), listener));
        Harness { endpoint, counts, address, serving }
    }

    pub fn url(&self) -> String {
        format!("http://{}/mcp", self.address)
    }

    pub async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.address).await.expect("a connection")
    }

    /// Shuts down and waits until the server has stopped.
    pub async fn stop(self) {
        self.endpoint.shutdown();
        timeout(PATIENCE, self.serving).await.expect("patience").expect("no panic");
    }
}

/// Serves one connection and adds the principal to each request.
async fn serve_with_principal(stream: TcpStream, service: HttpService) {
    let answer = service_fn(move |mut request: http::Request<hyper::body::Incoming>| {
        let token = request.headers().get(http::header::AUTHORIZATION);
        let name = token.and_then(|token| token.to_str().ok()?.strip_prefix("Bearer "));
        if let Some(caller) = name.map(Principal::new) {
            request.extensions_mut().insert(caller);
        }
        service.clone().call(request)
    });
    let connection = http1::Builder::new().serve_connection(TokioIo::new(stream), answer);
    let _ = connection.with_upgrades().await;
}
