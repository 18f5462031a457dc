//! HTML page that the browser shows after the redirect. It contains nothing from the request.

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{
        ALLOW, CACHE_CONTROL, CONNECTION, CONTENT_SECURITY_POLICY, CONTENT_TYPE, REFERRER_POLICY,
        X_CONTENT_TYPE_OPTIONS, X_FRAME_OPTIONS,
    },
};
use http_body_util::Full;

const STYLE: &str = "body{font:17px/1.5 system-ui,sans-serif;color:#1d2530;background:#f4f6f8;\
margin:0;display:grid;min-height:100vh;place-items:center}main{background:#fff;padding:2.5rem 3rem;\
border-radius:12px;box-shadow:0 1px 4px #0002;max-width:28rem}h1{font-size:1.35rem;margin:0 0 .5rem}\
p{margin:0}@media(prefers-color-scheme:dark){body{color:#e6eaf0;background:#14181d}\
main{background:#1e242b}}";

/// Pages by result.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ResultPage {
    /// The redirect contained a code.
    Done,
    /// The redirect contained an error.
    Refused,
    /// The request does not belong to this login.
    Unexpected,
    /// Unknown path.
    NotFound,
    /// Only GET is allowed.
    MethodNotAllowed,
}

impl ResultPage {
    fn content(self) -> (StatusCode, &'static str, &'static str) {
        match self {
            ResultPage::Done => (
                StatusCode::OK,
                "Back to the terminal",
                "The response has arrived. You can close this window and return to the terminal.",
            ),
            ResultPage::Refused => (
                StatusCode::OK,
                "Not authorized",
                "Access was not granted. You can close this window; the terminal shows the reason.",
            ),
            ResultPage::Unexpected => (
                StatusCode::BAD_REQUEST,
                "Unexpected request",
                "This page belongs to another login, or was opened twice. You can close this window.",
            ),
            ResultPage::NotFound => {
                (StatusCode::NOT_FOUND, "Not found", "You can close this window.")
            }
            ResultPage::MethodNotAllowed => {
                (StatusCode::METHOD_NOT_ALLOWED, "Not found", "You can close this window.")
            }
        }
    }

    pub(super) fn response(self) -> Response<Full<Bytes>> {
        let (status, title, text) = self.content();
        let html = format!(
            "<!doctype html><html lang=\"en\"><meta charset=\"utf-8\"><title>{title}</title>\
             <meta name=\"viewport\" content=\"width=device-width\"><style>{STYLE}</style>\
             <main><h1>{title}</h1><p>{text}</p></main></html>\n"
        );
        let mut response = Response::new(Full::new(Bytes::from(html)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        for (name, value) in [
            (CONTENT_TYPE, "text/html; charset=utf-8"),
            (
                CONTENT_SECURITY_POLICY,
                "default-src 'none'; style-src 'unsafe-inline'; base-uri 'none'; \
                 form-action 'none'; frame-ancestors 'none'",
            ),
            (X_FRAME_OPTIONS, "DENY"),
            (X_CONTENT_TYPE_OPTIONS, "nosniff"),
            (REFERRER_POLICY, "no-referrer"),
            (CACHE_CONTROL, "no-store"),
            (CONNECTION, "close"),
        ] {
            headers.insert(name, HeaderValue::from_static(value));
        }
        if self == ResultPage::MethodNotAllowed {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}
