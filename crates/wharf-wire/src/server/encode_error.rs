//! Encodes errors, and decodes those of peers.

use std::borrow::Cow;

use serde_json::{Value, json};
use wharf_model::{
    ClientCapability, ClientRequest, Completion, Error, ErrorKind, InputRequired, Meta, Method,
    Reply, TASKS_EXTENSION, ToolResult,
};

use crate::{
    Codec, ErrorProfile, Revision,
    json::{envelope, scanner, writer, writer::ObjectWriter},
    server::{client_requests, codec::CodecRole},
    versions::{error_codes, revision::Feature},
};

impl Codec {
    /// Writes an error as the reply to the call; returns the HTTP status.
    pub fn refuse(&self, error: &Error, out: &mut Vec<u8>) -> u16 {
        if self.is_silent() {
            return 200;
        }
        if let CodecRole::Initialize(pending) = &self.role {
            pending.fail();
        }
        write_error(out, self.wire.profile, Some(self.id_json()), error, self.revision);
        error_codes::status(reported_kind(error.kind), self.revision)
    }

    pub(crate) fn fail(&self, error: &Error, out: &mut Vec<u8>) -> u16 {
        let kind = error.kind;
        if kind == ErrorKind::UrlElicitationRequired {
            return self.fail_for_url(error, out);
        }
        if error_codes::is_tool_result(kind, self.method, self.revision) {
            return self.complete(&Reply::Tool(ToolResult::error(&*error.message)), out);
        }
        let uncapable = kind.is_capability_not_supported() || kind.is_method_not_found();
        if uncapable
            && self.method == Method::Complete
            && !self.revision.has(Feature::CompletionCapability)
        {
            return self.complete(&Reply::Completion(Completion::default()), out);
        }
        if kind.is_internal_error() && self.method == Method::ReadResource && error.data.is_none() {
            let uri = self.target.of(&self.body).and_then(|json| serde_json::from_str(json).ok());
            let uri: Value = uri.unwrap_or_default();
            return self.refuse(&error.clone().with_data(json!({"uri": uri})), out);
        }
        self.refuse(error, out)
    }

    /// Writes a required URL elicitation in the form of the call's era.
    fn fail_for_url(&self, error: &Error, out: &mut Vec<u8>) -> u16 {
        let requests = client_requests::elicitation_urls(error);
        if self.may_suspend() && !requests.is_empty() {
            return self.input_required(&InputRequired { requests, state: None }, out);
        }
        if self.revision.has(Feature::ElicitationIds) && !requests.is_empty() {
            let mut error = error.clone();
            if let Some(data) = &mut error.data {
                data["elicitations"] = self.url_params(&requests);
            }
            return self.refuse(&error, out);
        }
        if matches!(self.method, Method::CallTool | Method::TaskResult) {
            let text = client_requests::urls_as_text(error, &requests);
            return self.complete(&Reply::Tool(ToolResult::error(text)), out);
        }
        match requests.is_empty() {
            // The error code implies a list of URLs.
            true => {
                let broken = Error::new(ErrorKind::InternalError);
                self.refuse(&broken.with_message(error.message.clone()), out)
            }
            false => self.refuse(error, out),
        }
    }

    /// Returns the parameters with mode and id, which the specification requires.
    fn url_params(&self, requests: &[(String, ClientRequest)]) -> Value {
        requests
            .iter()
            .zip(1..)
            .filter_map(|((_, request), number)| client_requests::params(request, self, number))
            .collect()
    }
}

/// Returns the kind that is reported. A client that reads a reply has not cancelled, so a handler's own
/// cancellation is an internal error.
fn reported_kind(kind: ErrorKind) -> ErrorKind {
    match kind {
        ErrorKind::RequestCancelled => ErrorKind::InternalError,
        kind => kind,
    }
}

/// Writes an error response. An unknown id is omitted: the protocol does not allow `null`.
pub(crate) fn write_error(
    out: &mut Vec<u8>,
    profile: ErrorProfile,
    id: Option<&str>,
    error: &Error,
    revision: Revision,
) {
    let mut message = ObjectWriter::open(out);
    message.plain("jsonrpc", "\"2.0\"");
    if let Some(id) = id {
        message.plain("id", id);
    }
    write_fields(message.object("error"), profile, error, revision);
    message.close();
}

/// Writes the fields of an error.
pub(crate) fn write_fields(
    mut body: ObjectWriter<'_>,
    profile: ErrorProfile,
    error: &Error,
    revision: Revision,
) {
    writer::integer(body.key("code"), error_code(profile, error, revision));
    body.text("message", &error.message);
    write_data(&mut body, error, revision);
    body.close();
}

