//! HTML pages and JSON responses of the proxy.

use std::fmt::Write;

use bytes::Bytes;
use http::{HeaderValue, Response, StatusCode, header};
use url::Url;

use crate::{
    html_page,
    html_page::{FormTarget, NO_REFERRER, escape},
};

/// Response of any kind.
pub(super) type ProxyResponse = Response<Bytes>;

/// Content of the consent page.
pub(super) struct ConsentRequest<'a> {
    /// Target of the form.
    pub(super) action: &'a str,
    /// Encrypted ticket that the form submits.
    pub(super) ticket: &'a str,
    /// Name that the client claims.
    pub(super) client: &'a str,
    /// Host that publishes the client, if any.
    pub(super) publisher: Option<&'a str>,
    /// Host that receives the code.
    pub(super) target: &'a str,
    /// The redirect URI is on the user's own machine.
    pub(super) is_local: bool,
    /// The resource identifier.
    pub(super) resource: &'a str,
    /// Scopes for the client.
    pub(super) scopes: &'a [&'a str],
    /// Name of the identity provider.
    pub(super) provider: &'a str,
    /// Scopes of this server at the identity provider.
    pub(super) upstream_scopes: &'a [&'a str],
}

/// Asks the user to grant access to the client.
pub(super) fn consent(request: &ConsentRequest<'_>) -> ProxyResponse {
    let ConsentRequest { ticket, client, target, resource, provider, .. } = request;
    let mut text = format!(
        "<h1>Allow access?</h1><p>An application that calls itself <b>{}</b> wants to use \
         <b>{}</b> in your name.",
        sanitized(client, 80),
        sanitized(resource, 200),
    );
    let _ = match request.publisher {
        Some(host) => write!(text, " It is published by <b>{}</b>.</p>", sanitized(host, 200)),
        None => write!(text, " This name is not verified.</p>"),
    };
    let _ = write!(text, "<p class=to>Access goes to <b>{}</b></p>", sanitized(target, 200));
    if request.is_local {
        text.push_str(
            "<p class=warn>That is an application on your own computer. Continue only if you started it yourself, just now.</p>",
        );
    }
    list(&mut text, "It will be able to use:", request.scopes);
    let _ = write!(text, "<p>Next, you sign in with <b>{}</b>.</p>", sanitized(provider, 200));
    list(&mut text, "This server will be granted there:", request.upstream_scopes);
    let _ = write!(
        text,
        "<form method=post action=\"{}\"><input type=hidden name=ticket value=\"{}\">\
         <button name=decision value=allow>Allow</button>\
         <button name=decision value=deny>Cancel</button></form>",
        escape(request.action),
        escape(ticket),
    );
    // Without any referrer, browsers would not send the `Origin` of the form.
    html(StatusCode::OK, "Allow access?", "", &text, "same-origin")
}

/// Continues to another URL. A redirect would be blocked by `form-action` of the page that submitted the
/// form.
pub(super) fn forward_page(url: &Url, to: &str) -> ProxyResponse {
    let link = escape(url.as_str());
    let head = format!("<meta http-equiv=refresh content=\"0;url={link}\">");
    let text = format!("<p><a href=\"{link}\">Continue to {}</a></p>", sanitized(to, 200));
    html(StatusCode::OK, "One moment", &head, &text, NO_REFERRER)
}

/// Shows an error without a redirect; a link leads back, if that is safe.
pub(super) fn error_page(
    status: StatusCode,
    what: &str,
    back: Option<(&Url, &str)>,
) -> ProxyResponse {
    let mut text = format!("<h1>This did not work</h1><p>{}</p>", sanitized(what, 500));
    if let Some((url, to)) = back {
        let (link, to) = (escape(url.as_str()), sanitized(to, 200));
        let _ = write!(text, "<p><a href=\"{link}\">Return to <b>{to}</b></a></p>");
    }
    html(status, "This did not work", "", &text, NO_REFERRER)
}

/// Redirects the browser.
pub(super) fn redirect(url: &Url) -> ProxyResponse {
    let mut answer = plain(StatusCode::SEE_OTHER, Bytes::new(), "text/plain", NO_REFERRER);
    if let Ok(location) = HeaderValue::try_from(url.as_str()) {
        answer.headers_mut().insert(header::LOCATION, location);
    }
    answer
}

/// JSON response that must not be cached.
pub(super) fn json(status: StatusCode, value: &serde_json::Value) -> ProxyResponse {
    plain(status, value.to_string().into(), "application/json", NO_REFERRER)
}

/// OAuth error response.
pub(super) fn oauth_error(status: StatusCode, error: &str, description: &str) -> ProxyResponse {
    json(status, &serde_json::json!({ "error": error, "error_description": description }))
}

fn list(text: &mut String, title: &str, items: &[&str]) {
    if items.is_empty() {
        return;
    }
    let _ = write!(text, "<p>{title}</p><ul>");
    for item in items {
        let _ = write!(text, "<li>{}</li>", sanitized(item, 120));
    }
    text.push_str("</ul>");
}

fn html(
    status: StatusCode,
    title: &str,
    head: &str,
    body: &str,
    referrer: &'static str,
) -> ProxyResponse {
    plain(status, html_page::page(title, head, body).into(), html_page::MEDIA_TYPE, referrer)
}

fn plain(
    status: StatusCode,
    body: Bytes,
    kind: &'static str,
    referrer: &'static str,
) -> ProxyResponse {
    let mut answer = Response::new(body);
    *answer.status_mut() = status;
    html_page::set_headers(answer.headers_mut(), kind, referrer, FormTarget::Own);
    answer
}

/// Text of a remote party for display: escaped for HTML, shortened, without invisible characters.
fn sanitized(text: &str, most: usize) -> String {
    let mut clean: String = text.chars().filter(|it| !is_invisible(*it)).take(most).collect();
    if clean.len() < text.len() && clean.chars().count() == most {
        clean.push('…');
    }
    escape(clean.trim())
}

/// Returns true for invisible characters and those that change the text direction.
fn is_invisible(it: char) -> bool {
    it.is_control()
        || matches!(it, '\u{ad}' | '\u{61c}' | '\u{180e}' | '\u{200b}'..='\u{200f}' |
            '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}' |
            '\u{e0000}'..='\u{e007f}')
}
