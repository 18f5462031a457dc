//! Errors: codes, statuses and payloads.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use wharf_model::{ClientCapability, Error, ErrorKind, Method, Outcome};
use wharf_wire::{Connection, ErrorProfile, Revision, error_codes};

use crate::common::*;

fn both(kind: ErrorKind) -> [(i32, u16); 2] {
    [Revision::NEWEST_LEGACY, revision(MODERN)]
        .map(|revision| (error_codes::code(kind, revision), error_codes::status(kind, revision)))
}

#[test]
fn codes_and_statuses_of_every_kind() {
    use ErrorKind::*;
    for (kind, legacy, modern) in [
        (ParseError, (-32700, 400), (-32700, 400)),
        (InvalidRequest, (-32600, 400), (-32600, 400)),
        (MethodNotFound, (-32601, 200), (-32601, 404)),
        (CapabilityNotSupported, (-32601, 200), (-32601, 404)),
        (InvalidParams, (-32602, 200), (-32602, 200)),
        (InternalError, (-32603, 200), (-32603, 200)),
        (ResourceNotFound, (-32002, 200), (-32602, 200)),
        (ToolNotFound, (-32602, 200), (-32602, 200)),
        (PromptNotFound, (-32602, 200), (-32602, 200)),
        (PromptArgumentMissing, (-32602, 200), (-32602, 200)),
        (InvalidToolArguments, (-32602, 200), (-32602, 200)),
        (MissingClientCapability, (-32602, 200), (-32021, 400)),
        (UnsupportedProtocolVersion, (-32602, 400), (-32022, 400)),
        (NotInitialized, (-32602, 200), (-32602, 200)),
        (RateLimited, (1003, 429), (1003, 429)),
        (Overloaded, (1008, 503), (1008, 503)),
        (TemporarilyUnavailable, (1008, 503), (1008, 503)),
        (ContentTooLarge, (-32801, 413), (-32801, 413)),
        (RequestTimeout, (-32603, 200), (-32603, 200)),
        (UrlElicitationRequired, (-32042, 200), (-32602, 200)),
        (InvalidRequestState, (-32602, 200), (-32602, 200)),
        (InvalidCursor, (-32602, 200), (-32602, 200)),
        (TaskNotFound, (-32602, 200), (-32602, 200)),
        (TaskAlreadyCompleted, (-32602, 200), (-32602, 200)),
        (TaskRequired, (-32601, 200), (-32021, 400)),
        (TaskForbidden, (-32601, 200), (-32602, 200)),
        (RefusedPolicy, (1001, 200), (1001, 200)),
        (RefusedCustom, (1010, 200), (1010, 200)),
        (HeaderMismatch, (-32602, 400), (-32020, 400)),
        (Unauthenticated, (-32602, 401), (-32602, 401)),
        (Forbidden, (-32602, 403), (-32602, 403)),
        (InsufficientScope, (-32602, 403), (-32602, 403)),
        (RequestCancelled, (-32800, 499), (-32800, 499)),
        (TransportError, (-32603, 200), (-32603, 200)),
        (UriTooLong, (-32602, 200), (-32602, 200)),
    ] {
        assert_eq!(both(kind), [legacy, modern], "{kind}");
    }
    for version in ["2024-11-05", "2025-03-26", "2025-06-18"] {
        assert_eq!(error_codes::code(UrlElicitationRequired, revision(version)), -32602);
    }
}

#[test]
fn codes_are_allowed_by_their_revision() {
    for &kind in ErrorKind::ALL {
        let modern = error_codes::code(kind, revision(MODERN));
        let defined = [-32020, -32021, -32022].contains(&modern);
        assert!(defined || !(-32099..=-32000).contains(&modern), "{kind}: {modern}");
        for revision in Revision::ALL {
            assert!((200..600).contains(&error_codes::status(kind, revision)));
        }
    }
}

#[test]
fn codes_are_decoded_as_kinds() {
    for (code, revision, kind) in [
        (-32700, revision(MODERN), ErrorKind::ParseError),
        (-32601, revision(MODERN), ErrorKind::MethodNotFound),
        (-32602, revision(MODERN), ErrorKind::InvalidParams),
        (-32603, revision(MODERN), ErrorKind::InternalError),
        (-32002, revision(MODERN), ErrorKind::ResourceNotFound),
        (-32002, Revision::NEWEST_LEGACY, ErrorKind::ResourceNotFound),
        (-32021, revision(MODERN), ErrorKind::MissingClientCapability),
        (-32021, Revision::NEWEST_LEGACY, ErrorKind::InternalError),
        (-32022, revision(MODERN), ErrorKind::UnsupportedProtocolVersion),
        (-32042, Revision::NEWEST_LEGACY, ErrorKind::UrlElicitationRequired),
        (-32042, revision(MODERN), ErrorKind::InternalError),
        (1005, revision(MODERN), ErrorKind::RefusedPermissionDenied),
        (1003, revision(MODERN), ErrorKind::RateLimited),
        (-32801, revision(MODERN), ErrorKind::ContentTooLarge),
        (77, revision(MODERN), ErrorKind::InternalError),
    ] {
        assert_eq!(error_codes::kind(code, revision), kind, "{code}");
    }
}

