//! Bridge from lines to HTTP: each line that the client writes becomes a request, and each message of a response
//! becomes a line that it reads.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use http::{HeaderValue, Request, Response, header};
use http_body_util::BodyExt;
use hyper::body::Incoming;
use serde_json::Value;
use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, DuplexStream, duplex},
    sync::{Mutex, Semaphore},
    task::{AbortHandle, JoinSet},
};

use crate::{
    client::MODERN,
    harness::{Reader, Writer},
    web::{self, AnyBody, Events, Pool, whole},
};

/// Capacity in bytes of the pipe between the bridge and the client.
const PIPE: usize = 64 << 10;
/// Maximum number of requests in flight. More connections would not help a client.
const AT_ONCE: usize = 64;

/// Lines that the client writes.
pub struct ClientLines(BufReader<DuplexStream>);

/// Lines that the client reads, from any response. The stream ends when the last clone is dropped.
#[derive(Clone)]
pub struct ServerLines(Arc<Mutex<DuplexStream>>);

/// The client's two halves, and the bridge's ends of them.
pub fn halves() -> ((Reader, Writer), (ClientLines, ServerLines)) {
    let (writer, written) = duplex(PIPE);
    let (reader, read) = duplex(PIPE);
    let ends = (ClientLines(BufReader::new(written)), ServerLines(Arc::new(Mutex::new(read))));
    ((Box::new(reader), Box::new(writer)), ends)
}

impl ClientLines {
    /// Next line as it was written, without its line end.
    async fn line(&mut self) -> Option<Vec<u8>> {
        let mut line = Vec::new();
        self.0.read_until(b'\n', &mut line).await.expect("a pipe");
        line.pop_if(|byte| *byte == b'\n').map(|_| line)
    }
}

impl ServerLines {
    /// Sends a line to the client, which may have stopped reading.
    async fn send_line(&self, message: &[u8]) {
        let line = [message, b"\n"].concat();
        let _ = self.0.lock().await.write_all(&line).await;
    }

    /// Sends every message of a response to the client.
    async fn send_messages(&self, response: Response<Incoming>) {
        if web::is_events(&response) {
            let mut events = Events::of(response);
            while let Some(event) = events.next().await {
                if !event.data.is_empty() {
                    self.send_line(event.data.as_bytes()).await;
                }
            }
        } else if let Ok(body) = response.into_body().collect().await {
            let body = body.to_bytes();
            if !body.is_empty() {
                self.send_line(&body).await;
            }
        }
    }
}

/// Streamable HTTP client: a POST for each message, and a session if the revision has sessions.
pub struct StreamableHttpBridge {
    pub pool: Pool,
    pub url: String,
    pub accept: &'static str,
    pub revision: &'static str,
}

impl StreamableHttpBridge {
    /// Forwards messages until the client closes its end, or the server cannot be reached.
    pub async fn carry(self, (mut written, read): (ClientLines, ServerLines)) {
        let carrier = Arc::new(self);
        let seats = Arc::new(Semaphore::new(AT_ONCE));
        let mut session: Option<HeaderValue> = None;
        let mut streams = JoinSet::new();
        let mut calls: HashMap<String, AbortHandle> = HashMap::new();
        while let Some(line) = written.line().await {
            let message: Value = serde_json::from_slice(&line).unwrap_or_default();
            let method = message["method"].as_str().unwrap_or_default();
            if method == "notifications/cancelled" && carrier.revision == MODERN {
                // A client that stops reading a response cancels the call.
                if let Some(call) = calls.remove(&message["params"]["requestId"].to_string()) {
                    call.abort();
                }
                continue;
            }
            let request = carrier.post(line.into(), session.as_ref());
            let (carrier, read) = (carrier.clone(), read.clone());
            if (message.is_array() || !message["id"].is_null()) && method != "initialize" {
                let seat = seats.clone().acquire_owned().await;
                let call = streams.spawn(async move {
                    let _seat = seat;
                    let response = carrier.send(request).await.expect("the server answers");
                    read.send_messages(response).await;
                });
                calls.insert(message["id"].to_string(), call);
                continue;
            }
            let Some(response) = carrier.send(request).await else { return };
            if let Some(id) = response.headers().get("mcp-session-id") {
                session = Some(id.clone());
            }
            read.send_messages(response).await;
            if let (Some(session), "notifications/initialized") = (&session, method)
                && carrier.accept != "application/json"
            {
                let request = carrier.bare("GET", session);
                streams.spawn(async move {
                    let response = carrier.send(request).await.expect("the server answers");
                    // The client may have ended the session meanwhile.
                    if web::is_events(&response) {
                        read.send_messages(response).await;
                    }
                });
            }
        }
        match session {
            Some(session) => {
                let ended = carrier.send(carrier.bare("DELETE", &session)).await;
                assert_eq!(ended.expect("the server answers").status(), 204);
            }
            None => streams.abort_all(),
        }
        while streams.join_next().await.is_some() {}
    }

