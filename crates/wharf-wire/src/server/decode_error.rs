//! Decodes the errors of peers: code, `reason` and data become the kind of an error.

use std::borrow::Cow;

use serde_json::Value;
use wharf_model::{Error, ErrorKind};

use crate::{
    Revision,
    json::{field_spans, scanner},
    versions::error_codes,
};

/// Maximum size of error data that is parsed into a tree.
const MAX_ERROR_DATA_BYTES: usize = 64 * 1024;

/// Reads the error of a peer as far as possible.
pub(crate) fn read_error(json: &str, revision: Revision) -> Error {
    let (mut code, mut message, mut data) = (None, None, None);
    let read = |key: &str, value: &str| match field_spans::unquote(key).as_deref() {
        Some("code") => code = parse_integer(value),
        Some("message") => message = field_spans::unquote(value).map(Cow::into_owned),
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
