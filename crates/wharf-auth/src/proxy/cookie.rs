//! Cookies that bind a flow to one browser (CSRF protection).

use http::{HeaderMap, HeaderValue, header};

use crate::jose::{b64, random_token, sha256};
use crate::proxy::consent_page::ProxyResponse;

/// Length of a cookie's secret.
const SECRET_BYTES: usize = 32;

/// Cookie names and attributes for this scheme.
#[derive(Clone, Copy, Debug)]
pub(super) struct BrowserCookies {
    /// The proxy is served by https: cookies get the `__Host-` prefix.
    pub(super) secure: bool,
}

/// Secret of one browser.
pub(super) struct BrowserSecret(String);

impl BrowserSecret {
    pub(super) fn new() -> Self {
        BrowserSecret(random_token(SECRET_BYTES))
    }

    /// Digest that is stored instead of the secret.
    pub(super) fn digest(&self) -> String {
        b64(sha256(self.0.as_bytes()))
    }
}

impl BrowserCookies {
    fn name(self, kind: &str) -> String {
        match self.secure {
            true => format!("__Host-wharf-{kind}"),
            false => format!("wharf-{kind}"),
        }
    }

    /// Reads the secret in the cookie; none if there are several.
    pub(super) fn read(self, headers: &HeaderMap, kind: &str) -> Option<BrowserSecret> {
        let name = self.name(kind);
        let cookies = headers.get_all(header::COOKIE).iter().filter_map(|it| it.to_str().ok());
        let pairs = cookies.flat_map(|it| it.split(';')).filter_map(|it| it.trim().split_once('='));
        let mut values = pairs.filter(|(it, _)| *it == name).map(|(_, value)| value);
        let value = values.next().filter(|value| is_secret(value))?;
        values.next().is_none().then(|| BrowserSecret(value.to_owned()))
    }

    /// Sets the cookie for this many seconds.
    pub(super) fn write(
        self,
        kind: &str,
        secret: &BrowserSecret,
        seconds: u64,
    ) -> Option<HeaderValue> {
        self.set(kind, &secret.0, seconds)
    }

    /// Clears the cookie.
    pub(super) fn clear(self, kind: &str) -> Option<HeaderValue> {
        self.set(kind, "", 0)
    }

    fn set(self, kind: &str, value: &str, seconds: u64) -> Option<HeaderValue> {
        let secure = if self.secure { "; Secure" } else { "" };
        let name = self.name(kind);
        let text =
            format!("{name}={value}; Path=/; HttpOnly; SameSite=Lax; Max-Age={seconds}{secure}");
        HeaderValue::try_from(text).ok()
    }
}

fn is_secret(value: &str) -> bool {
    value.len() == (SECRET_BYTES * 4).div_ceil(3)
        && value.bytes().all(|byte| byte.is_ascii_alphanumeric() || b"-_".contains(&byte))
}

/// Adds a cookie to a response.
pub(super) fn set_cookie(answer: &mut ProxyResponse, cookie: Option<HeaderValue>) {
    if let Some(cookie) = cookie {
        answer.headers_mut().append(header::SET_COOKIE, cookie);
    }
}
