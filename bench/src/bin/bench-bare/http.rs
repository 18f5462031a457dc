//! Plain hyper handler.

use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use bench::work::WAIT;
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::{Body, Frame, Incoming, SizeHint};
use hyper::header::{CONTENT_TYPE, HeaderName, HeaderValue};
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::mpsc;
use tokio::time::sleep;

use crate::Fallible;
use crate::answer::{Answer, Progress, Responder};
use crate::sessions::Sessions;

const SESSION: HeaderName = HeaderName::from_static("mcp-session-id");
const JSON: HeaderValue = HeaderValue::from_static("application/json");
const EVENTS: HeaderValue = HeaderValue::from_static("text/event-stream");

struct Endpoint {
    responder: Responder,
    sessions: Sessions,
}

#[tokio::main]
pub(crate) async fn serve(address: SocketAddr, responder: Responder) -> Fallible {
    let endpoint = Arc::new(Endpoint { responder, sessions: Sessions::default() });
    let listener = TcpListener::bind(address).await?;
    loop {
        let (stream, _) = listener.accept().await?;
        stream.set_nodelay(true)?;
        let endpoint = Arc::clone(&endpoint);
        let handler = service_fn(move |request| handle(Arc::clone(&endpoint), request));
        tokio::spawn(http1::Builder::new().serve_connection(TokioIo::new(stream), handler));
    }
}

async fn handle(
    endpoint: Arc<Endpoint>,
    request: Request<Incoming>,
) -> Result<Response<ReplyBody>, Infallible> {
    let session = request.headers().get(SESSION).map(HeaderValue::as_bytes);
    let known = session.is_none_or(|id| endpoint.sessions.has(id));
    if !known {
        return Ok(status(StatusCode::NOT_FOUND));
    }
    match *request.method() {
        Method::POST => Ok(post(&endpoint, request).await),
        Method::DELETE if session.is_some_and(|id| endpoint.sessions.close(id)) => {
            Ok(status(StatusCode::OK))
        }
        Method::DELETE => Ok(status(StatusCode::BAD_REQUEST)),
        _ => Ok(status(StatusCode::METHOD_NOT_ALLOWED)),
    }
}

async fn post(endpoint: &Endpoint, request: Request<Incoming>) -> Response<ReplyBody> {
    let Ok(body) = request.into_body().collect().await else {
        return status(StatusCode::BAD_REQUEST);
    };
    match endpoint.responder.answer(&body.to_bytes()) {
        Answer::Reply(reply) => typed(JSON, ReplyBody::Whole(reply.into())),
        Answer::SessionStart(reply) => {
            let mut response = typed(JSON, ReplyBody::Whole(reply.into()));
            if let Ok(id) = HeaderValue::try_from(endpoint.sessions.open()) {
                response.headers_mut().insert(SESSION, id);
            }
            response
        }
        Answer::Accepted => status(StatusCode::ACCEPTED),
        Answer::Progress(progress, reply) => {
            typed(EVENTS, ReplyBody::Events(events(progress, reply)))
        }
        Answer::Waiting(reply) => {
            sleep(WAIT).await;
            sleep(WAIT).await;
            typed(JSON, ReplyBody::Whole(reply.into()))
        }
        Answer::Invalid => status(StatusCode::BAD_REQUEST),
    }
}

/// Spawns a task that sends each event by itself, as a plain hyper handler does.
fn events(progress: Progress, reply: Vec<u8>) -> mpsc::Receiver<Bytes> {
    let (sender, receiver) = mpsc::channel(16);
    tokio::spawn(async move {
        for notification in progress.notifications() {
            sender.send(format!("data: {notification}\n\n").into()).await?;
        }
        sender.send([b"data: ", &reply[..], b"\n\n"].concat().into()).await
    });
    receiver
}

fn status(code: StatusCode) -> Response<ReplyBody> {
    let mut response = Response::new(ReplyBody::Whole(Full::default()));
    *response.status_mut() = code;
    response
}

fn typed(kind: HeaderValue, body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, kind);
    response
}

enum ReplyBody {
    Whole(Full<Bytes>),
    Events(mpsc::Receiver<Bytes>),
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        match self.get_mut() {
            ReplyBody::Whole(body) => Pin::new(body).poll_frame(cx),
            ReplyBody::Events(events) => {
                events.poll_recv(cx).map(|event| event.map(|e| Ok(Frame::data(e))))
            }
        }
    }

    fn is_end_stream(&self) -> bool {
        match self {
            ReplyBody::Whole(body) => body.is_end_stream(),
            ReplyBody::Events(_) => false,
        }
    }

    fn size_hint(&self) -> SizeHint {
        match self {
            ReplyBody::Whole(body) => body.size_hint(),
            ReplyBody::Events(_) => SizeHint::default(),
        }
    }
}
