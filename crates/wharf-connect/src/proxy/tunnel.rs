//! Tunnel through a proxy (`CONNECT`, RFC 9110, section 9.3.6).

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use wharf_model::excerpt;

use crate::{ConnectionError, ConnectionErrorKind, proxy::ProxyServer, stream::StreamLayer};

/// Maximum length of the proxy's response.
const MAX_RESPONSE_BYTES: usize = 16 << 10;

/// Opens a tunnel to `authority`, a host and a port.
pub(crate) async fn open(
    stream: &mut StreamLayer,
    proxy: &ProxyServer,
    authority: &str,
) -> Result<(), ConnectionError> {
    let of_kind =
        |kind, why: &str| ConnectionError::new(kind, format!("the proxy {} {why}", proxy.origin));
    let fail = |why: String| of_kind(ConnectionErrorKind::Proxy, &why);
    let mut request = format!("CONNECT {authority} HTTP/1.1\r\nHost: {authority}\r\n");
    if let Some(authorization) = &proxy.authorization {
        request.push_str(&format!("Proxy-Authorization: {authorization}\r\n"));
    }
    request.push_str("\r\n");
    let broken =
        |error: std::io::Error| fail(format!("closed the connection ({error})")).because(error);
    stream.write_all(request.as_bytes()).await.map_err(broken)?;
    stream.flush().await.map_err(broken)?;
    let mut head = Vec::new();
    let end = loop {
        // Every protocol here begins with a message of the client, so nothing follows the response.
        if let Some(at) = head.windows(4).position(|it| it == b"\r\n\r\n") {
            break at + 4;
        }
        if head.len() >= MAX_RESPONSE_BYTES {
            return Err(fail("sent a response that is too long".into()));
        }
        if stream.read_buf(&mut head).await.map_err(broken)? == 0 {
            return Err(fail("closed the connection before it responded".into()));
        }
    };
    let line = String::from_utf8_lossy(head.split(|it| *it == b'\r').next().unwrap_or_default());
    let mut words = line.splitn(3, ' ');
    let version = words.next().unwrap_or_default();
    let status = words.next().and_then(|it| it.parse::<u16>().ok());
    match status.filter(|_| version.starts_with("HTTP/1.")) {
        Some(200..=299) if head.len() == end => Ok(()),
        Some(200..=299) => Err(fail("sent data before the connection was used".into())),
        Some(407) => Err(of_kind(
            ConnectionErrorKind::ProxyAuthentication,
            "requires authentication; write its URL as http://USER:PASSWORD@HOST:PORT",
        )),
        Some(status) => {
            let reason: String =
                words.next().unwrap_or_default().chars().filter(|it| !it.is_control()).collect();
            let reason = excerpt(&reason).into_owned();
            Err(fail(format!("refused the connection to {authority}: {status} {reason}")))
        }
        None => Err(fail("sent an invalid response: is it an HTTP proxy?".into())),
    }
}
