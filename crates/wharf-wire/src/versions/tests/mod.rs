//! A new revision needs only rows: 2027-01-15 is made up and exists only here, by the `#[cfg(test)]` rows of the
//! tables. It adds `berth` to tools, content and the parameters of calls, removes `icons` of tools,
//! `lastModified` of annotations, `websiteUrl` of implementations and the cache hints of results, adds the
//! method `berths/assign`, and has its own code for a missing resource.

mod client;
mod negotiation;
mod server;

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{Implementation, Outcome, Request};

use crate::{Codec, Received, Revision, ServerProtocol};

const NEW: &str = "2027-01-15";
const OLD: &str = "2026-07-28";

fn revision(date: &str) -> Revision {
    date.parse().unwrap()
}

fn protocol() -> Arc<ServerProtocol> {
    let server = Implementation::new("harbour", "1.0.0").website_url("https://harbour.example");
    Arc::new(ServerProtocol::new(server))
}

/// Builds a request of a modern revision.
fn request(date: &str, method: &str, mut params: Value) -> Value {
    params["_meta"] = json!({
        "io.modelcontextprotocol/protocolVersion": date,
        "io.modelcontextprotocol/clientCapabilities": {},
        "io.modelcontextprotocol/clientInfo": {"name": "client", "version": "1"},
    });
    json!({"jsonrpc": "2.0", "id": 1, "method": method, "params": params})
}

fn receive(message: &Value) -> Received {
    protocol().receive(message.to_string().into(), None)
}

fn call(date: &str, method: &str, params: Value) -> (Request, Codec) {
    match receive(&request(date, method, params)) {
        Received::Call(request, codec) => (request, codec),
        other => panic!("no call: {other:?}"),
    }
}

/// Returns the error and the HTTP status of a rejected message.
fn rejection(received: Received) -> (Value, u16) {
    match received {
        Received::Reply(bytes, status, _) => {
            (serde_json::from_slice::<Value>(&bytes).unwrap()["error"].take(), status)
        }
        other => panic!("no reply: {other:?}"),
    }
}

/// Returns the reply to the call, and its HTTP status.
fn encoded(codec: &Codec, outcome: impl Into<Outcome>) -> (Value, u16) {
    let mut out = Vec::new();
    let status = codec.encode(&outcome.into(), &mut out);
    (serde_json::from_slice(&out).unwrap(), status)
}
