//! Sends messages to a receiver over HTTP.

use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt as _, Full};
use hyper::{
    Request, StatusCode,
    client::conn::http1::{SendRequest, handshake},
    header::{CONTENT_TYPE, HOST, RETRY_AFTER, USER_AGENT},
};
use hyper_util::rt::TokioIo;
use tokio::time::{Instant, sleep_until, timeout};
use wharf_connect::{HostConnector, parse_retry_after};

use crate::otlp::{
    message::{Message, json, protobuf},
    partial_success::PartialSuccess,
    settings::{OtlpProtocol, OtlpReceiver},
};

/// First delay before a request is sent again, which doubles. The receiver can ask for a longer one.
const FIRST_DELAY: Duration = Duration::from_secs(1);

/// Maximum of that delay.
const MAX_DELAY: Duration = Duration::from_secs(60);

/// Maximum bytes of a response that are kept.
const MAX_RESPONSE: usize = 16 << 10;

/// Connection to a receiver, which is kept open.
pub(crate) struct OtlpSender {
    receiver: OtlpReceiver,
    connector: HostConnector,
    open: Option<SendRequest<Full<Bytes>>>,
}

/// Reason for which a request was not accepted.
struct SendFailure {
    reason: String,
    /// The request may be sent again, after this time if the receiver names one.
    retry: Option<Option<Duration>>,
}

impl SendFailure {
    fn transient(reason: impl ToString) -> SendFailure {
        SendFailure { reason: reason.to_string(), retry: Some(None) }
    }
}

impl OtlpSender {
    pub(crate) fn new(receiver: OtlpReceiver) -> Self {
        let connector = HostConnector::new().timeout(receiver.timeout);
        #[cfg(feature = "tls")]
        let connector = connector.protocols(&[b"http/1.1"]);
        OtlpSender { receiver, connector, open: None }
    }

    /// Sends a message, again after temporary failures, until the deadline. Redirects are not followed: the headers may
    /// have credentials.
    pub(crate) async fn send(
        &mut self,
        message: &Message,
        deadline: Instant,
    ) -> Result<PartialSuccess, String> {
        let body: Bytes = match self.receiver.protocol {
            OtlpProtocol::Json => json(message).to_string().into(),
            OtlpProtocol::Protobuf => protobuf(message).into(),
        };
        let mut delay = FIRST_DELAY;
        loop {
            let most =
                self.receiver.timeout.min(deadline.saturating_duration_since(Instant::now()));
            let sent = match timeout(most, self.post(body.clone())).await {
                Ok(sent) => sent,
                Err(_) => Err(SendFailure::transient("the receiver did not answer in time")),
            };
            let SendFailure { reason, retry } = match sent {
                Ok(partial) => return Ok(partial),
                Err(failure) => failure,
            };
            self.open = None;
            // The receiver may name any time; one in the past, or shorter than the delay, has no effect.
            let wait = retry.map(|named| named.unwrap_or_default().max(delay));
            let next = wait.and_then(|wait| Instant::now().checked_add(wait));
            match next.filter(|next| *next < deadline) {
                Some(next) => sleep_until(next).await,
                None => return Err(reason),
            }
            delay = delay.saturating_mul(2).min(MAX_DELAY);
        }
    }

    async fn post(&mut self, body: Bytes) -> Result<PartialSuccess, SendFailure> {
        let OtlpReceiver { url, origin, headers, .. } = &self.receiver;
        let protocol = self.receiver.protocol;
        let query = url.query().map(|it| format!("?{it}")).unwrap_or_default();
        let kind = match protocol {
            OtlpProtocol::Json => "application/json",
            OtlpProtocol::Protobuf => "application/x-protobuf",
        };
        let mut request = Request::post(format!("{}{query}", url.path()))
            .header(HOST, origin.authority())
            .header(USER_AGENT, concat!("wharf/", env!("CARGO_PKG_VERSION")))
            .header(CONTENT_TYPE, kind);
        for (name, value) in headers {
            request = request.header(name, value);
        }
        let invalid =
            |error| SendFailure { reason: format!("invalid header: {error}"), retry: None };
        let request = request.body(Full::new(body)).map_err(invalid)?;
        let sender = self.connection().await?;
        let response = sender.send_request(request).await.map_err(SendFailure::transient)?;
        let (status, after) = (response.status(), response.headers().get(RETRY_AFTER));
        let after = after.and_then(|it| parse_retry_after(it.to_str().ok()?));
        // The body is read, so that the connection can be used again; an endless one runs into the timeout.
        let (mut body, mut kept) = (response.into_body(), Vec::new());
        while let Some(frame) = body.frame().await {
            let frame = frame.map_err(SendFailure::transient)?;
            let data = frame.data_ref().filter(|data| kept.len() + data.len() <= MAX_RESPONSE);
            kept.extend(data.into_iter().flatten());
        }
        const TEMPORARY: [StatusCode; 4] = [
            StatusCode::TOO_MANY_REQUESTS,
            StatusCode::BAD_GATEWAY,
            StatusCode::SERVICE_UNAVAILABLE,
            StatusCode::GATEWAY_TIMEOUT,
        ];
        match status.is_success() {
            true => Ok(PartialSuccess::parse(protocol, &kept)),
            false => Err(SendFailure {
                reason: format!("the receiver answered {status}"),
                retry: TEMPORARY.contains(&status).then_some(after),
            }),
        }
    }

    async fn connection(&mut self) -> Result<&mut SendRequest<Full<Bytes>>, SendFailure> {
        let is_open = match &mut self.open {
            Some(open) => open.ready().await.is_ok(),
            None => false,
        };
        if !is_open {
            let stream = self.connector.connect(&self.receiver.origin).await;
            let stream = TokioIo::new(stream.map_err(SendFailure::transient)?);
            let (sender, connection) = handshake(stream).await.map_err(SendFailure::transient)?;
            tokio::spawn(connection);
            self.open = Some(sender);
        }
        self.open.as_mut().ok_or_else(|| SendFailure::transient("the connection is closed"))
    }
}
