//! Connections that are refused before their first request: the server is full, or the client uses the wrong protocol.

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    time::timeout,
};

use crate::server::http::connection::{NegotiatedProtocol, drain::CLOSE_TIMEOUT};

/// First byte of a TLS handshake.
const TLS_HANDSHAKE_BYTE: u8 = 0x16;
/// Largest number of bytes that are read and discarded from a client that is refused.
const MAX_DISCARDED_BYTES: u64 = 64 << 10;
/// Response to a client that is refused because the server is full.
pub(super) const SERVER_FULL_RESPONSE: &[u8] = b"HTTP/1.1 503 Service Unavailable\r\nretry-after: 1\r\nconnection: close\r\n\
content-type: application/json\r\ncontent-length: 117\r\n\r\n\
{\"jsonrpc\":\"2.0\",\"error\":{\"code\":-32600,\"message\":\"The server is full: all connections are in use. Try again later\"}}";

impl NegotiatedProtocol {
    /// Returns the reason to refuse a client with these first bytes. Empty if the client could not read a
    /// response.
    pub(super) fn refusal(self, prefix: &[u8], is_http2: bool) -> Option<&'static str> {
        match self {
            NegotiatedProtocol::Plain if prefix[0] == TLS_HANDSHAKE_BYTE => {
                Some("This port does not use TLS: use http:// instead of https://")
            }
            NegotiatedProtocol::Http1 if is_http2 => {
                Some("The TLS handshake negotiated HTTP/1.1, not HTTP/2")
            }
            NegotiatedProtocol::Http2 if !is_http2 => Some(""),
            _ => None,
        }
    }
}

/// Sends the reason in an HTTP/1.1 response and closes the connection before its first request.
pub(super) async fn refuse_connection(
    stream: &mut (impl AsyncRead + AsyncWrite + Unpin),
    why: &str,
) {
    let response = format!(
        "HTTP/1.1 400 Bad Request\r\ncontent-type: text/plain\r\ncontent-length: {}\r\n\
         connection: close\r\n\r\n{why}\n",
        why.len() + 1,
    );
    let sending = async {
        stream.write_all(response.as_bytes()).await?;
        stream.shutdown().await?;
        // Closing a socket with unread input resets the connection, and the client may lose the response.
        tokio::io::copy(&mut stream.take(MAX_DISCARDED_BYTES), &mut tokio::io::sink()).await
    };
    let _ = timeout(CLOSE_TIMEOUT, sending).await;
}
