//! Gets the page `/metrics` of an admin listener.

use std::{io, net::SocketAddr, time::Duration};

use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::{Instant, timeout},
};
use wharf::{
    ErrorKind,
    client::{HostConnector, Origin},
};

use super::snapshot::Snapshot;
use crate::error::CliError;

/// Maximum duration of a scrape.
const SCRAPE_TIMEOUT: Duration = Duration::from_secs(10);
/// Maximum size of a page. The families are bounded, so that a page is far smaller.
const MAX_PAGE: u64 = 32 << 20;

/// Admin listener, by its address on the command line.
pub(super) struct AdminTarget {
    pub(super) name: String,
}

impl AdminTarget {
    /// Parses `HOST:PORT`, also as an HTTP URL.
    pub(super) fn parse(word: &str) -> Result<Self, CliError> {
        let bare = word.strip_prefix("http://").unwrap_or(word);
        let name = bare.strip_suffix("/metrics").unwrap_or(bare).trim_end_matches('/');
        let port = name.rsplit_once(':').and_then(|(_, port)| port.parse::<u16>().ok());
        match port {
            Some(_) if !name.contains(['/', '@', ' ']) => Ok(AdminTarget { name: name.to_owned() }),
            _ => Err(CliError::usage(format!("{word:?} is not the address of an admin listener"))
                .hint("Write its host and port, such as 127.0.0.1:9464.".to_owned())),
        }
    }

    /// Scrapes the metrics.
    pub(super) async fn scrape(&self) -> Result<Snapshot, CliError> {
        let name = &self.name;
        let unreachable = |why: String| {
            let message = format!("The admin listener at {name} cannot be reached: {why}");
            CliError::of_kind(ErrorKind::TransportError, message)
        };
        let response = match timeout(SCRAPE_TIMEOUT, self.get()).await {
            Ok(response) => response.map_err(|error| unreachable(error.to_string()))?,
            Err(_) => return Err(unreachable(format!("no response within {SCRAPE_TIMEOUT:?}"))),
        };
        let (head, page) = response.split_once("\r\n\r\n").unwrap_or((&response, ""));
        let status = head.split_whitespace().nth(1).filter(|_| head.starts_with("HTTP/1"));
        if let (Some("200"), Some(snapshot)) = (status, Snapshot::parse(page, Instant::now())) {
            return Ok(snapshot);
        }
        let found = match status {
            Some("200") => "/metrics there has no metrics of Wharf".to_owned(),
            Some(status) => format!("/metrics there answered with HTTP {status}"),
            None => "it does not speak HTTP".to_owned(),
        };
        Err(CliError::usage(format!("{name} is not the admin listener of a Wharf server: {found}"))
            .hint(
                "Start the server with --admin 127.0.0.1:9464, and give that address.".to_owned(),
            ))
    }

    async fn get(&self) -> io::Result<String> {
        let origin = Origin::parse(&format!("http://{}", self.name)).map_err(io::Error::other)?;
        // An admin listener is in the same network, so no proxy is used.
        let connector = HostConnector::new().timeout(SCRAPE_TIMEOUT);
        let stream = connector.connect_tcp(&origin).await.map_err(io::Error::other)?;
        let address = stream.peer_addr()?;
        page(stream, address).await
    }
}

/// Requests the page. HTTP/1.0, so that the end of the response is the end of the connection. The listener accepts no name
/// but `localhost` as its host, against DNS rebinding.
async fn page(mut stream: TcpStream, address: SocketAddr) -> io::Result<String> {
    let request = format!("GET /metrics HTTP/1.0\r\nHost: {address}\r\nAccept: text/plain\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let mut response = Vec::new();
    match stream.take(MAX_PAGE).read_to_end(&mut response).await {
        Ok(_) => {}
        // Another protocol may reset the connection after its response.
        Err(_) if !response.is_empty() => {}
        Err(error) => return Err(error),
    }
    Ok(String::from_utf8_lossy(&response).into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_target_is_a_host_and_a_port() {
        for word in [
            "127.0.0.1:9464",
            "http://127.0.0.1:9464",
            "http://127.0.0.1:9464/metrics",
            "http://127.0.0.1:9464/",
        ] {
            assert_eq!(AdminTarget::parse(word).unwrap().name, "127.0.0.1:9464");
        }
        assert_eq!(AdminTarget::parse("[::1]:9464").unwrap().name, "[::1]:9464");
        for word in
            ["", "harbour", "127.0.0.1", "https://a:1", "http://a:1/mcp", "a:99999", "u@a:1"]
        {
            assert!(AdminTarget::parse(word).is_err(), "{word}");
        }
    }
}
