//! HTTP client transport, for servers of every revision.
//!
//! A modern server is stateless. A legacy server may use a session and resumable streams. The
//! oldest servers send all messages on one stream (HTTP+SSE). The handshake detects the mode and
//! results in an `HttpConnection`.

pub(super) mod auth;
mod call;
mod cancel_on_drop;
mod connection;
mod connector;
mod control_requests;
pub(super) mod error_response;
mod handshake;
mod reopen_session;
mod response;
mod resume;
mod send;
pub(super) mod server_url;
mod session;
mod transport;

use std::sync::Arc;

use wharf_client::ClientTransport;
use wharf_model::Error;

use self::send::HttpSender;
use super::ClientTransportOptions;
use crate::client::http::{server_url::ServerUrl, transport::HttpTransport};

/// Connects to a server at a URL, with additional `headers` in every request.
///
/// Headers are sent to the URL's own origin only: a redirect to another origin is not followed.
/// Headers that the protocol sets are ignored.
///
/// ```no_run
/// # async fn connect() -> Result<(), wharf_model::Error> {
/// use wharf_transport::client::{ClientTransportOptions, connect_http};
/// use wharf_wire::ClientIdentity;
///
/// let token = ("Authorization".to_owned(), "Bearer 7".to_owned());
/// let options = ClientTransportOptions::new(ClientIdentity::default());
/// let transport = connect_http("http://127.0.0.1:8000/mcp", vec![token], options).await?;
/// println!("{}", transport.about().info.name);
/// # Ok(())
/// # }
/// ```
///
/// # Errors
/// If the URL or a header is invalid, the server cannot be reached, or there is no common revision.
pub async fn connect_http(
    url: &str,
    headers: Vec<(String, String)>,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let http = HttpSender::new(ServerUrl::parse(url)?, &headers, options)?;
    Ok(Arc::new(HttpTransport::connect(url, http).await?))
}