fn encode_failure(version: &str, method: &str, params: Value, error: Error) -> (Value, u16) {
    encoded(&codec(version, method, params), error)
}

#[test]
fn error_data_of_every_kind() {
    let data = |error: Error| {
        encode_failure(MODERN, "prompts/get", json!({"name": "p"}), error).0["error"]["data"]
            .clone()
    };
    assert_eq!(data(Error::prompt_argument_missing(["a"])), json!(["a"]));
    assert_eq!(
        data(Error::resource_not_found("a:b")),
        json!({"uri": "a:b", "reason": "resource_not_found"})
    );
    let missing = Error::missing_capability(ClientCapability::Elicitation);
    assert_eq!(data(missing)["requiredCapabilities"], json!({"elicitation": {}}));
    let busy = json!({"retryAfterMs": 2000, "reason": "overloaded"});
    assert_eq!(data(Error::overloaded(Duration::from_secs(2))), busy);
    assert_eq!(data(Error::new(ErrorKind::InternalError)), json!({"reason": "internal_error"}));
    let own = Error::new(ErrorKind::InternalError).with_data(json!({"reason": "mine"}));
    assert_eq!(data(own), json!({"reason": "mine"}));
    let (message, status) =
        encode_failure(MODERN, "prompts/get", json!({"name": "p"}), Error::custom(42, "own"));
    assert_eq!((&message["error"], status), (&json!({"code": 42, "message": "own"}), 200));
    let broken = encode_failure(
        "2025-06-18",
        "resources/read",
        json!({"uri": "a:b\n"}),
        ErrorKind::InternalError.into(),
    )
    .0;
    assert_eq!(broken["error"]["data"], json!({"uri": "a:b\n", "reason": "internal_error"}));
}

#[test]
fn failures_inside_a_tool_are_results() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        for &kind in ErrorKind::ALL {
            if kind == ErrorKind::UrlElicitationRequired {
                continue;
            }
            let error = Error::new(kind).with_message("what went wrong");
            let as_result = match kind {
                ErrorKind::InvalidToolArguments => version >= "2025-11-25",
                kind => kind.is_tool_result(),
            };
            let (message, status) =
                encode_failure(version, "tools/call", json!({"name": "t"}), error.clone());
            if as_result {
                assert_eq!(message["result"]["isError"], true, "{version} {kind}");
                assert_eq!(message["result"]["content"][0]["text"], "what went wrong");
                assert_eq!(status, 200);
            } else {
                assert_eq!(message["error"]["message"], "what went wrong", "{version} {kind}");
                // A client that reads this did not cancel.
                let told = match kind {
                    ErrorKind::RequestCancelled => ErrorKind::InternalError,
                    kind => kind,
                };
                assert_eq!(message["error"]["code"], error_codes::code(told, revision(version)));
                assert_eq!(status, error_codes::status(told, revision(version)));
            }
            // For other methods it is always an error.
            let (message, _) = encode_failure(version, "prompts/get", json!({"name": "t"}), error);
            assert!(message["error"].is_object());
        }
    }
}

#[test]
fn errors_of_a_handler_do_not_set_transport_statuses() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        for kind in [ErrorKind::TaskNotFound, ErrorKind::RequestCancelled] {
            let (message, status) =
                encode_failure(version, "prompts/get", json!({"name": "p"}), Error::new(kind));
            assert_eq!(status, 200, "{version} {kind}");
            let code = if kind == ErrorKind::RequestCancelled { -32603 } else { -32602 };
            assert_eq!(message["error"]["code"], code, "{version} {kind}");
        }
    }
}

#[test]
fn busy_errors_carry_a_retry_delay() {
    use ErrorKind::{Overloaded, RateLimited, TemporarilyUnavailable};
    for version in LEGACY.into_iter().chain([MODERN]) {
        let data = |error: Error| {
            encode_failure(version, "prompts/get", json!({"name": "p"}), error).0["error"]["data"]
                .clone()
        };
        for kind in [RateLimited, Overloaded, TemporarilyUnavailable] {
            let usual = json!({"reason": kind.name(), "retryAfterMs": 1000});
            assert_eq!(data(kind.into()), usual, "{version}");
            let own = data(Error::new(kind).with_data(json!({"queue": 7})));
            assert_eq!((&own["queue"], &own["retryAfterMs"]), (&json!(7), &json!(1000)));
            let said = data(Error::new(kind).with_data(json!({"retryAfterMs": 5})));
            assert_eq!(said["retryAfterMs"], 5);
            assert_eq!(data(Error::new(kind).with_data(json!([1]))), json!([1]));
        }
        assert_eq!(data(ErrorKind::InternalError.into()).get("retryAfterMs"), None);
    }
}