    fn post(&self, message: Bytes, session: Option<&HeaderValue>) -> Request<AnyBody> {
        let mut request = web::post(&self.url, self.revision, message);
        let headers = request.headers_mut();
        headers.insert(header::ACCEPT, HeaderValue::from_static(self.accept));
        headers.extend(session.map(|it| (SESSION, it.clone())));
        request
    }

    fn bare(&self, verb: &str, session: &HeaderValue) -> Request<AnyBody> {
        Request::builder()
            .method(verb)
            .uri(&self.url)
            .header(header::ACCEPT, "text/event-stream")
            .header(SESSION, session)
            .body(whole(""))
            .expect("a request")
    }

    /// Sends a request; `None` if the server cannot be reached.
    async fn send(&self, request: Request<AnyBody>) -> Option<Response<Incoming>> {
        let response = self.pool.request(request).await.ok()?;
        match (self.accept, web::is_events(&response)) {
            ("application/json", true) => panic!("events for who reads none: {response:?}"),
            ("text/event-stream", false) => assert_ne!(response.status(), 200, "{response:?}"),
            _ => {}
        }
        Some(response)
    }
}

const SESSION: header::HeaderName = header::HeaderName::from_static("mcp-session-id");

/// HTTP+SSE client of 2024-11-05: one stream for all incoming messages, a POST for each outgoing one.
pub async fn carry_sse(
    pool: Pool,
    origin: String,
    (mut written, read): (ClientLines, ServerLines),
) {
    let listen = Request::get(format!("{origin}/sse")).body(whole("")).expect("a request");
    let mut events = Events::of(pool.request(listen).await.expect("the server answers"));
    let endpoint = events.next().await.expect("an event");
    assert_eq!(endpoint.name.as_deref(), Some("endpoint"));
    let url = format!("{origin}/{}", endpoint.data.trim_start_matches('/'));
    let hearing = async move {
        while let Some(event) = events.next().await {
            assert_eq!(event.name.as_deref(), Some("message"));
            read.send_line(event.data.as_bytes()).await;
        }
    };
    let saying = async move {
        while let Some(line) = written.line().await {
            let post = Request::post(&url).header(header::CONTENT_TYPE, "application/json");
            let post = post.body(whole(line)).expect("a request");
            let Ok(response) = pool.request(post).await else { return };
            assert_eq!(response.status(), 202);
        }
    };
    tokio::select! {
        () = hearing => {}
        () = saying => {}
    }
}

/// WebSocket client: a text frame for each message.
#[cfg(feature = "websocket")]
pub async fn carry_websocket(address: String, (mut written, read): (ClientLines, ServerLines)) {
    use futures_util::{SinkExt, StreamExt};
    use tokio_tungstenite::{
        client_async,
        tungstenite::{Message, client::IntoClientRequest},
    };

    let mut request = format!("ws://{address}/mcp").into_client_request().expect("an address");
    request.headers_mut().insert("sec-websocket-protocol", HeaderValue::from_static("mcp"));
    let stream = tokio::net::TcpStream::connect(&address).await.expect("a connection");
    let (socket, response) = client_async(request, stream).await.expect("a handshake");
    assert_eq!(response.headers()["sec-websocket-protocol"], "mcp");
    let (mut frames_out, mut frames_in) = socket.split();
    let hearing = async move {
        while let Some(Ok(frame)) = frames_in.next().await {
            match frame {
                Message::Text(message) => read.send_line(message.as_bytes()).await,
                Message::Binary(_) => panic!("a binary frame"),
                _ => {}
            }
        }
    };
    let saying = async move {
        while let Some(line) = written.line().await {
            let line = String::from_utf8(line).expect("a text frame is UTF-8");
            if frames_out.send(Message::text(line)).await.is_err() {
                return;
            }
        }
        let _ = frames_out.close().await;
    };
    tokio::join!(hearing, saying);
}
