//! WebSocket connector: each message is one text message.

use std::{io, sync::Arc, time::Duration};

use bytes::Bytes;
use futures_util::{
    SinkExt, StreamExt,
    stream::{SplitSink, SplitStream},
};
use http::{
    HeaderMap, HeaderName, HeaderValue, Method as Verb, Request,
    header::{HOST, SEC_WEBSOCKET_PROTOCOL},
};
use tokio::{sync::Mutex, task::coop::consume_budget, time::timeout};
use tokio_tungstenite::{
    WebSocketStream, client_async_with_config,
    tungstenite::{
        self, Message, Utf8Bytes, client::IntoClientRequest, error::ProtocolError,
        protocol::WebSocketConfig,
    },
};
use wharf_connect::HostStream;
use wharf_model::{AuthFailure, Error, ErrorKind, FailureOrigin};
use wharf_wire::Line;

use crate::client::stream::socket::unreachable_because;
use crate::client::{
    ClientTransportOptions,
    http::{auth, error_response::by_status_error, server_url::ServerUrl},
    not_connected,
    stream::{
        connection::too_long,
        connector::{ConnectionParts, Connector, MessageSink, MessageSource},
        socket::unreachable,
    },
};

/// The WebSocket subprotocol.
const SUBPROTOCOL: HeaderValue = HeaderValue::from_static("mcp");
/// Heartbeat: idle time before a ping, and timeout of the pong.
const PING_INTERVAL: Duration = Duration::from_secs(30);
/// Size of the read buffer and of the write buffer.
const BUFFER_BYTES: usize = 16 << 10;

type ClientWebSocket = WebSocketStream<HostStream>;
type WebSocketSink = Arc<Mutex<SplitSink<ClientWebSocket, Message>>>;

/// The result of a WebSocket handshake.
enum HandshakeAttempt {
    Open(Box<ClientWebSocket>),
    Refused(AuthFailure, Error),
}

/// A server's URL, and the user's headers.
pub(crate) struct WebSocketConnector {
    /// The same URL with the scheme `http` or `https`.
    http_url: ServerUrl,
    url: String,
    headers: Vec<(HeaderName, HeaderValue)>,
}

impl WebSocketConnector {
    pub(crate) fn new(url: &str, headers: &[(String, String)]) -> Result<Self, Error> {
        let url = url.trim();
        let is_websocket = url.starts_with("ws://") || url.starts_with("wss://");
        let Some(rest) = url.strip_prefix("ws").filter(|_| is_websocket) else {
            return Err(Error::new(ErrorKind::InvalidParams)
                .with_message("invalid URL: for WebSocket it must begin with ws:// or wss://")
                .from_client(FailureOrigin::Target));
        };
        let http_url = ServerUrl::parse(&format!("http{rest}"))?;
        let headers = headers.iter().map(header).collect::<Result<_, _>>()?;
        Ok(WebSocketConnector { http_url, url: url.to_owned(), headers })
    }

    fn request(&self) -> Result<Request<()>, tungstenite::Error> {
        let mut request = self.url.as_str().into_client_request()?;
        for (name, value) in &self.headers {
            request.headers_mut().append(name, value.clone());
        }
        request.headers_mut().insert(SEC_WEBSOCKET_PROTOCOL, SUBPROTOCOL);
        Ok(request)
    }

    /// Connects, with retries after authorization. Authorization has no timeout, because it may
    /// involve the user.
    async fn connect(&self, options: &ClientTransportOptions) -> Result<ClientWebSocket, Error> {
        let late = |_| unreachable(self.name(), "it did not respond in time");
        for times in 0.. {
            // Before the timeout starts: the credentials may have to be renewed first.
            let (mut auth_headers, url) = (HeaderMap::new(), self.http_url.to_string());
            let mark =
                auth::attach_credentials(options, &Verb::GET, &url, &mut auth_headers).await?;
            let attempt = self.attempt(options, times, mark, &auth_headers);
            let attempt = timeout(options.handshake, attempt).await;
            match attempt.map_err(late)?? {
                HandshakeAttempt::Open(socket) => return Ok(*socket),
                HandshakeAttempt::Refused(auth_failure, error) => {
                    if !auth::handle_auth_failure(options, auth_failure).await? {
                        return Err(error);
                    }
                }
            }
        }
        Err(Error::new(ErrorKind::Unauthenticated))
    }

