//! Links over HTTP, to servers of every revision.
//!
//! A modern server takes each request by itself. A legacy one may want a session, and streams that
//! are resumed where they break off; the oldest have one stream for everything they say (HTTP+SSE).
//! Which of them it is comes out when the conversation is opened (`open`), and is then a `HttpConnection`.

pub(super) mod auth;
mod call;
mod connection;
pub(super) mod connector;
pub(super) mod error;
mod handshake;
mod response;
mod resume;
mod send;
pub(super) mod server_url;
mod session;
#[cfg(feature = "tls")]
mod tls;
mod transport;

use std::sync::Arc;

use wharf_client::ClientTransport;
use wharf_model::Error;

use self::send::HttpSender;
use super::ClientTransportOptions;
use crate::client::http::{server_url::ServerUrl, transport::HttpTransport};

/// Connects to a server at a URL, with `headers` of the caller's own in every request.
///
/// Headers go to the URL's own origin only: a redirect to another is not followed. Those that the
/// protocol itself sets are left out.
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
/// If the URL or a header cannot be used, nobody answers there, or no revision is known to both.
pub async fn connect_http(
    url: &str,
    headers: Vec<(String, String)>,
    options: ClientTransportOptions,
) -> Result<Arc<dyn ClientTransport>, Error> {
    let http = HttpSender::new(ServerUrl::parse(url)?, &headers, options)?;
    Ok(Arc::new(HttpTransport::connect(url, http).await?))
}
