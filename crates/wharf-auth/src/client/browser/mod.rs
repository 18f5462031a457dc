//! Opens the authorization page in the user's browser, and receives the redirect on the loopback interface.

mod authorization_response;
mod loopback;
mod open;
mod page;

use std::{
    fmt,
    io::{self, Write as _},
    sync::Arc,
    time::Duration,
};

use tokio::time::timeout;
use url::Url;
use wharf_model::{BoxFuture, Error, ErrorKind};

use super::{AuthorizationRequest, RedirectParams, UserAgent, UserAgentSession};
use crate::client::browser::authorization_response::{ResponseMismatch, parse_response};

pub use crate::client::browser::authorization_response::AuthorizationResponse;
pub use loopback::Loopback;
pub use open::{OpenError, checked_url, open};

/// Default time limit of a login.
const LOGIN_TIMEOUT: Duration = Duration::from_mins(5);

/// Notice for the user.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum Notice<'a> {
    /// A browser was started with the page.
    Opened {
        /// The page.
        url: &'a str,
    },
    /// No browser was started: the user must open the page.
    OpenIt {
        /// The page.
        url: &'a str,
    },
    /// The started browser failed: the user must open the page of the previous notice.
    DidNotOpen,
    /// The pasted text is not a valid redirect; the string is the reason.
    NotThis(&'static str),
}

type NoticeHandler = Arc<dyn Fn(&AuthorizationRequest, Notice<'_>) + Send + Sync>;
type PasteHandler = Arc<dyn Fn() -> BoxFuture<Option<String>> + Send + Sync>;

/// User agent that opens the user's browser.
///
/// The redirect goes to a port of 127.0.0.1, which accepts only the redirect with the request's `state`. No
/// shell sees a URL, and only `http` and `https` are opened.
///
/// ```
/// use wharf_auth::client::browser::{Browser, Notice};
///
/// let browser = Browser::new(|to, notice| match notice {
///     Notice::Opened { .. } => eprintln!("Your browser interactive you to let us in: {}", to.issuer),
///     Notice::OpenIt { url } => eprintln!("Open this page: {url}"),
///     _ => {}
/// });
/// # let _ = browser;
/// ```
#[derive(Clone)]
pub struct Browser {
    notify: NoticeHandler,
    paste: Option<PasteHandler>,
    opens_browser: bool,
    port: Option<u16>,
    timeout: Duration,
}

impl Browser {
    /// Creates a user agent that passes notices to `notify`.
    pub fn new(notify: impl Fn(&AuthorizationRequest, Notice<'_>) + Send + Sync + 'static) -> Self {
        Browser {
            notify: Arc::new(notify),
            paste: None,
            opens_browser: true,
            port: None,
            timeout: LOGIN_TIMEOUT,
        }
    }

    /// Creates a user agent that writes notices to stderr.
    #[must_use]
    pub fn on_stderr() -> Self {
        Browser::new(|to, notice| {
            // Escaped, because remote text must not control the terminal.
            let issuer = to.issuer.escape_debug();
            let text = match notice {
                Notice::Opened { url } => {
                    format!(
                        "The login page of {issuer} was opened in your browser. If it was not, open\n  {url}"
                    )
                }
                Notice::OpenIt { url } => {
                    format!("To log in, open this page of {issuer}:\n  {url}")
                }
                Notice::DidNotOpen => {
                    "No browser could be started: open that page yourself.".to_owned()
                }
                Notice::NotThis(why) => format!("This is not the expected address: {why}."),
            };
            let _ = writeln!(io::stderr(), "{text}");
        })
    }

    /// Opens no browser; the user gets the URL only.
    #[must_use]
    pub fn by_hand(mut self) -> Self {
        self.opens_browser = false;
        self
    }

    /// Listens on this port, for authorization servers that require a fixed redirect URI. By default, the
    /// system selects one.
    #[must_use]
    pub fn port(mut self, port: u16) -> Self {
        self.port = Some(port);
        self
    }

    /// Prompts for the redirected URL if no browser could be started: a browser on another machine cannot
    /// reach this one. `None` ends the prompts.
    #[must_use]
    pub fn paste<F, A>(mut self, ask: F) -> Self
    where
        F: Fn() -> A + Send + Sync + 'static,
        A: Future<Output = Option<String>> + Send + 'static,
    {
        self.paste = Some(Arc::new(move || Box::pin(ask())));
        self
    }

    /// Sets the time limit of a login: 5 minutes by default.
    #[must_use]
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.timeout = timeout;
        self
    }

    async fn listen(&self, last: Option<&str>) -> Result<Loopback, Error> {
        if let Some(port) = self.port {
            return Loopback::bind(port).await;
        }
        // The authorization server may have registered the last redirect URI, and compare it exactly.
        if let Some(port) = last.and_then(port_of)
            && let Ok(loopback) = Loopback::bind(port).await
            && last == Some(loopback.redirect_uri().as_str())
        {
            return Ok(loopback);
        }
        Loopback::bind(0).await
    }

    async fn start(&self, url: &str) -> Option<open::BrowserProcess> {
        if !self.opens_browser {
            return None;
        }
        let url = url.to_owned();
        tokio::task::spawn_blocking(move || open::start(&url).ok()).await.ok().flatten()
    }

    /// Opens the page and notifies the user. Reads a pasted URL if no browser opens.
    async fn send(&self, url: &str, to: &AuthorizationRequest) -> RedirectParams {
        match self.start(url).await {
            Some(started) => {
                (self.notify)(to, Notice::Opened { url });
                let check_running = tokio::task::spawn_blocking(move || started.check_running());
                if check_running.await.unwrap_or(false) {
                    return std::future::pending().await;
                }
                (self.notify)(to, Notice::DidNotOpen);
            }
            None => (self.notify)(to, Notice::OpenIt { url }),
        }
        while let Some(paste) = &self.paste {
            let Some(pasted) = paste().await else { break };
            match parse_response(query_of(&pasted), &to.state) {
                Ok(answer) => return RedirectParams::from_query(&answer.query),
                Err(why) => (self.notify)(to, Notice::NotThis(mismatch_reason(why))),
            }
        }
        std::future::pending().await
    }
}

/// Port of a loopback redirect URI.
fn port_of(redirect_uri: &str) -> Option<u16> {
    let url = Url::parse(redirect_uri).ok()?;
    url.port().filter(|_| url.host_str() == Some("127.0.0.1"))
}

/// Query of a pasted URL, or the text itself if only the query was copied.
fn query_of(pasted: &str) -> &str {
    let text = pasted.trim();
    let text = text.split('#').next().unwrap_or_default();
    text.split_once('?').map_or(text, |(_, query)| query)
}

fn mismatch_reason(why: ResponseMismatch) -> &'static str {
    match why {
        ResponseMismatch::Malformed => "it has neither a code nor an error in it",
        ResponseMismatch::StateMismatch => "it belongs to another login",
    }
}

