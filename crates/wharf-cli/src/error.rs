//! Failures of a command, and their output.

use std::{borrow::Cow, io};

use serde_json::{Map, Value};
use wharf::{Error, ErrorKind, auth::client::Challenge, client::config::masked_url};

use crate::terminal::{Paint, Screen, clean, clean_json};

/// Exit codes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Exit {
    /// Invalid command line, or invalid file named on it.
    Usage = 1,
    /// The server requires authorization or denies access.
    Authorization = 3,
    /// The server could not be reached.
    Unreachable = 4,
    /// The server returned an error.
    Tool = 5,
    /// Interrupted by Ctrl-C (SIGINT).
    Interrupted = 130,
    /// Terminated by the system or another program (SIGTERM).
    Terminated = 143,
    /// The reader closed stdout: the code that a shell reports for SIGPIPE.
    NobodyReads = 141,
}

/// Marker in the error for a login that leads to a private network.
const PRIVATE: &str = "it leads to a private network";

/// Failure with a hint.
#[derive(Debug)]
pub(crate) struct Fail {
    pub(crate) exit: Exit,
    kind: &'static str,
    message: Cow<'static, str>,
    hint: Option<String>,
    code: Option<i32>,
    /// Set if kind and code are shown at a terminal, too.
    shows_code: bool,
    data: Option<Box<Value>>,
}

impl Fail {
    fn new(exit: Exit, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        Fail { exit, kind, message, hint: None, code: None, shows_code: false, data: None }
    }

    /// Error for an invalid command line.
    pub(crate) fn usage(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Exit::Usage, "usage", message)
    }

    /// Error for a project's configuration file that is not trusted.
    pub(crate) fn untrusted(message: String) -> Self {
        Self::new(Exit::Usage, "untrusted_file", message)
    }

    /// Shows the kind of the error and its JSON-RPC code at a terminal, too.
    pub(crate) fn with_code(self) -> Self {
        Fail { shows_code: true, ..self }
    }

    /// Error for a name that the server does not have.
    pub(crate) fn unknown(kind: ErrorKind, message: String) -> Self {
        Self::new(Exit::Usage, kind.name(), message)
    }

    /// Error for a missing login.
    pub(crate) fn unauthorized(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(Exit::Authorization, ErrorKind::Unauthenticated.name(), message)
    }

    /// Adds a hint to log in to the server that the user calls `word`, if that helps.
    pub(crate) fn needs_login(self, word: &str) -> Self {
        // `word` may be a URL that contains a token; a name is not changed.
        let word = &masked_url(word);
        // The HTTP status line is replaced, because it does not help the user.
        let bare = self.message.contains(" answered with HTTP");
        let message =
            |fail: &Fail, said: String| if bare { said.into() } else { fail.message.clone() };
        let wanted = self.data.as_ref().and_then(|data| wanted_scopes(data));
        if let Some(scopes) = wanted.filter(|_| self.exit == Exit::Authorization) {
            let hint =
                format!("`wharf auth login {word} --scope {scopes}` asks for what it takes.");
            let message = message(&self, format!("{word} wants more than your login is good for"));
            return Fail { kind: ErrorKind::InsufficientScope.name(), message, ..self }.hint(hint);
        }
        if self.kind != ErrorKind::Unauthenticated.name() {
            return self;
        }
        let message = message(&self, format!("{word} wants you to log in"));
        Fail { message, ..self }.hint(format!(
            "`wharf auth login {word}` logs you in; --header 'Authorization: Bearer @env:NAME' sends a \
             token of your own."
        ))
    }

    /// True if the server may not have the named item.
    pub(crate) fn is_about_a_name(&self) -> bool {
        use ErrorKind as K;
        let kinds = [K::ToolNotFound, K::PromptNotFound, K::InvalidParams, K::MethodNotFound];
        kinds.iter().any(|kind| kind.name() == self.kind)
    }

    /// Error for Ctrl-C (SIGINT).
    pub(crate) fn interrupted() -> Self {
        Self::new(Exit::Interrupted, "interrupted", "Interrupted")
    }

    /// Error for a request to terminate (SIGTERM).
    pub(crate) fn terminated() -> Self {
        Self::new(Exit::Terminated, "terminated", "Terminated")
    }

    /// Error of a connection attempt.
    pub(crate) fn connecting(error: Error) -> Self {
        let exit = match exit(error.kind) {
            Exit::Authorization => Exit::Authorization,
            _ => Exit::Unreachable,
        };
        Fail { exit, ..Fail::from(error) }
    }

    /// Error that the tool itself returned; its own message is in the result.
    pub(crate) fn tool(message: String) -> Self {
        Self::new(Exit::Tool, ErrorKind::ToolExecutionFailed.name(), message)
    }

    /// Error for a response that did not arrive in time.
    pub(crate) fn unanswered(message: &'static str) -> Self {
        Self::new(Exit::Unreachable, ErrorKind::RequestTimeout.name(), message)
    }

    /// Sets the hint.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().or(self.hint);
        self
    }

    /// Removes the hint that names `--timeout`.
    pub(crate) fn without_timeout_hint(self) -> Self {
        let is_timeout = self.kind == ErrorKind::RequestTimeout.name();
        Fail { hint: self.hint.filter(|_| !is_timeout), ..self }
    }

    /// Writes the failure to stderr: as text at a terminal, else as one line of JSON.
    pub(crate) fn tell(&self, json: bool, screen: &Screen) {
        if self.exit == Exit::NobodyReads {
            return;
        }
        screen.line(&match (screen.is_terminal(), json) {
            (true, false) => self.text(screen.paint()),
            // The same JSON with terminal control characters escaped.
            (true, true) => clean_json(&self.json()).into_owned(),
            (false, _) => self.json(),
        });
    }

    /// Failure as one line of JSON.
    pub(crate) fn json(&self) -> String {
        let mut error = Map::new();
        error.insert("kind".into(), self.kind.into());
        if let Some(code) = self.code {
            error.insert("code".into(), code.into());
        }
        error.insert("message".into(), self.message.as_ref().into());
        if let Some(hint) = &self.hint {
            error.insert("hint".into(), hint.as_str().into());
        }
        if let Some(data) = &self.data {
            error.insert("data".into(), (**data).clone());
        }
        error.insert("exit".into(), (self.exit as i32).into());
        Value::from(Map::from_iter([("error".to_owned(), Value::from(error))])).to_string()
    }

    /// Failure as lines of text.
    pub(crate) fn text(&self, paint: Paint) -> String {
        if matches!(self.exit, Exit::Interrupted | Exit::Terminated) {
            return self.message.to_string();
        }
        let mut text = format!("{} {}", paint.red("error:"), clean(&self.message));
        if let (true, Some(code)) = (self.shows_code, self.code) {
            text = format!("{text} ({}, {code})", self.kind);
        }
        if let Some(hint) = &self.hint {
            text = format!("{text}\n{}", clean(hint));
        }
        text
    }
}

