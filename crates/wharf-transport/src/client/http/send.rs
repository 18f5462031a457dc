//! Sends one HTTP request, with authorization and redirects within the origin.

use std::{convert::Infallible, error::Error as _, io, pin::Pin, sync::Arc, task, time::Duration};

use bytes::Bytes;
use http::{
    HeaderMap, HeaderName, HeaderValue, Method as Verb, Request, StatusCode,
    header::{ACCEPT, CONTENT_TYPE, LOCATION, PROXY_AUTHORIZATION, USER_AGENT},
};
use http_body::{Body, Frame, SizeHint};
use hyper_util::{
    client::legacy::{self, Client},
    rt::{TokioExecutor, TokioTimer},
};
use tokio::sync::watch;
use wharf_connect::ConnectionError;
use wharf_model::{Error, ErrorKind, FailureOrigin, excerpt};

use crate::client::http::{
    auth,
    auth::{AuthAttempt, AuthWait},
    connector::HttpConnector,
    response::ServerResponse,
    server_url::ServerUrl,
};
use crate::client::{ClientTransportOptions, not_connected};

/// Maximum number of redirects of one message, those after each authorization together. With
/// [`auth::MAX_AUTH_RETRIES`] it bounds the requests for one message: table in `wharf-client/src/call/mod.rs`.
pub(super) const MAX_REDIRECTS: usize = 5;
/// Maximum length of response headers.
const MAX_HEADER_BYTES: usize = 256 << 10;
/// Time that an idle connection is kept for reuse. Many servers close it after five seconds, and a
/// request sent at that moment is lost.
const POOL_IDLE_TIMEOUT: Duration = Duration::from_secs(4);
/// Interval of keep-alive pings on an idle HTTP/2 connection.
const HTTP2_PING_INTERVAL: Duration = Duration::from_secs(30);
/// Headers that the protocol sets and users must not.
const RESERVED_HEADERS: [&str; 7] = [
    "accept",
    "connection",
    "content-length",
    "content-type",
    "last-event-id",
    "transfer-encoding",
    "upgrade",
];

/// Sends requests to one server.
pub(super) struct HttpSender {
    client: Client<HttpConnector, FullBody>,
    pub(super) options: ClientTransportOptions,
    pub(super) url: ServerUrl,
    /// Headers that the user added.
    user_headers: HeaderMap,
    /// Set while a handshake waits for a login.
    logging_in: watch::Sender<bool>,
}

/// Guard: a handshake waits for a login.
pub(super) struct LoginGuard<'a>(&'a watch::Sender<bool>);

impl Drop for LoginGuard<'_> {
    fn drop(&mut self) {
        self.0.send_replace(false);
    }
}

impl HttpSender {
    pub(super) fn new(
        url: ServerUrl,
        headers: &[(String, String)],
        options: ClientTransportOptions,
    ) -> Result<HttpSender, Error> {
        let mut user_headers = parse_user_headers(headers, &options)?;
        let connector = HttpConnector::new(&options.connector);
        // All requests go to this origin, so the proxy gets each of them.
        if let Some(value) = connector.forward_authorization(url.origin()) {
            let mut value = HeaderValue::from_str(value).map_err(|error| {
                Error::new(ErrorKind::InvalidParams)
                    .with_message("the credentials of the proxy do not fit in a header")
                    .from_client_because(FailureOrigin::Target, Arc::new(error))
            })?;
            value.set_sensitive(true);
            user_headers.insert(PROXY_AUTHORIZATION, value);
        }
        let client = Client::builder(TokioExecutor::new())
            .timer(TokioTimer::new())
            .pool_timer(TokioTimer::new())
            .pool_idle_timeout(POOL_IDLE_TIMEOUT)
            .http1_max_buf_size(MAX_HEADER_BYTES)
            .http2_max_header_list_size(MAX_HEADER_BYTES as u32)
            .http2_keep_alive_interval(HTTP2_PING_INTERVAL)
            .build(connector);
        Ok(HttpSender { client, options, url, user_headers, logging_in: watch::Sender::new(false) })
    }

