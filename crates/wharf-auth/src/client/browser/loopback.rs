//! Loopback HTTP server that receives the redirect (RFC 8252).

use std::{
    convert::Infallible,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{Method, Request, Response, header::HOST};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::{
    net::{TcpListener, TcpStream},
    task::JoinSet,
    time::timeout,
};
use wharf_model::{Error, ErrorKind, Lock};

use super::page::ResultPage;
use crate::client::browser::authorization_response::{AuthorizationResponse, parse_response};

/// Path of the redirect URI. Other paths return 404.
const CALLBACK_PATH: &str = "/callback";

/// Limit of concurrent connections; others wait.
const MAX_CONNECTIONS: usize = 16;

/// Time limit of a connection.
const CONNECTION_TIMEOUT: Duration = Duration::from_secs(10);

/// Limit of a request's head.
const MAX_REQUEST_BYTES: usize = 16 << 10;

/// Loopback listener for the redirect.
#[derive(Debug)]
pub struct Loopback {
    listener: TcpListener,
    port: u16,
}

impl Loopback {
    /// Listens on `port` of 127.0.0.1; 0 selects a free port.
    ///
    /// # Errors
    /// If the port is in use.
    pub async fn bind(port: u16) -> Result<Self, Error> {
        let listener = TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
            .await
            .map_err(|why| {
                let what = match port {
                    0 => format!("cannot listen on 127.0.0.1: {why}"),
                    port => format!("cannot listen on port {port} of 127.0.0.1: {why}"),
                };
                Error::new(ErrorKind::TransportError).with_message(what)
            })?;
        let port = listener.local_addr().map_or(port, |address| address.port());
        Ok(Loopback { listener, port })
    }

    /// Redirect URI for the authorization request.
    #[must_use]
    pub fn redirect_uri(&self) -> String {
        format!("http://127.0.0.1:{}{CALLBACK_PATH}", self.port)
    }

    /// Waits for the redirect with this `state`, and shows a result page. Other requests are rejected. The
    /// listener closes after the redirect.
    pub async fn wait_for_response(self, state: &str) -> AuthorizationResponse {
        let handler = Arc::new(CallbackHandler {
            port: self.port,
            state: state.to_owned(),
            answered: Lock::new(false),
        });
        let mut connections = JoinSet::new();
        loop {
            tokio::select! {
                accepted = self.listener.accept(), if connections.len() < MAX_CONNECTIONS => {
                    match accepted {
                        Ok((stream, _)) => _ = connections.spawn(serve(handler.clone(), stream)),
                        // For example, no file descriptors: it may recover.
                        Err(_) => tokio::time::sleep(Duration::from_millis(100)).await,
                    }
                }
                Some(ended) = connections.join_next() => {
                    if let Ok(Some(answer)) = ended {
                        return answer;
                    }
                }
            }
        }
    }
}

/// State of one authorization.
struct CallbackHandler {
    port: u16,
    state: String,
    answered: Lock<bool>,
}

/// Serves one connection. The redirect counts once its page has been written.
async fn serve(handler: Arc<CallbackHandler>, stream: TcpStream) -> Option<AuthorizationResponse> {
    let found = Arc::new(Lock::new(None));
    let keep = found.clone();
    let service = service_fn(move |request: Request<Incoming>| {
        let (page, answer) = handler.respond(&request);
        if answer.is_some() {
            *keep.lock() = answer;
        }
        async move { Ok::<Response<Full<Bytes>>, Infallible>(page.response()) }
    });
    let mut server = http1::Builder::new();
    server
        .timer(TokioTimer::new())
        .header_read_timeout(CONNECTION_TIMEOUT)
        .max_buf_size(MAX_REQUEST_BYTES);
    let serving = server.keep_alive(false).serve_connection(TokioIo::new(stream), service);
    // A failed write does not matter: the redirect has been received.
    let _ = timeout(CONNECTION_TIMEOUT, serving).await;
    found.lock().take()
}

impl CallbackHandler {
    fn respond(&self, request: &Request<Incoming>) -> (ResultPage, Option<AuthorizationResponse>) {
        // Protection against DNS rebinding.
        let host = request.headers().get(HOST).and_then(|host| host.to_str().ok());
        let ours = [format!("127.0.0.1:{}", self.port), format!("localhost:{}", self.port)];
        if !host.is_some_and(|host| ours.iter().any(|it| it == host)) {
            return (ResultPage::NotFound, None);
        }
        if request.uri().path() != CALLBACK_PATH {
            return (ResultPage::NotFound, None);
        }
        if request.method() != Method::GET {
            return (ResultPage::MethodNotAllowed, None);
        }
        let Ok(answer) = parse_response(request.uri().query().unwrap_or_default(), &self.state)
        else {
            return (ResultPage::Unexpected, None);
        };
        let mut answered = self.answered.lock();
        if std::mem::replace(&mut *answered, true) {
            return (ResultPage::Unexpected, None);
        }
        (if answer.is_error { ResultPage::Refused } else { ResultPage::Done }, Some(answer))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::io::{AsyncReadExt, AsyncWriteExt};

    async fn sent(port: u16, request: &str) -> String {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut answer = String::new();
        let _ = stream.read_to_string(&mut answer).await;
        answer
    }

    async fn got(port: u16, target: &str) -> String {
        sent(port, &format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\r\n")).await
    }

    #[tokio::test]
    async fn only_the_redirect_with_the_state_counts() {
        let loopback = Loopback::bind(0).await.unwrap();
        let port = loopback.port;
        assert_eq!(loopback.redirect_uri(), format!("http://127.0.0.1:{port}/callback"));
        let waiting = tokio::spawn(async move { loopback.wait_for_response("mine").await });
        for (target, status) in [
            ("/favicon.ico", "404"),
            ("/callback/?code=a&state=mine", "404"),
            ("//callback?code=a&state=mine", "404"),
            ("/callback", "400"),
            ("/callback?code=a&state=%3Cscript%3Ealert(1)", "400"),
            ("/callback?code=a&code=b&state=mine", "400"),
        ] {
            let page = got(port, target).await;
            assert!(page.starts_with(&format!("HTTP/1.1 {status} ")), "{target}: {page}");
            assert!(!page.contains("script") && !waiting.is_finished(), "{page}");
        }
        let foreign = "GET /callback?code=a&state=mine HTTP/1.1\r\nHost: evil.example\r\n\r\n";
        assert!(sent(port, foreign).await.starts_with("HTTP/1.1 404 "));
        let post = format!(
            "POST /callback?code=a&state=mine HTTP/1.1\r\nHost: 127.0.0.1:{port}\r\n\
                            Content-Length: 0\r\n\r\n"
        );
        assert!(sent(port, &post).await.starts_with("HTTP/1.1 405 "));
        let long = format!("/callback?state=mine&code={}", "a".repeat(64 << 10));
        assert!(!got(port, &long).await.contains(" 200 "));
        sent(port, "junk\r\n\r\n").await;
        let page = got(port, "/callback?code=abc&state=mine&x=%3Cscript%3E").await;
        assert!(
            page.starts_with("HTTP/1.1 200 OK")
                && !page.contains("abc")
                && !page.contains("script"),
            "{page}"
        );
        for header in [
            "cache-control: no-store",
            "x-frame-options: DENY",
            "frame-ancestors 'none'",
            "referrer-policy: no-referrer",
            "default-src 'none'",
        ] {
            assert!(page.contains(header), "{header}: {page}");
        }
        let answer = waiting.await.unwrap();
        assert_eq!(answer.query, "code=abc&state=mine&x=%3Cscript%3E");
        assert!(TcpStream::connect(("127.0.0.1", port)).await.is_err());
    }

    #[tokio::test]
    async fn silent_connections_do_not_block_the_redirect() {
        let loopback = Loopback::bind(0).await.unwrap();
        let port = loopback.port;
        let waiting = tokio::spawn(async move { loopback.wait_for_response("mine").await });
        let mut silent = Vec::new();
        for _ in 0..MAX_CONNECTIONS - 1 {
            silent.push(TcpStream::connect(("127.0.0.1", port)).await.unwrap());
        }
        let page = got(port, "/callback?error=access_denied&state=mine").await;
        assert!(page.contains("Not authorized"), "{page}");
        assert!(waiting.await.unwrap().is_error);
    }

    #[tokio::test]
    async fn a_port_that_is_taken_is_named() {
        let taken = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = taken.local_addr().unwrap().port();
        let error = Loopback::bind(port).await.unwrap_err();
        assert!(error.message.contains(&format!("port {port}")), "{}", error.message);
    }
}
