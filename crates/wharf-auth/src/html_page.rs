//! Frame of the HTML pages that a browser shows: escaping, one style, and headers against injected content.

use std::{fmt::Write as _, sync::LazyLock};

use base64::prelude::{BASE64_STANDARD, Engine};
use http::{HeaderMap, HeaderName, HeaderValue, header};

use crate::jose::sha256;

const STYLE: &str = "body{font:16px/1.5 system-ui,sans-serif;max-width:34rem;margin:3rem auto;\
padding:0 1rem;color:#1a1a1a;background:#fff}h1{font-size:1.4rem}b{overflow-wrap:anywhere}\
.to{border:1px solid #999;border-radius:6px;padding:.6rem 1rem}.warn{color:#8a3b00}\
button{font:inherit;padding:.5rem 1.4rem;margin-right:.6rem}\
@media(prefers-color-scheme:dark){body{color:#e6eaf0;background:#14181d}a{color:#8ab4f8}\
.warn{color:#f0a070}}";

static STYLE_DIGEST: LazyLock<String> =
    LazyLock::new(|| BASE64_STANDARD.encode(sha256(STYLE.as_bytes())));

/// Target of the forms of a page.
#[derive(Clone, Copy)]
pub(crate) enum FormTarget {
    /// It has no forms.
    #[cfg(feature = "client")]
    Nowhere,
    /// They submit to the origin of the page.
    #[cfg(feature = "proxy")]
    Own,
}

/// Returns the Content Security Policy: this style only, no scripts and no frames.
fn policy(forms: FormTarget) -> String {
    let target = match forms {
        #[cfg(feature = "client")]
        FormTarget::Nowhere => "'none'",
        #[cfg(feature = "proxy")]
        FormTarget::Own => "'self'",
    };
    format!(
        "default-src 'none'; style-src 'sha256-{}'; form-action {target}; base-uri 'none'; \
         frame-ancestors 'none'",
        *STYLE_DIGEST
    )
}

/// Media type of a page.
pub(crate) const MEDIA_TYPE: &str = "text/html; charset=utf-8";

/// Value of `Referrer-Policy`.
pub(crate) const NO_REFERRER: &str = "no-referrer";

/// Returns a page. `title` is plain text; `head` and `body` are HTML.
pub(crate) fn page(title: &str, head: &str, body: &str) -> String {
    let mut page = String::with_capacity(STYLE.len() + body.len() + 256);
    let title = escape(title);
    let _ = write!(
        page,
        "<!doctype html><html lang=en><head><meta charset=utf-8>\
         <meta name=viewport content=\"width=device-width\">{head}<title>{title}</title>\
         <style>{STYLE}</style></head><body>{body}</body></html>"
    );
    page
}

/// Sets the headers of a response that a browser may show: never cached, framed or interpreted as another type.
pub(crate) fn set_headers(
    headers: &mut HeaderMap,
    media_type: &'static str,
    referrer: &'static str,
    forms: FormTarget,
) {
    let mut set = |name: HeaderName, value: &'static str| {
        headers.insert(name, HeaderValue::from_static(value));
    };
    set(header::CONTENT_TYPE, media_type);
    set(header::CACHE_CONTROL, "no-store");
    set(header::PRAGMA, "no-cache");
    set(header::X_FRAME_OPTIONS, "DENY");
    set(header::X_CONTENT_TYPE_OPTIONS, "nosniff");
    set(header::REFERRER_POLICY, referrer);
    if let Ok(policy) = HeaderValue::try_from(policy(forms)) {
        headers.insert(header::CONTENT_SECURITY_POLICY, policy);
    }
}

/// Escapes text for HTML, in elements and in quoted attributes.
pub(crate) fn escape(text: &str) -> String {
    let mut escaped = String::with_capacity(text.len());
    for it in text.chars() {
        match it {
            '&' => escaped.push_str("&amp;"),
            '<' => escaped.push_str("&lt;"),
            '>' => escaped.push_str("&gt;"),
            '"' => escaped.push_str("&quot;"),
            '\'' => escaped.push_str("&#39;"),
            other => escaped.push(other),
        }
    }
    escaped
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_title_cannot_add_markup_and_the_policy_covers_the_style() {
        let page = page("<script>'\"&", "", "<p>text</p>");
        assert!(page.contains("<title>&lt;script&gt;&#39;&quot;&amp;</title>"), "{page}");
        let style = page.split_once("<style>").and_then(|(_, rest)| rest.split_once("</style>"));
        let digest = BASE64_STANDARD.encode(sha256(style.unwrap_or_default().0.as_bytes()));
        assert_eq!(*STYLE_DIGEST, digest);
    }
}
