//! Responses of a client to server requests, in every legacy revision.

use wharf_model::ErrorKind;
use wharf_wire::Received;

use super::*;

/// Encodes a response of the client.
fn encode_response(version: &str, answer: Result<&Value, &Error>) -> Value {
    let text = answer.map(Value::to_string);
    let text = text.as_deref().map_err(|error| *error);
    written(|out| client_codec(revision(version)).answer(&id(6), text, out))
}

#[test]
fn responses_are_translated_to_the_revision() {
    let elicited = json!({"action": "accept", "content": {"name": "x", "model": 1}});
    let roots = json!({"roots": [{"uri": "file:///a", "name": "a", "_meta": {"k": 1}}]});
    let bare_roots = json!({"roots": [{"uri": "file:///a", "name": "a"}]});
    let one = json!({"role": "assistant", "model": "m", "stopReason": "endTurn",
        "content": {"type": "text", "text": "hi", "_meta": {"k": 1}, "annotations": {"lastModified": "x"}}});
    for version in LEGACY {
        let old = ["2024-11-05", "2025-03-26"].contains(&version);
        assert_eq!(encode_response(version, Ok(&elicited))["result"], elicited);
        let expected = if old { &bare_roots } else { &roots };
        assert_eq!(&encode_response(version, Ok(&roots))["result"], expected, "{version}");
        let told = encode_response(version, Ok(&one))["result"].take();
        assert_eq!(told["content"].get("_meta").is_none(), old, "{version}");
        assert_eq!((&told["model"], &told["stopReason"]), (&one["model"], &one["stopReason"]));
    }
}

#[test]
fn a_sampling_result_is_joined_into_one_item() {
    let said = |content: Value| json!({"role": "assistant", "model": "m", "content": content});
    let text = |text: &str| json!({"type": "text", "text": text});
    let image = json!({"type": "image", "data": "iVA=", "mimeType": "image/png"});
    let audio = json!({"type": "audio", "data": "iVA=", "mimeType": "audio/wav"});
    let tool = json!({"type": "tool_use", "id": "1", "name": "t", "input": {}});
    for (content, first, second) in [
        (json!([text("a")]), text("a"), text("a")),
        (json!([text("a"), text("b")]), text("a\nb"), text("a\nb")),
        (json!([text("a"), image]), text("a\n[image/png image]"), text("a\n[image/png image]")),
        (json!(image), image.clone(), image.clone()),
        (json!([audio]), text("[audio/wav audio]"), audio.clone()),
        (json!([]), text(""), text("")),
        (json!(tool), text(&tool.to_string()), text(&tool.to_string())),
    ] {
        for (version, expected) in
            [("2024-11-05", &first), ("2025-03-26", &second), ("2025-06-18", &second)]
        {
            let told = encode_response(version, Ok(&said(content.clone())))["result"].take();
            assert_eq!(told, said(expected.clone()), "{version}");
        }
        assert_eq!(
            encode_response("2025-11-25", Ok(&said(content.clone())))["result"],
            said(content)
        );
    }
}

#[test]
fn refusals() {
    for version in LEGACY {
        let mut own = Error::new(ErrorKind::RefusedCustom).with_message("User rejected it");
        own.code = Some(-1);
        let told = encode_response(version, Err(&own));
        assert_eq!(told["error"], json!({"code": -1, "message": "User rejected it"}));
        assert_eq!(told["id"], 6);
        let told = encode_response(version, Err(&Error::method_not_found("x/y")));
        assert_eq!(told["error"]["code"], -32601);
        // An invalid response must not break the stream.
        for broken in ["", "{", "{\"a\":\n1}}", "nul"] {
            let told =
                written(|out| client_codec(revision(version)).answer(&id(6), Ok(broken), out));
            assert_eq!(told["error"]["code"], -32603, "{broken}");
        }
    }
}

#[test]
fn a_server_reads_the_response_of_a_client() {
    let mut connection = connection();
    let capable = json!({"roots": {}});
    open_with(&mut connection, "2025-06-18", capable, discovery());
    let message = encode_response("2025-06-18", Ok(&json!({"roots": []})));
    let Received::Answer(6, Ok(result)) = receive(&mut connection, &message) else { panic!() };
    assert_eq!(result, r#"{"roots":[]}"#);
    let message = encode_response("2025-06-18", Err(&Error::new(ErrorKind::RefusedPolicy)));
    let Received::Answer(6, Err(error)) = receive(&mut connection, &message) else { panic!() };
    assert_eq!(error.kind, ErrorKind::RefusedPolicy);
}
