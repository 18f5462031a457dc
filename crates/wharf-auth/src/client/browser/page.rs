//! HTML page that the browser shows after the redirect. It contains nothing from the request.

use bytes::Bytes;
use http::{
    HeaderValue, Response, StatusCode,
    header::{ALLOW, CONNECTION},
};
use http_body_util::Full;

use crate::{html_page, html_page::FormTarget};

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
        let html = html_page::page(title, "", &format!("<h1>{title}</h1><p>{text}</p>"));
        let mut response = Response::new(Full::new(Bytes::from(html)));
        *response.status_mut() = status;
        let headers = response.headers_mut();
        let (media_type, referrer) = (html_page::MEDIA_TYPE, html_page::NO_REFERRER);
        html_page::set_headers(headers, media_type, referrer, FormTarget::Nowhere);
        headers.insert(CONNECTION, HeaderValue::from_static("close"));
        if self == ResultPage::MethodNotAllowed {
            headers.insert(ALLOW, HeaderValue::from_static("GET"));
        }
        response
    }
}