#[test]
fn the_registry_profile_is_for_legacy() {
    let mut connection = Connection::new(Arc::new(wire().profile(ErrorProfile::Registry)));
    open(&mut connection, "2025-06-18");
    let (_, codec) =
        call(receive(&mut connection, &request(1, "tools/call", json!({"name": "t"}))));
    assert_eq!(encoded(&codec, Error::tool_not_found("t")).0["error"]["code"], -32002);
    assert_eq!(encoded(&codec, Error::new(ErrorKind::Overloaded)).0["error"]["code"], 1008);
    assert_eq!(encoded(&codec, Error::custom(42, "own")).0["error"]["code"], 42);
    let (_, codec) = call(receive(&mut connection, &modern(1, "tools/call", json!({"name": "t"}))));
    assert_eq!(encoded(&codec, Error::tool_not_found("t")).0["error"]["code"], -32602);
}

#[test]
fn completion_needs_no_capability_in_the_first_revision() {
    for version in LEGACY.into_iter().chain([MODERN]) {
        for kind in [ErrorKind::CapabilityNotSupported, ErrorKind::MethodNotFound] {
            let (message, _) =
                encode_failure(version, "completion/complete", json!({}), kind.into());
            match version {
                "2024-11-05" => {
                    assert_eq!(message["result"], json!({"completion": {"values": []}}))
                }
                _ => assert_eq!(message["error"]["code"], -32601),
            }
        }
    }
}

#[test]
fn a_required_url_elicitation_in_every_revision() {
    let listed =
        json!([{"mode": "url", "message": "Sign in", "url": "https://x/y", "elicitationId": "e"}]);
    let error =
        || Error::new(ErrorKind::UrlElicitationRequired).with_data(json!({"elicitations": listed}));
    let params = || json!({"name": "t"});
    let (message, _) = encode_failure("2025-11-25", "tools/call", params(), error());
    assert_eq!(message["error"]["code"], -32042);
    assert_eq!(message["error"]["data"]["elicitations"], listed);
    let (message, _) = encode_failure("2025-06-18", "tools/call", params(), error());
    assert!(message["result"]["content"][0]["text"].as_str().unwrap().contains("https://x/y"));
    assert_eq!(message["result"]["isError"], true);
    let (message, status) = encode_failure(MODERN, "tools/call", params(), error());
    assert_eq!((&message["error"]["code"], status), (&json!(-32021), 400));
    let able = codec_for(MODERN, json!({"elicitation": {"url": {}}}), "tools/call", params());
    let (message, _) = encoded(&able, error());
    assert_eq!(message["result"]["resultType"], "input_required");
    assert_eq!(
        message["result"]["inputRequests"]["url-1"],
        json!({
            "method": "elicitation/create", "params": {"mode": "url", "message": "Sign in", "url": "https://x/y"},
        })
    );
}

#[test]
fn url_elicitations_have_the_mode_and_id_of_their_revision() {
    let bare = json!({"elicitations": [{"message": "m", "url": "https://x/y"}], "more": 1});
    let error = |data| Error::new(ErrorKind::UrlElicitationRequired).with_data(data);
    for (method, params) in
        [("tools/call", json!({"name": "t"})), ("resources/read", json!({"uri": "a:b"}))]
    {
        let (message, _) =
            encode_failure("2025-11-25", method, params.clone(), error(bare.clone()));
        let data = &message["error"]["data"];
        assert_eq!((&message["error"]["code"], &data["more"]), (&json!(-32042), &json!(1)));
        assert_eq!(data["elicitations"][0]["mode"], "url");
        assert!(data["elicitations"][0]["elicitationId"].is_string());
        // The error code implies a list of URLs.
        let (message, _) = encode_failure("2025-11-25", method, params, error(json!({})));
        assert_ne!(message["error"]["code"], -32042);
        assert_eq!(message["result"]["isError"] == true, method == "tools/call");
    }
}

#[test]
fn a_reserved_code_cannot_be_chosen() {
    for (code, written) in [(-32050, -32603), (-32000, -32603), (-31999, -31999), (-32769, -32769)]
    {
        let mut error = Error::new(ErrorKind::InternalError);
        error.code = Some(code);
        let (message, _) = encode_failure(MODERN, "prompts/get", json!({"name": "p"}), error);
        assert_eq!(message["error"]["code"], written);
        assert_eq!(message["error"].get("data").is_some(), written == -32603);
    }
}

#[test]
fn a_refusal_is_an_error_even_for_a_tool() {
    let codec = codec("2025-06-18", "tools/call", json!({"name": "t"}));
    let mut out = Vec::new();
    let twice = Error::new(ErrorKind::InvalidRequest).with_message("the id is in use");
    assert_eq!(codec.refuse(&twice, &mut out), 400);
    assert_eq!(parse(&out)["error"]["code"], -32600);
    assert_eq!(parse(&out)["id"], 7);
    let suspended = Outcome::InputRequired(Box::default());
    let (message, _) = encoded(&codec, suspended);
    assert_eq!(message["error"]["code"], -32603, "a legacy call cannot be suspended");
    assert_eq!(Method::CallTool.name(), "tools/call");
}
