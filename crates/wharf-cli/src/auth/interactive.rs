//! Sends the user at the terminal to an authorization server.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::json;
use wharf::{
    Error, ErrorKind,
    auth::client::{
        AuthorizationRequest, UserAgent, UserAgentSession,
        browser::{Browser, Notice},
    },
    model::BoxFuture,
};

use crate::{
    server_requests::Questions,
    terminal::{Screen, clean_line, clean_url},
};

/// Prompt for a user whose browser runs on another machine.
const PASTE: &str = "Or paste here the address that your browser ends at > ";

/// User at the terminal.
pub(crate) struct Person {
    browser: Browser,
    consent: Consent,
}

/// Consent of the user to a login.
pub(crate) enum Consent {
    /// Given on the command line.
    Given,
    /// Requested at the terminal.
    Asked {
        questions: Questions,
        /// The user's name for the server.
        server: String,
        /// Set if the user is already logged in to the server.
        again: Arc<AtomicBool>,
    },
}

impl Person {
    pub(crate) fn new(browser: Browser, consent: Consent) -> Self {
        Person { browser, consent }
    }
}

impl UserAgent for Person {
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let (questions, server, again) = match &self.consent {
            Consent::Given => return self.browser.prepare(last),
            Consent::Asked { questions, server, again } => (questions, server, again.clone()),
        };
        let what = match again.load(Ordering::Acquire) {
            true => "wants more than your login there is good for",
            false => "wants to know who you are",
        };
        let question = format!("{} {what}. Log in with a browser?", clean_line(server));
        let (questions, browser) = (questions.clone(), self.browser.clone());
        let last = last.map(str::to_owned);
        Box::pin(async move {
            if !matches!(questions.agree(question).await, Ok(true)) {
                return Err(Error::new(ErrorKind::Unauthenticated)
                    .with_message("The server wants you to log in, and you did not"));
            }
            again.store(true, Ordering::Release);
            browser.prepare(last.as_deref()).await
        })
    }
}

/// Browser that reports its steps on `screen`.
pub(crate) fn browser(screen: &Arc<Screen>) -> Browser {
    let screen = screen.clone();
    Browser::new(move |to, notice| tell(&screen, to, &notice))
}

/// The same browser, plus a prompt to paste the redirect address of a browser on another machine.
/// `last` is set if no other prompt follows.
pub(crate) fn with_paste(browser: Browser, questions: &Questions, last: bool) -> Browser {
    let questions = questions.clone();
    browser.paste(move || {
        let questions = questions.clone();
        async move { questions.line(PASTE, last).await }
    })
}

fn tell(screen: &Screen, to: &AuthorizationRequest, notice: &Notice<'_>) {
    let (url, opened) = match notice {
        Notice::Opened { url } => (url, true),
        Notice::OpenIt { url } => (url, false),
        Notice::DidNotOpen => return screen.line("No browser came up: open that page yourself."),
        Notice::NotThis(why) => return screen.line(&format!("This is not it: {why}.")),
        _ => return,
    };
    if !screen.is_terminal() {
        let login = json!({"url": url, "issuer": to.issuer, "opened": opened});
        return screen.line(&json!({"login": login}).to_string());
    }
    let paint = screen.paint();
    let issuer = paint.bold(&clean_url(&to.issuer));
    screen.line(&match opened {
        true => {
            format!("Your browser shows a page of {issuer}: log in there. If it does not, open")
        }
        false => format!("To log in, open this page of {issuer}:"),
    });
    screen.line(&format!("  {}", paint.cyan(&clean_url(url))));
    let scopes = to.url.query_pairs().find(|(name, _)| name == "scope").map(|(_, scopes)| scopes);
    if let Some(scopes) = scopes {
        screen.line(&format!("You will be asked for: {}", clean_line(&scopes)));
    }
    if opened {
        screen.line(&paint.dim("Waiting until you are back; Ctrl-C gives up."));
    }
}