    /// Signals that the handshake waits for a login, until the guard is dropped.
    pub(super) fn begin_login(&self) -> LoginGuard<'_> {
        self.logging_in.send_replace(true);
        LoginGuard(&self.logging_in)
    }

    /// Watches whether a handshake waits for a login.
    pub(super) fn login_state(&self) -> watch::Receiver<bool> {
        self.logging_in.subscribe()
    }

    /// Sends a request to `to`, a URL of the server's origin, and follows redirects within it.
    /// Retries after a rejection if authorization succeeds.
    pub(super) async fn send(
        &self,
        verb: Verb,
        to: &ServerUrl,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<ServerResponse, Error> {
        // GET streams and DELETE run in the background.
        let wait = if verb == Verb::POST { AuthWait::Interactive } else { AuthWait::Background };
        self.send_for(wait, verb, to, headers, body).await
    }

    /// Sends the request on behalf of `wait`. Background requests do not start a login.
    pub(super) async fn send_for(
        &self,
        wait: AuthWait<'_>,
        verb: Verb,
        to: &ServerUrl,
        headers: &HeaderMap,
        body: Bytes,
    ) -> Result<ServerResponse, Error> {
        let (mut times, mut redirects) = (0, MAX_REDIRECTS);
        loop {
            let tried = self.attempt(&verb, to, headers, &body, &mut redirects).await?;
            if !auth::should_retry(&self.options, &verb, &tried, times, wait).await? {
                return Ok(tried.response);
            }
            tried.response.drain().await;
            times += 1;
        }
    }

    /// Sends a request once, with credentials, and follows as many `redirects` as are left for its message.
    pub(super) async fn attempt(
        &self,
        verb: &Verb,
        to: &ServerUrl,
        headers: &HeaderMap,
        body: &Bytes,
        redirects: &mut usize,
    ) -> Result<AuthAttempt, Error> {
        let mut to = to.clone();
        loop {
            let tried = self.send_once(verb, &to, headers, body).await?;
            let Some(next) = redirect_target(verb, &to, &tried.response)? else { return Ok(tried) };
            *redirects = redirects.checked_sub(1).ok_or_else(|| {
                not_followed(format!("{} redirects more than {MAX_REDIRECTS} times", self.url))
            })?;
            tried.response.drain().await;
            to = next;
        }
    }

    async fn send_once(
        &self,
        verb: &Verb,
        to: &ServerUrl,
        headers: &HeaderMap,
        body: &Bytes,
    ) -> Result<AuthAttempt, Error> {
        let mut request = Request::new(FullBody(Some(body.clone())));
        *request.method_mut() = verb.clone();
        *request.uri_mut() = to.uri().clone();
        // In this order, so that user headers never replace those of the protocol.
        *request.headers_mut() = self.user_headers.clone();
        request.headers_mut().extend(headers.clone());
        if *verb == Verb::POST {
            request
                .headers_mut()
                .insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
        }
        let accept = match *verb {
            Verb::GET => "text/event-stream",
            _ => "application/json, text/event-stream",
        };
        request.headers_mut().insert(ACCEPT, HeaderValue::from_static(accept));
        let url = to.to_string();
        let mark =
            auth::attach_credentials(&self.options, verb, &url, request.headers_mut()).await?;
        let response =
            self.client.request(request).await.map_err(|error| request_error(to, error))?;
        let response = ServerResponse::new(response);
        self.options.note(format_args!("{verb} {to}: {}", response.status_line()));
        auth::report_response(&self.options, mark, response.status, &response.headers);
        Ok(AuthAttempt { response, mark })
    }
}

