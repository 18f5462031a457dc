//! MCP request headers of a client, which repeat body fields for routing.

use wharf_model::HeaderParams;

use crate::client::ClientCodec;
use crate::{
    encode_header,
    server::headers::{METHOD, NAME, VERSION},
    versions::revision::{Feature, RequestKind},
};

impl ClientCodec {
    /// Returns the HTTP headers of a request or notification: the version, and in a modern revision the method,
    /// the target and the parameters. `target` is the tool, prompt, resource or task of the request.
    ///
    /// ```
    /// use wharf_wire::{ClientIdentity, Revision, ClientCodec};
    ///
    /// let revision: Revision = "2026-07-28".parse().unwrap();
    /// let codec = ClientCodec::new(revision, ClientIdentity::default().into());
    /// let headers = codec.headers("tools/call", Some("añadir"), None);
    /// assert_eq!(headers[0], ("MCP-Protocol-Version".to_owned(), "2026-07-28".to_owned()));
    /// assert_eq!(headers[1], ("Mcp-Method".to_owned(), "tools/call".to_owned()));
    /// assert_eq!(headers[2], ("Mcp-Name".to_owned(), "=?base64?YcOxYWRpcg==?=".to_owned()));
    /// ```
    #[must_use]
    pub fn headers(
        &self,
        method: &str,
        target: Option<&str>,
        mirrored: Option<&HeaderParams>,
    ) -> Vec<(String, String)> {
        let mut headers = Vec::new();
        let mut put = |name: String, value: &str| {
            headers.push((name, encode_header(value).into_owned()));
        };
        // The handshake negotiates the version, so `initialize` carries none.
        if self.revision.has(Feature::VersionHeader) && method != "initialize" {
            put(VERSION.to_owned(), self.revision.as_str());
        }
        if !self.revision.has(Feature::RoutingHeaders) {
            return headers;
        }
        put(METHOD.to_owned(), method);
        let names = match RequestKind::named(method) {
            Some((RequestKind::Call(method), _)) => method.info().mirrored.is_some(),
            _ => false,
        };
        if let Some(target) = target.filter(|_| names) {
            put(NAME.to_owned(), target);
        }
        for (name, value) in mirrored.into_iter().flat_map(HeaderParams::iter) {
            if let Some(value) = value.filter(|_| is_token(name)) {
                put(format!("Mcp-Param-{name}"), value);
            }
        }
        headers
    }
}

/// Returns whether HTTP allows `name` as part of a header name.
fn is_token(name: &str) -> bool {
    let fits = |byte: u8| byte.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&byte);
    !name.is_empty() && name.bytes().all(fits)
}