impl fmt::Debug for Browser {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Browser")
            .field("starts", &self.opens_browser)
            .field("port", &self.port)
            .field("timeout", &self.timeout)
            .finish_non_exhaustive()
    }
}

impl UserAgent for Browser {
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let (browser, last) = (self.clone(), last.map(str::to_owned));
        Box::pin(async move {
            let loopback = browser.listen(last.as_deref()).await?;
            let redirect_uri = loopback.redirect_uri();
            let session = BrowserSession { browser, loopback, redirect_uri };
            Ok(Box::new(session) as Box<dyn UserAgentSession>)
        })
    }
}

struct BrowserSession {
    browser: Browser,
    loopback: Loopback,
    redirect_uri: String,
}

impl UserAgentSession for BrowserSession {
    fn redirect_uri(&self) -> &str {
        &self.redirect_uri
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            let BrowserSession { browser, loopback, .. } = *self;
            let failed =
                |why: String| Error::new(ErrorKind::AuthenticationFailed).with_message(why);
            let url = checked_url(to.url.as_str()).map_err(|why| {
                failed(format!("cannot open the login page of {}: {why}", to.issuer))
            })?;
            let both = async {
                tokio::select! {
                    answer = loopback.wait_for_response(&to.state) => RedirectParams::from_query(&answer.query),
                    callback = browser.send(&url, &to) => callback,
                }
            };
            timeout(browser.timeout, both).await.map_err(|_| {
                let time = browser.timeout.as_secs();
                let time = if time >= 120 { format!("{} minutes", time / 60) } else { format!("{time} s") };
                failed(format!(
                    "the login at {} was not finished within {time}: try again, and finish it in the browser",
                    to.issuer
                ))
            })
        })
    }
}

#[cfg(test)]
mod tests;