/// Returns the code of an error response.
pub(crate) fn error_code(profile: ErrorProfile, error: &Error, revision: Revision) -> i32 {
    let kind = reported_kind(error.kind);
    let registry = match profile {
        ErrorProfile::Registry if !revision.is_modern() => kind.registry_code(),
        _ => None,
    };
    own_code(error, revision).or(registry).unwrap_or_else(|| error_codes::code(kind, revision))
}

/// Returns the code that the server's author set, unless JSON-RPC reserves it or the kind has it already.
fn own_code(error: &Error, revision: Revision) -> Option<i32> {
    let is_own = |code: &i32| {
        !(-32768..=-32000).contains(code) && *code != error_codes::code(error.kind, revision)
    };
    error.code.filter(is_own)
}

const REQUIRED_CAPABILITIES: &str = "requiredCapabilities";
const RETRY_AFTER: &str = "retryAfterMs";
/// Default for `retryAfterMs`.
const DEFAULT_RETRY_MS: u64 = 1000;

/// Returns whether an error of `kind` carries `retryAfterMs`.
fn is_busy(kind: ErrorKind) -> bool {
    use ErrorKind::{Overloaded, RateLimited, TemporarilyUnavailable};
    matches!(kind, RateLimited | Overloaded | TemporarilyUnavailable)
}

fn write_data(body: &mut ObjectWriter<'_>, error: &Error, revision: Revision) {
    let fields = match error.data.as_deref() {
        // Errors with a custom code get no `reason`.
        None if own_code(error, revision).is_some() => return,
        None => &Meta::new(),
        Some(Value::Object(fields)) => fields,
        Some(other) => return body.json("data", other),
    };
    let mut data = body.object("data");
    if own_code(error, revision).is_none() && !fields.contains_key("reason") {
        data.text("reason", error.kind.name());
    }
    if is_busy(error.kind) && !fields.contains_key(RETRY_AFTER) {
        writer::integer(data.key(RETRY_AFTER), DEFAULT_RETRY_MS);
    }
    let code = |kind| error_codes::code(kind, revision);
    if error.kind.is_task_required()
        && code(error.kind) == code(ErrorKind::MissingClientCapability)
        && !fields.contains_key(REQUIRED_CAPABILITIES)
    {
        // The error code implies the missing capabilities.
        data.json(
            REQUIRED_CAPABILITIES,
            &ClientCapability::Extension(TASKS_EXTENSION.into()).required(),
        );
    }
    for (key, value) in fields {
        writer::json(data.any_key(key), value);
    }
    data.close();
}

/// Maximum size of error data that is parsed into a tree.
const MAX_ERROR_DATA_BYTES: usize = 64 * 1024;

/// Reads the error of a peer as far as possible.
pub(crate) fn read_error(json: &str, revision: Revision) -> Error {
    let (mut code, mut message, mut data) = (None, None, None);
    let read = |key: &str, value: &str| match envelope::unquote(key).as_deref() {
        Some("code") => code = parse_integer(value),
        Some("message") => message = envelope::unquote(value).map(Cow::into_owned),
        Some("data") if value.len() <= MAX_ERROR_DATA_BYTES => {
            data = serde_json::from_str(value).ok()
        }
        _ => {}
    };
    let _ = scanner::each_member(json, read);
    let message = message.unwrap_or_else(|| "the peer gave no reason".to_owned());
    let kind = read_kind(code.unwrap_or(-32603), data.as_deref(), revision);
    let mut error = Error::new(kind).with_message(message);
    (error.data, error.code) = (data, code);
    error
}

/// Parses an integer, also if written with the fraction `.0`.
fn parse_integer(json: &str) -> Option<i32> {
    let number = json.strip_suffix(".0").unwrap_or(json);
    number.parse().ok()
}

/// Returns the kind in `reason` if it has this code; otherwise the kind of the code.
fn read_kind(code: i32, data: Option<&Value>, revision: Revision) -> ErrorKind {
    let named = data.and_then(|data| data["reason"].as_str()).and_then(ErrorKind::from_name);
    let has_code = |kind: &ErrorKind| {
        let registry = kind.registry_code().filter(|_| !revision.is_modern());
        error_codes::code(*kind, revision) == code || registry == Some(code)
    };
    named.filter(has_code).unwrap_or_else(|| error_codes::kind(code, revision))
}
