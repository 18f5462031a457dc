//! Client side: encoding of its messages, decoding of the server's.

mod arbitrary_input;
mod decode;
mod encode;
mod errors;
mod headers;
mod responses;
mod results;
mod revisions;
mod sse_parser;

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{ClientCapabilities, Error, Icon, Implementation};
use wharf_wire::{CallId, ClientCodec, ClientIdentity, Revision, ServerMessage};

use crate::common::*;

/// Returns an identity with all fields and capabilities.
fn full_identity() -> ClientIdentity {
    let capabilities: ClientCapabilities = serde_json::from_value(json!({
        "roots": {"listChanged": true}, "sampling": {"tools": {}, "context": {}},
        "elicitation": {"form": {}, "url": {}}, "tasks": {"list": {}},
        "extensions": {"com.example/x": {}}, "experimental": {"y": {}},
    }))
    .unwrap();
    let info = Implementation::new("client", "1")
        .title("Client")
        .description("Calls")
        .website_url("https://example.com")
        .icon(Icon::new("data:,"));
    ClientIdentity { info, capabilities, ..ClientIdentity::default() }
}

fn full_client_codec(revision: Revision) -> ClientCodec {
    ClientCodec::new(revision, Arc::new(full_identity()))
}

/// Returns the written message, which must be one line.
fn written(write: impl FnOnce(&mut Vec<u8>)) -> Value {
    let mut out = Vec::new();
    write(&mut out);
    parse(&out)
}

fn id(number: u64) -> CallId {
    CallId::from(number)
}

/// Decodes a reply.
fn reply_in(
    client_codec: &ClientCodec,
    message: &Value,
) -> (Option<CallId>, Result<String, Error>) {
    match decode(client_codec, message) {
        ServerMessage::Reply { id, result } => (id, result.map(|text| text.to_string())),
        other => panic!("{other:?}"),
    }
}
