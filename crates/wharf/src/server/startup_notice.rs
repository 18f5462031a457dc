//! What a server over HTTP reports when it starts: its URL, and a warning if it serves a public address without
//! authentication.

use std::io;

use tokio::net::TcpListener;

use crate::Endpoint;

impl Endpoint {
    /// URL of the server at `listener`, with notes on which clients can use it.
    pub(super) fn http_url(&self, listener: &TcpListener) -> io::Result<String> {
        let options = self.http.options();
        let scheme = if options.is_encrypted() { "https" } else { "http" };
        let address = listener.local_addr()?;
        let host = match address.ip().is_unspecified() {
            true => format!("localhost:{}", address.port()),
            false => address.to_string(),
        };
        let mut text = format!("{scheme}://{host}{}", options.paths()[0]);
        if !address.ip().is_loopback() {
            if !options.is_guarded() {
                text.push_str("\n(every client that reaches this port can call it: there is no authentication)");
            }
            if options.is_for_loopback_only() {
                text.push_str(
                    "\n(requests must have localhost or a loopback address in their Host header, \
                     which stops web pages but no other program; --allow-host NAME or Http::host \
                     lets clients use another name)",
                );
            }
        }
        Ok(text)
    }
}