impl From<Error> for Fail {
    fn from(error: Error) -> Self {
        let Error { kind, message, data, code, .. } = error;
        let advice = match kind {
            // Only the client creates these kinds; servers cannot send them.
            ErrorKind::TransportError | ErrorKind::AuthorizationFailed
                if message.contains(PRIVATE) =>
            {
                Some("--allow-private allows it, if you know the server.")
            }
            _ => advice(kind),
        };
        let advice = advice.map(str::to_owned);
        Fail { code, data, ..Fail::new(exit(kind), kind.name(), message) }.hint(advice)
    }
}

/// I/O error of stdin, stdout or a file.
impl From<io::Error> for Fail {
    fn from(error: io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::BrokenPipe => Exit::NobodyReads,
            _ => Exit::Usage,
        };
        Self::new(exit, "io", error.to_string())
    }
}

fn exit(kind: ErrorKind) -> Exit {
    use ErrorKind as K;
    match kind {
        K::Unauthenticated
        | K::Forbidden
        | K::InsufficientScope
        | K::AuthenticationFailed
        | K::AuthorizationFailed
        | K::InvalidCredentials
        | K::TokenExpired
        | K::InvalidToken
        | K::InsufficientPermissions
        | K::AccessDenied
        | K::UnauthorizedOperation => Exit::Authorization,
        K::TransportError
        | K::ConnectionClosed
        | K::RequestTimeout
        | K::Overloaded
        | K::RateLimited
        | K::TemporarilyUnavailable
        | K::UnsupportedProtocolVersion => Exit::Unreachable,
        _ => Exit::Tool,
    }
}

/// Hint for this kind of error, independent of the server's message.
fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unauthenticated => {
            Some("Send a token: --header 'Authorization: Bearer @env:NAME' reads it from $NAME.")
        }
        ErrorKind::RequestTimeout => Some("--timeout SECONDS gives it longer."),
        ErrorKind::UnsupportedProtocolVersion => {
            Some("Without --era, one that both speak is found.")
        }
        ErrorKind::MissingClientCapability => {
            Some("The server wants to ask something: run this at a terminal, or give --root DIR.")
        }
        _ => None,
    }
}