/// Parses the user's headers. All are marked sensitive, because any may hold a secret.
fn parse_user_headers(
    headers: &[(String, String)],
    options: &ClientTransportOptions,
) -> Result<HeaderMap, Error> {
    let mut user_headers = HeaderMap::new();
    user_headers
        .insert(USER_AGENT, HeaderValue::from_static(concat!("wharf/", env!("CARGO_PKG_VERSION"))));
    for (name, value) in headers {
        let bad = |what: &str| {
            let problem = format!("The header {:?} has {what}", excerpt(name));
            Error::new(ErrorKind::InvalidParams)
                .with_message(problem)
                .from_client(FailureOrigin::Target)
        };
        let known =
            HeaderName::from_bytes(name.trim().as_bytes()).map_err(|_| bad("an invalid name"))?;
        let mut value = HeaderValue::from_str(value.trim()).map_err(|_| bad("an invalid value"))?;
        value.set_sensitive(true);
        if known.as_str().starts_with("mcp-") || RESERVED_HEADERS.contains(&known.as_str()) {
            options.note(format_args!("ignored the header {known}: the protocol sets it"));
        } else if known == USER_AGENT {
            user_headers.insert(known, value);
        } else {
            user_headers.append(known, value);
        }
    }
    Ok(user_headers)
}

/// The target of a redirect, if the response is one that may be followed.
fn redirect_target(
    verb: &Verb,
    from: &ServerUrl,
    response: &ServerResponse,
) -> Result<Option<ServerUrl>, Error> {
    let keeps_method = match response.status {
        StatusCode::TEMPORARY_REDIRECT | StatusCode::PERMANENT_REDIRECT => true,
        StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND | StatusCode::SEE_OTHER => false,
        _ => return Ok(None),
    };
    let refused = |why: String| {
        let problem = format!("{from} redirects with status {}: {why}", response.status.as_u16());
        not_followed(problem)
    };
    let location = response.headers.get(LOCATION).and_then(|it| it.to_str().ok());
    let Some(location) = location else {
        return Err(refused("there is no Location header".into()));
    };
    let next = from.join(location).map_err(|error| refused(error.message.into_owned()))?;
    if next.origin() != from.origin() {
        // Credentials and trust belong to one origin.
        let there = next.origin();
        return Err(refused(format!(
            "not followed to {there}, which is another origin; connect to it instead if you trust it"
        )));
    }
    if !keeps_method && *verb != Verb::GET {
        return Err(refused(format!("a {verb} is only repeated after 307 or 308; use {next}")));
    }
    Ok(Some(next))
}

/// Converts an error of a request without a response.
fn request_error(to: &ServerUrl, error: legacy::Error) -> Error {
    let mut cause = error.source();
    while let Some(it) = cause {
        if let Some(problem) = it.downcast_ref::<ConnectionError>() {
            return not_connected(problem, problem.to_string());
        }
        if let Some(hyper_error) = it.downcast_ref::<hyper::Error>() {
            let (problem, origin) = connection_error(to, hyper_error);
            return problem.from_client_because(origin, Arc::new(error));
        }
        cause = it.source();
    }
    Error::new(ErrorKind::TransportError)
        .with_message(format!("{to}: {error}"))
        .from_client_because(FailureOrigin::Interrupted, Arc::new(error))
}

fn not_followed(problem: String) -> Error {
    Error::new(ErrorKind::TransportError).with_message(problem).from_client(FailureOrigin::Protocol)
}

/// Converts an error of a connection that failed during a request or a body.
fn connection_error(to: &ServerUrl, error: &hyper::Error) -> (Error, FailureOrigin) {
    if error.is_parse() || error.is_parse_too_large() {
        let problem = format!("{to} returned invalid HTTP: {error}");
        let error = Error::new(ErrorKind::TransportError).with_message(problem);
        return (error, FailureOrigin::Protocol);
    }
    let why = error.source().map_or_else(|| error.to_string(), io_text);
    let problem = format!("{to} closed the connection before it responded ({why})");
    (Error::new(ErrorKind::ConnectionClosed).with_message(problem), FailureOrigin::Interrupted)
}

fn io_text(error: &(dyn std::error::Error + 'static)) -> String {
    error.downcast_ref::<io::Error>().map_or_else(|| error.to_string(), |it| it.kind().to_string())
}

/// A complete request body.
struct FullBody(Option<Bytes>);

impl Body for FullBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut task::Context<'_>,
    ) -> task::Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        task::Poll::Ready(self.0.take().filter(|it| !it.is_empty()).map(|it| Ok(Frame::data(it))))
    }

    fn is_end_stream(&self) -> bool {
        self.0.as_ref().is_none_or(Bytes::is_empty)
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.0.as_ref().map_or(0, |it| it.len() as u64))
    }
}
