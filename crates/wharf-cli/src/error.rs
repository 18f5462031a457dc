//! Failures of a command, and their output.

use std::{borrow::Cow, fmt, io};

use serde_json::{Map, Value};
use wharf::{
    Error, ErrorKind,
    auth::client::Challenge,
    client::{CallError, ConnectError, config::masked_url},
    skills::{SkillError, SkillRefused},
};

use crate::{
    exit_status::{ExitStatus, UNKNOWN_NAME_EXIT, connect_exit, exit},
    terminal::{Paint, StderrOutput, clean, clean_json},
};

/// Marker in the error for a login that leads to a private network.
const PRIVATE: &str = "it leads to a private network";

/// Failure with a hint.
#[derive(Debug)]
pub(crate) struct CliError {
    pub(crate) exit: ExitStatus,
    kind: &'static str,
    message: Cow<'static, str>,
    hint: Option<String>,
    code: Option<i32>,
    /// Set if kind and code are shown at a terminal, too.
    shows_code: bool,
    data: Option<Box<Value>>,
}

impl CliError {
    fn new(exit: ExitStatus, kind: &'static str, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        CliError { exit, kind, message, hint: None, code: None, shows_code: false, data: None }
    }

    /// Error for an invalid command line.
    pub(crate) fn usage(message: impl Into<Cow<'static, str>>) -> Self {
        Self::new(ExitStatus::Usage, "usage", message)
    }

    /// Error for a project's configuration file that is not trusted.
    pub(crate) fn untrusted(message: String) -> Self {
        Self::new(ExitStatus::Usage, "untrusted_file", message)
    }

    /// Error for a server card that cannot be read, violates the specification, or differs from its server.
    pub(crate) fn card(message: String) -> Self {
        Self::new(ExitStatus::Tool, "server_card", message)
    }

    /// Error for a file that is checked and violates its format.
    pub(crate) fn invalid_file(message: String) -> Self {
        Self::new(ExitStatus::Usage, "invalid_file", message)
    }

    /// Shows the kind of the error and its JSON-RPC code at a terminal, too.
    pub(crate) fn with_code(self) -> Self {
        CliError { shows_code: true, ..self }
    }

    /// Error for a name that the server does not have.
    pub(crate) fn unknown(kind: ErrorKind, message: String) -> Self {
        Self::new(UNKNOWN_NAME_EXIT, kind.name(), message)
    }

    /// Error for a missing login.
    pub(crate) fn unauthorized(message: impl Into<Cow<'static, str>>) -> Self {
        let kind = ErrorKind::Unauthenticated;
        Self::new(exit(kind), kind.name(), message)
    }

    /// Adds a hint to log in to the server that the user calls `word`, if that helps.
    pub(crate) fn needs_login(self, word: &str) -> Self {
        // `word` may be a URL that contains a token; a name is not changed.
        let word = &masked_url(word);
        // The HTTP status line is replaced, because it does not help the user.
        let bare = self.message.contains(" answered with HTTP");
        let message =
            |fail: &CliError, said: String| if bare { said.into() } else { fail.message.clone() };
        let wanted = self.data.as_ref().and_then(|data| wanted_scopes(data));
        if let Some(scopes) = wanted.filter(|_| self.exit == ExitStatus::Authorization) {
            let hint =
                format!("`wharf auth login {word} --scope {scopes}` requests the missing scopes.");
            let message =
                message(&self, format!("{word} requires more scopes than your login has"));
            return CliError { kind: ErrorKind::InsufficientScope.name(), message, ..self }
                .hint(hint);
        }
        if self.kind != ErrorKind::Unauthenticated.name() {
            return self;
        }
        let message = message(&self, format!("{word} requires a login"));
        CliError { message, ..self }.hint(format!(
            "`wharf auth login {word}` logs you in; --header 'Authorization: Bearer @env:NAME' sends a \
             token of your own."
        ))
    }

