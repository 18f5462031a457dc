//! Normalization of the resource URL, which is the key of a login.

use url::Url;
use wharf_connect::Origin;
use wharf_model::{Error, ErrorKind, excerpt};

/// Normalizes a server's URL as the key of logins: without user, password, query and fragment, and with the
/// HTTP scheme instead of the WebSocket one.
///
/// ```
/// use wharf_auth::client::server_key;
///
/// assert_eq!(server_key("WSS://Mcp.example:443/mcp?x=1")?, "https://mcp.example/mcp");
/// # Ok::<(), wharf_model::Error>(())
/// ```
///
/// # Errors
/// If the URL's scheme is not `http`, `https`, `ws` or `wss`, or it is unencrypted and not loopback: tokens
/// could be intercepted.
pub fn server_key(url: &str) -> Result<String, Error> {
    server_url(url).map(|url| url.to_string())
}

pub(super) fn server_url(text: &str) -> Result<Url, Error> {
    let shown = text.split(['?', '#']).next().unwrap_or_default();
    let shown = shown.rsplit_once('@').map_or(shown, |(_, rest)| rest).to_owned();
    let bad = |why: &str| {
        let problem = format!("cannot authorize at {:?}: {why}", excerpt(&shown));
        Error::new(ErrorKind::InvalidParams).with_message(problem)
    };
    let text = text.trim();
    let lower = text.get(..6).unwrap_or(text).to_ascii_lowercase();
    let http = match lower.as_str() {
        it if it.starts_with("wss:") => format!("https{}", &text[3..]),
        it if it.starts_with("ws:") => format!("http{}", &text[2..]),
        _ => text.to_owned(),
    };
    let mut url = Url::parse(&http).map_err(|error| bad(&error.to_string()))?;
    if !matches!(url.scheme(), "http" | "https") || url.host_str().is_none_or(str::is_empty) {
        return Err(bad("authorization is for http:// and https://"));
    }
    if url.scheme() == "http" && !is_loopback(&url) {
        return Err(bad("tokens would be sent unencrypted; use https://"));
    }
    let _ = url.set_username("");
    let _ = url.set_password(None);
    url.set_query(None);
    url.set_fragment(None);
    Ok(url)
}

/// Returns true if a URL names loopback literally.
pub(super) fn is_loopback(url: &Url) -> bool {
    Origin::of(url).is_some_and(|origin| origin.is_loopback())
}
