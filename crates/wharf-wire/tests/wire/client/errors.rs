//! Errors of a server, decoded as error kinds.

use wharf_model::{ErrorKind, Outcome};

use super::*;

fn read(version: &str, error: Value) -> Error {
    let message = json!({"jsonrpc": "2.0", "id": 1, "error": error});
    reply_in(&client_codec(revision(version)), &message).1.unwrap_err()
}

#[test]
fn error_codes_by_revision() {
    use ErrorKind::*;
    // code, kind in legacy, kind in modern. The code is kept beside the kind.
    for (code, legacy, modern) in [
        (-32700, ParseError, ParseError),
        (-32600, InvalidRequest, InvalidRequest),
        (-32601, MethodNotFound, MethodNotFound),
        (-32602, InvalidParams, InvalidParams),
        (-32603, InternalError, InternalError),
        (-32002, ResourceNotFound, ResourceNotFound),
        (-32020, InternalError, HeaderMismatch),
        (-32021, InternalError, MissingClientCapability),
        (-32022, InternalError, UnsupportedProtocolVersion),
        (-32000, InternalError, InternalError),
        (-32800, RequestCancelled, RequestCancelled),
        (-32801, ContentTooLarge, ContentTooLarge),
        (-32099, InternalError, InternalError),
        (1001, RefusedPolicy, RefusedPolicy),
        (1003, RateLimited, RateLimited),
        (1008, Overloaded, Overloaded),
        (-1, InternalError, InternalError),
        (0, InternalError, InternalError),
        (404, InternalError, InternalError),
        (i32::MAX, InternalError, InternalError),
    ] {
        for version in LEGACY.into_iter().chain([MODERN]) {
            let kind = if version == MODERN { modern } else { legacy };
            let error = read(version, json!({"code": code, "message": "m", "data": [1]}));
            assert_eq!((error.kind, error.code), (kind, Some(code)), "{code} {version}");
            assert_eq!((&*error.message, *error.data.unwrap()), ("m", json!([1])));
        }
    }
    for (version, kind) in [
        ("2025-06-18", InternalError),
        ("2025-11-25", UrlElicitationRequired),
        (MODERN, InternalError),
    ] {
        let error = read(version, json!({"code": -32042, "message": "m"}));
        assert_eq!((error.kind, error.code), (kind, Some(-32042)), "{version}");
    }
}

#[test]
fn a_reason_is_used_if_it_fits_the_code() {
    use ErrorKind::*;
    for (version, code, reason, kind) in [
        (MODERN, -32602, "resource_not_found", ResourceNotFound),
        (MODERN, -32602, "tool_not_found", ToolNotFound),
        ("2025-06-18", -32602, "tool_not_found", ToolNotFound),
        ("2025-06-18", -32602, "resource_not_found", InvalidParams),
        (MODERN, -32603, "tool_not_found", InternalError),
        (MODERN, -32601, "capability_not_supported", CapabilityNotSupported),
        (MODERN, 1008, "temporarily_unavailable", TemporarilyUnavailable),
        (MODERN, -32602, "no such reason", InvalidParams),
        // Codes of Wharf's own registry, which legacy clients may receive.
        ("2025-06-18", -32002, "tool_not_found", ToolNotFound),
        ("2025-06-18", -32001, "resource_not_found", ResourceNotFound),
        (MODERN, -32001, "resource_not_found", InternalError),
        // A legacy code must not be taken for a modern one.
        (MODERN, -32602, "unsupported_protocol_version", InvalidParams),
    ] {
        let error =
            read(version, json!({"code": code, "message": "m", "data": {"reason": reason}}));
        assert_eq!((error.kind, error.code), (kind, Some(code)), "{version} {code} {reason}");
    }
}

#[test]
fn malformed_errors_are_read_as_far_as_possible() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        let no_reason = "the peer gave no reason";
        for (error, kind, message) in [
            (json!({}), ErrorKind::InternalError, no_reason),
            (json!("no"), ErrorKind::InternalError, no_reason),
            (json!(false), ErrorKind::InternalError, no_reason),
            (json!([1]), ErrorKind::InternalError, no_reason),
            (json!({"message": "m"}), ErrorKind::InternalError, "m"),
            (json!({"code": "-32601", "message": 5}), ErrorKind::InternalError, no_reason),
            (json!({"code": 1e40, "message": "m"}), ErrorKind::InternalError, "m"),
            (json!({"code": -32601.0, "message": "ä\n"}), ErrorKind::MethodNotFound, "ä\n"),
        ] {
            let read = read(version, error);
            assert_eq!((read.kind, &*read.message), (kind, message));
        }
        let vast = json!({"code": -32601, "message": "m", "data": "x".repeat(100_000)});
        assert_eq!(read(version, vast).data, None);
    }
}

/// The client decodes every error kind of our server, in every revision.
#[test]
fn error_kinds_are_read_back() {
    for kind in ErrorKind::ALL.iter().copied() {
        for version in LEGACY.into_iter().chain([MODERN]) {
            let codec = codec(version, "prompts/get", json!({"name": "p"}));
            let (message, _) = encoded(&codec, Outcome::from(Error::new(kind).with_message("m")));
            let read = reply_in(&client_codec(revision(version)), &message).1.unwrap_err();
            let expected = match kind {
                // `RequestCancelled` is never sent in a reply, and URL elicitations need a list of URLs.
                ErrorKind::RequestCancelled | ErrorKind::UrlElicitationRequired => {
                    ErrorKind::InternalError
                }
                kind => kind,
            };
            assert_eq!(read.kind, expected, "{version}: {message}");
            let sent = i32::try_from(message["error"]["code"].as_i64().unwrap()).unwrap();
            assert_eq!((read.code, &*read.message), (Some(sent), "m"));
        }
    }
}

#[test]
fn custom_error_codes_are_forwarded_unchanged() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        let codec = codec(version, "prompts/get", json!({"name": "p"}));
        for error in [
            json!({"code": -1, "message": "m"}),
            json!({"code": 4711, "message": "m", "data": {"x": [null]}}),
            json!({"code": 1001, "message": "m", "data": {"reason": "refused_policy"}}),
        ] {
            let read = read(version, error.clone());
            let (message, _) = encoded(&codec, Outcome::from(read));
            assert_eq!(message["error"], error, "{version}");
        }
    }
}