    /// True if the server may not have the named item.
    pub(crate) fn is_unknown_name(&self) -> bool {
        use ErrorKind as K;
        let kinds = [K::ToolNotFound, K::PromptNotFound, K::InvalidParams, K::MethodNotFound];
        kinds.iter().any(|kind| kind.name() == self.kind)
    }

    /// Error for Ctrl-C (SIGINT).
    pub(crate) fn interrupted() -> Self {
        Self::new(ExitStatus::Interrupted, "interrupted", "Interrupted")
    }

    /// Error for a request to terminate (SIGTERM).
    pub(crate) fn terminated() -> Self {
        Self::new(ExitStatus::Terminated, "terminated", "Terminated")
    }

    /// Error of a connection attempt.
    pub(crate) fn connecting(error: ConnectError) -> Self {
        let (kind, sent) = match error {
            ConnectError::Refused(error) | ConnectError::Unauthorized(error) => {
                (error.kind, CliError::from(error))
            }
            error => (error.kind(), Self::of_kind(error.kind(), error.message().to_owned())),
        };
        CliError { exit: connect_exit(kind), ..sent }
    }

    /// Error with the exit code and the hint of this kind.
    pub(crate) fn of_kind(kind: ErrorKind, message: impl Into<Cow<'static, str>>) -> Self {
        let message = message.into();
        let advice = match kind {
            // Only the client creates these kinds; servers cannot send them.
            ErrorKind::TransportError | ErrorKind::AuthorizationFailed
                if message.contains(PRIVATE) =>
            {
                Some("--allow-private allows it; use it only for a server you trust.")
            }
            _ => advice(kind),
        };
        CliError::new(exit(kind), kind.name(), message).hint(advice.map(str::to_owned))
    }

    /// Error for a tool result with `isError`; its own message is in the result.
    pub(crate) fn tool(message: String) -> Self {
        let kind = ErrorKind::ToolExecutionFailed;
        Self::new(exit(kind), kind.name(), message)
    }

    /// Error of `wharf skills`.
    pub(crate) fn skills(exit: ExitStatus, kind: &'static str, message: String) -> Self {
        Self::new(exit, kind, message)
    }

    /// Error for a response that did not arrive in time.
    pub(crate) fn timed_out(message: &'static str) -> Self {
        let kind = ErrorKind::RequestTimeout;
        Self::new(exit(kind), kind.name(), message)
    }

    /// Sets the hint.
    pub(crate) fn hint(mut self, hint: impl Into<Option<String>>) -> Self {
        self.hint = hint.into().or(self.hint);
        self
    }

    /// Removes the hint that names `--timeout`.
    pub(crate) fn without_timeout_hint(self) -> Self {
        let is_timeout = self.kind == ErrorKind::RequestTimeout.name();
        CliError { hint: self.hint.filter(|_| !is_timeout), ..self }
    }

    /// Message and hint in one text.
    pub(crate) fn advice(&self) -> String {
        let hint = self.hint.as_deref().unwrap_or_default();
        format!("{} {hint}", self.message).trim_end().to_owned()
    }