/// Scopes that a rejection requires, as a command-line argument. Scopes that a shell could
/// interpret are replaced by a placeholder.
fn wanted_scopes(data: &Value) -> Option<String> {
    let challenges = Challenge::parse([data["wwwAuthenticate"].as_str()?]);
    let wants = |it: &&Challenge| it.get("error") == Some("insufficient_scope");
    let scopes = challenges.iter().find(wants)?.get("scope").unwrap_or_default();
    let plain = |c: char| c.is_ascii_alphanumeric() || ":._/-+@ ".contains(c);
    Some(match scopes {
        scopes if scopes.is_empty() || !scopes.chars().all(plain) => "SCOPE".to_owned(),
        scopes if scopes.contains(' ') => format!("'{scopes}'"),
        scopes => scopes.to_owned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn every_failure_has_the_exit_code_of_its_kind() {
        for (kind, code) in [
            (ErrorKind::Unauthenticated, 3),
            (ErrorKind::Forbidden, 3),
            (ErrorKind::InsufficientScope, 3),
            (ErrorKind::TransportError, 4),
            (ErrorKind::ConnectionClosed, 4),
            (ErrorKind::RequestTimeout, 4),
            (ErrorKind::InvalidParams, 5),
            (ErrorKind::ToolNotFound, 5),
        ] {
            assert_eq!(Fail::from(Error::new(kind)).exit as i32, code, "{kind}");
        }
        assert_eq!(Fail::connecting(Error::new(ErrorKind::InvalidRequest)).exit as i32, 4);
        assert_eq!(Fail::connecting(Error::new(ErrorKind::Forbidden)).exit as i32, 3);
        let timeout = Fail::connecting(Error::new(ErrorKind::RequestTimeout));
        assert!(timeout.json().contains("--timeout"));
        assert!(!timeout.without_timeout_hint().json().contains("--timeout"));
        assert_eq!((Fail::usage("x").exit as i32, Fail::interrupted().exit as i32), (1, 130));
    }

    #[test]
    fn what_a_server_wants_is_never_a_command() {
        let refused = |scope: &str| {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let data = json!({"httpStatus": 403, "wwwAuthenticate": challenge});
            let error = Error::new(ErrorKind::Forbidden).with_data(data);
            Fail::from(error).needs_login("demo").json()
        };
        assert!(refused("a:b").contains("`wharf auth login demo --scope a:b`"));
        assert!(refused("a b").contains("--scope 'a b'`"));
        for scope in ["$(id)", "a;id", "a`id`", "a'b", "", "a|b"] {
            let told = refused(scope);
            assert!(
                told.contains("--scope SCOPE`") && told.contains("insufficient_scope"),
                "{told}"
            );
        }
        let told = Fail::from(Error::new(ErrorKind::Forbidden)).needs_login("demo").json();
        assert!(!told.contains("wharf auth"), "{told}");
    }

    #[test]
    fn programs_get_one_line() {
        let error = Error::custom(42, "two\nlines").with_data(json!({"a": 1}));
        let line = Fail::from(error).hint("Try again.".to_owned()).json();
        assert!(!line.contains('\n'));
        let told: Value = serde_json::from_str(&line).unwrap();
        let expected = json!({"error": {"kind": "refused_custom", "message": "two\nlines",
            "hint": "Try again.", "code": 42, "data": {"a": 1}, "exit": 5}});
        assert_eq!(told, expected);
    }

    #[test]
    fn kind_and_code_stand_beside_each_other() {
        let mut error = Error::new(ErrorKind::InvalidParams).with_message("no");
        error.code = Some(-32602);
        let fail = Fail::from(error);
        let start = r#"{"error":{"kind":"invalid_params","code":-32602,"message":"no""#;
        assert!(fail.json().starts_with(start), "{}", fail.json());
        assert_eq!(fail.text(Paint::PLAIN), "error: no");
        let text = fail.with_code().text(Paint::PLAIN);
        assert_eq!(text, "error: no (invalid_params, -32602)");
    }

    #[test]
    fn people_get_words_and_no_escape_sequences() {
        let error = Error::new(ErrorKind::TransportError).with_message("no \x1b[31mroute");
        let text = Fail::from(error).hint("Try \x07again.".to_owned()).text(Paint::PLAIN);
        let expected = "error: no \\x1b[31mroute\nTry \\x07again.";
        assert_eq!(text, expected);
    }
}