    async fn attempt(
        &self,
        options: &ClientTransportOptions,
        times: u32,
        mark: u64,
        auth_headers: &HeaderMap,
    ) -> Result<HandshakeAttempt, Error> {
        // Without HTTP/2, which has another form of handshake. Certificates are loaded once for all copies.
        let stream = options.connector.connect(self.http_url.origin()).await;
        let stream = stream.map_err(|error| {
            not_connected(&error, format!("Cannot connect to {}: {error}", self.name()))
        })?;
        let mut config = WebSocketConfig::default();
        config.read_buffer_size = BUFFER_BYTES;
        config.write_buffer_size = BUFFER_BYTES;
        config.max_message_size = Some(options.limits.message);
        config.max_frame_size = Some(options.limits.message);
        let mut request = self.request().map_err(|error| self.handshake_error(error))?;
        for (name, value) in auth_headers {
            request.headers_mut().insert(name, value.clone());
        }
        let connected = client_async_with_config(request, stream, Some(config)).await;
        let error = match connected {
            Ok((socket, response)) => {
                auth::report_response(options, mark, response.status(), response.headers());
                return Ok(HandshakeAttempt::Open(Box::new(socket)));
            }
            Err(error) => error,
        };
        if let tungstenite::Error::Http(response) = &error {
            let (status, headers) = (response.status(), response.headers());
            auth::report_response(options, mark, status, headers);
            if let Some(auth_failure) = auth::auth_failure(&Verb::GET, status, headers, mark, times)
            {
                return Ok(HandshakeAttempt::Refused(auth_failure, self.handshake_error(error)));
            }
        }
        Err(self.handshake_error(error))
    }

    /// Converts a failed WebSocket handshake to an error with advice.
    fn handshake_error(&self, error: tungstenite::Error) -> Error {
        let name = self.name();
        match error {
            tungstenite::Error::Http(response) => {
                let status = response.status();
                let problem = format!(
                    "{name} answered with HTTP {status} and not as a WebSocket; check the path and \
                     the headers"
                );
                by_status_error(status, problem)
            }
            tungstenite::Error::Protocol(ProtocolError::SecWebSocketSubProtocolError(_)) => {
                unreachable(name, "it is a WebSocket, but does not support the subprotocol mcp")
            }
            error => unreachable_because(name, error),
        }
    }
}

impl Connector for WebSocketConnector {
    type Source = WebSocketSource;
    type Sink = WebSocketSink;
    type Guard = ();

    fn name(&self) -> String {
        format!("ws{}", self.http_url.to_string().trim_start_matches("http"))
    }

    fn key(&self) -> Option<String> {
        Some(self.url.clone())
    }

    async fn open(&self, options: &ClientTransportOptions) -> Result<ConnectionParts<Self>, Error> {
        let (sink, stream) = self.connect(options).await?.split();
        let writer = Arc::new(Mutex::new(sink));
        let limit = options.limits.message;
        let source = WebSocketSource { stream, writer: writer.clone(), pinged: false, limit };
        Ok(ConnectionParts { source, sink: writer, guard: () })
    }
}

fn header((name, value): &(String, String)) -> Result<(HeaderName, HeaderValue), Error> {
    let bad = || {
        let message = format!("invalid header {name:?}: check its name and value");
        Error::new(ErrorKind::InvalidParams)
            .with_message(message)
            .from_client(FailureOrigin::Target)
    };
    let name = HeaderName::try_from(name).map_err(|_| bad())?;
    if name == HOST || name.as_str().starts_with("sec-websocket-") {
        return Err(bad());
    }
    let mut value = HeaderValue::try_from(value).map_err(|_| bad())?;
    value.set_sensitive(true);
    Ok((name, value))
}

/// Reads messages from a WebSocket, and answers pings.
pub(crate) struct WebSocketSource {
    stream: SplitStream<ClientWebSocket>,
    writer: WebSocketSink,
    /// Set while a ping is unanswered.
    pinged: bool,
    limit: usize,
}

impl MessageSource for WebSocketSource {
    async fn next(&mut self) -> Result<Option<Line>, Error> {
        loop {
            // A server that never pauses must not starve other futures of the task.
            consume_budget().await;
            let Ok(frame) = timeout(PING_INTERVAL, self.stream.next()).await else {
                self.ping().await?;
                continue;
            };
            self.pinged = false;
            match frame {
                Some(Ok(Message::Text(text))) => return Ok(Some(Line::Message(text.into()))),
                Some(Ok(Message::Binary(bytes))) => return Ok(Some(Line::Message(bytes))),
                Some(Ok(Message::Close(_))) | None => return Ok(None),
                Some(Ok(_)) => {}
                Some(Err(tungstenite::Error::Capacity(_))) => return Err(too_long(self.limit)),
                // A read error counts as the end of the stream.
                Some(Err(_)) => return Ok(None),
            }
        }
    }
}

impl WebSocketSource {
    /// Sends a heartbeat ping; fails if the last one is unanswered.
    async fn ping(&mut self) -> Result<(), Error> {
        let ping = async { self.writer.lock().await.send(Message::Ping(Bytes::new())).await };
        if self.pinged || !matches!(timeout(PING_INTERVAL, ping).await, Ok(Ok(()))) {
            return Err(Error::new(ErrorKind::ConnectionClosed)
                .with_message("Connection closed: the server does not answer pings")
                .from_client(FailureOrigin::Interrupted));
        }
        self.pinged = true;
        Ok(())
    }
}

impl MessageSink for WebSocketSink {
    async fn send(&mut self, messages: Vec<Vec<u8>>) -> io::Result<()> {
        let mut writer = self.lock().await;
        for message in messages {
            let text = Utf8Bytes::try_from(message).map_err(io::Error::other)?;
            writer.feed(Message::Text(text)).await.map_err(io::Error::other)?;
        }
        writer.flush().await.map_err(io::Error::other)
    }

    async fn close(&mut self) {
        let _ = self.lock().await.close().await;
    }
}