    /// Writes the failure to stderr: as text at a terminal, else as one line of JSON.
    pub(crate) fn print(&self, json: bool, screen: &StderrOutput) {
        if self.exit == ExitStatus::StdoutClosed {
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
        if matches!(self.exit, ExitStatus::Interrupted | ExitStatus::Terminated) {
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

impl fmt::Display for CliError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.message)
    }
}

impl From<Error> for CliError {
    fn from(error: Error) -> Self {
        let Error { kind, message, data, code, .. } = error;
        CliError { code, data, ..CliError::of_kind(kind, message) }
    }
}

/// Error of a call. Only an error that was sent has a code and data.
impl From<CallError> for CliError {
    fn from(error: CallError) -> Self {
        match error {
            CallError::Refused(error) | CallError::Unauthorized(error) => error.into(),
            error => CliError::of_kind(error.kind(), error.message().to_owned()),
        }
    }
}

impl From<SkillRefused> for CliError {
    fn from(refused: SkillRefused) -> Self {
        Self::skills(ExitStatus::SkillRefused, refused.kind(), refused.to_string())
    }
}

impl From<SkillError> for CliError {
    fn from(error: SkillError) -> Self {
        match error {
            SkillError::Call(error) => error.into(),
            SkillError::Refused(refused) => refused.into(),
            error => Self::tool(error.to_string()),
        }
    }
}

/// I/O error of stdin, stdout or a file.
impl From<io::Error> for CliError {
    fn from(error: io::Error) -> Self {
        let exit = match error.kind() {
            io::ErrorKind::BrokenPipe => ExitStatus::StdoutClosed,
            _ => ExitStatus::Usage,
        };
        Self::new(exit, "io", error.to_string())
    }
}

/// Hint for this kind of error, independent of the server's message.
fn advice(kind: ErrorKind) -> Option<&'static str> {
    match kind {
        ErrorKind::Unauthenticated => {
            Some("Send a token: --header 'Authorization: Bearer @env:NAME' reads it from $NAME.")
        }
        ErrorKind::RequestTimeout => Some("--timeout SECONDS sets a longer timeout."),
        ErrorKind::UnsupportedProtocolVersion => {
            Some("Without --era, a version that both support is negotiated.")
        }
        ErrorKind::MissingClientCapability => Some(
            "The tool needs input from the client: run this at a terminal, or pass --root DIR.",
        ),
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
            assert_eq!(CliError::from(Error::new(kind)).exit as i32, code, "{kind}");
        }
        let connecting = |kind| CliError::connecting(ConnectError::Refused(Error::new(kind)));
        assert_eq!(connecting(ErrorKind::InvalidRequest).exit as i32, 4);
        assert_eq!(connecting(ErrorKind::Forbidden).exit as i32, 3);
        let timeout = connecting(ErrorKind::RequestTimeout);
        assert!(timeout.json().contains("--timeout"));
        assert!(!timeout.without_timeout_hint().json().contains("--timeout"));
        assert_eq!(
            (CliError::usage("x").exit as i32, CliError::interrupted().exit as i32),
            (1, 130)
        );
    }

    #[test]
    fn server_scopes_are_never_shell_code() {
        let refused = |scope: &str| {
            let challenge = format!("Bearer error=\"insufficient_scope\", scope=\"{scope}\"");
            let data = json!({"httpStatus": 403, "wwwAuthenticate": challenge});
            let error = Error::new(ErrorKind::Forbidden).with_data(data);
            CliError::from(error).needs_login("demo").json()
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
        let told = CliError::from(Error::new(ErrorKind::Forbidden)).needs_login("demo").json();
        assert!(!told.contains("wharf auth"), "{told}");
    }

    #[test]
    fn json_errors_are_one_line() {
        let error = Error::custom(42, "two\nlines").with_data(json!({"a": 1}));
        let line = CliError::from(error).hint("Try again.".to_owned()).json();
        assert!(!line.contains('\n'));
        let told: Value = serde_json::from_str(&line).unwrap();
        let expected = json!({"error": {"kind": "refused_custom", "message": "two\nlines",
            "hint": "Try again.", "code": 42, "data": {"a": 1}, "exit": 5}});
        assert_eq!(told, expected);
    }

    #[test]
    fn errors_show_kind_and_code() {
        let mut error = Error::new(ErrorKind::InvalidParams).with_message("no");
        error.code = Some(-32602);
        let fail = CliError::from(error);
        let start = r#"{"error":{"kind":"invalid_params","code":-32602,"message":"no""#;
        assert!(fail.json().starts_with(start), "{}", fail.json());
        assert_eq!(fail.text(Paint::PLAIN), "error: no");
        let text = fail.with_code().text(Paint::PLAIN);
        assert_eq!(text, "error: no (invalid_params, -32602)");
    }

    #[test]
    fn text_errors_have_no_escape_sequences() {
        let error = Error::new(ErrorKind::TransportError).with_message("no \x1b[31mroute");
        let text = CliError::from(error).hint("Try \x07again.".to_owned()).text(Paint::PLAIN);
        let expected = "error: no \\x1b[31mroute\nTry \\x07again.";
        assert_eq!(text, expected);
    }
}
