//! Browser login of the user at the terminal: decides whether to start one, and reports its steps.

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use serde_json::json;
use wharf::{
    Error, ErrorKind,
    auth::client::{
        Auth, AuthorizationRequest, UserAgent, UserAgentSession,
        browser::{Browser, Notice},
    },
    model::BoxFuture,
};

use crate::{
    context::Context,
    server_requests::TerminalPrompts,
    terminal::{StderrOutput, clean_line, clean_url, is_interactive},
};

/// Prompt for a user whose browser runs on another machine.
const PASTE: &str = "Or paste the address that your browser ends at > ";

/// User at the terminal.
pub(crate) struct TerminalUser {
    browser: Browser,
    consent: LoginConsent,
}

/// Consent of the user to a login.
pub(crate) enum LoginConsent {
    /// Given on the command line.
    Given,
    /// Requested at the terminal.
    Asked {
        questions: TerminalPrompts,
        /// The user's name for the server.
        server: String,
        /// Set if the user is already logged in to the server.
        again: Arc<AtomicBool>,
    },
}

impl TerminalUser {
    pub(crate) fn new(browser: Browser, consent: LoginConsent) -> Self {
        TerminalUser { browser, consent }
    }
}

impl UserAgent for TerminalUser {
    fn prepare(&self, last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let (questions, server, again) = match &self.consent {
            LoginConsent::Given => return self.browser.prepare(last),
            LoginConsent::Asked { questions, server, again } => (questions, server, again.clone()),
        };
        let what = match again.load(Ordering::Acquire) {
            true => "requires more scopes than your login has",
            false => "requires a login",
        };
        let question = format!("{} {what}. Log in with a browser?", clean_line(server));
        let (questions, browser) = (questions.clone(), self.browser.clone());
        let last = last.map(str::to_owned);
        Box::pin(async move {
            if !matches!(questions.agree(question).await, Ok(true)) {
                return Err(Error::new(ErrorKind::Unauthenticated)
                    .with_message("The server requires a login, and you declined it"));
            }
            again.store(true, Ordering::Release);
            browser.prepare(last.as_deref()).await
        })
    }
}

/// Authorization for the server that the user calls `name`, by a login in a browser. A login that a call needs starts
/// only at a terminal, where the user is asked first.
pub(crate) fn browser_login(context: &Context, name: &str, again: bool) -> Auth {
    // With JSON output or a pipe, the user did not agree to a browser.
    let asks = is_interactive() && context.out.is_terminal() && !context.out.is_json();
    let browser = browser(&context.screen);
    if !asks {
        return Auth::code(browser).unattended();
    }
    let (questions, server) = (context.questions.clone(), name.to_owned());
    let browser = with_paste(browser, &questions, false);
    let again = Arc::new(AtomicBool::new(again));
    Auth::code(TerminalUser::new(browser, LoginConsent::Asked { questions, server, again }))
}

/// Browser that reports its steps on `screen`.
pub(crate) fn browser(screen: &Arc<StderrOutput>) -> Browser {
    let screen = screen.clone();
    Browser::new(move |to, notice| print_notice(&screen, to, &notice))
}

/// The same browser, plus a prompt to paste the redirect address of a browser on another machine.
/// `last` is set if no other prompt follows.
pub(crate) fn with_paste(browser: Browser, questions: &TerminalPrompts, last: bool) -> Browser {
    let questions = questions.clone();
    browser.paste(move || {
        let questions = questions.clone();
        async move { questions.line(PASTE, last).await }
    })
}

fn print_notice(screen: &StderrOutput, to: &AuthorizationRequest, notice: &Notice<'_>) {
    let (url, opened) = match notice {
        Notice::Opened { url } => (url, true),
        Notice::OpenIt { url } => (url, false),
        Notice::DidNotOpen => {
            return screen.line("The browser did not start: open that page yourself.");
        }
        Notice::NotThis(why) => return screen.line(&format!("That address is not usable: {why}.")),
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
            format!("Log in on the page of {issuer} in your browser. If it did not open, visit")
        }
        false => format!("To log in, open this page of {issuer}:"),
    });
    screen.line(&format!("  {}", paint.cyan(&clean_url(url))));
    let scopes = to.url.query_pairs().find(|(name, _)| name == "scope").map(|(_, scopes)| scopes);
    if let Some(scopes) = scopes {
        screen.line(&format!("Requested scopes: {}", clean_line(&scopes)));
    }
    if opened {
        screen.line(&paint.dim("Waiting for the login; Ctrl-C cancels it."));
    }
}
