//! Helpers shared by the tests of this crate.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{
    Discovery, Implementation, ListCapability, Outcome, Reply, Request, ResourcesCapability,
    ServerCapabilities,
};
use wharf_wire::{
    ClientCodec, ClientIdentity, Codec, Connection, Era, Received, Revision, ServerMessage,
    ServerProtocol,
};

pub(crate) const LEGACY: [&str; 4] = ["2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25"];
pub(crate) const MODERN: &str = "2026-07-28";

/// Returns the dates of the modern revisions, newest first.
pub(crate) fn modern_dates() -> Vec<&'static str> {
    let modern = Revision::ALL.into_iter().rev().filter(|it| it.era() == Era::Modern);
    modern.map(Revision::as_str).collect()
}

pub(crate) fn revision(date: &str) -> Revision {
    date.parse().unwrap()
}

/// Creates a client codec without capabilities.
pub(crate) fn client_codec(revision: Revision) -> ClientCodec {
    ClientCodec::new(revision, Arc::new(ClientIdentity::default()))
}

/// Decodes a single message of a server.
pub(crate) fn decode(client_codec: &ClientCodec, message: &Value) -> ServerMessage {
    let mut heard = client_codec.decode(message.to_string().into()).unwrap();
    assert_eq!(heard.len(), 1, "{message}");
    heard.remove(0)
}

pub(crate) fn wire() -> ServerProtocol {
    ServerProtocol::new(
        Implementation::new("harbour", "1.0.0").title("Harbour").description("Ships"),
    )
}

pub(crate) fn connection() -> Connection {
    Connection::new(Arc::new(wire()))
}

pub(crate) fn receive(connection: &mut Connection, message: &Value) -> Received {
    connection.receive(message.to_string().into())
}

pub(crate) fn call(received: Received) -> (Request, Codec) {
    match received {
        Received::Call(request, codec) => (request, codec),
        other => panic!("no call: {other:?}"),
    }
}

pub(crate) fn reply(received: Received) -> (Value, u16) {
    match received {
        Received::Reply(bytes, status, _) => (parse(&bytes), status),
        other => panic!("no reply: {other:?}"),
    }
}

pub(crate) fn error(received: Received) -> (Value, i64, u16) {
    let (message, status) = reply(received);
    let code = message["error"]["code"].as_i64().unwrap_or_else(|| panic!("{message}"));
    (message, code, status)
}

/// Parses a message, which must be one line of JSON.
pub(crate) fn parse(bytes: &[u8]) -> Value {
    let text = std::str::from_utf8(bytes).unwrap();
    assert!(!text.contains(['\n', '\r']), "{text}");
    serde_json::from_str(text).unwrap_or_else(|error| panic!("{error}: {text}"))
}

pub(crate) fn encoded(codec: &Codec, outcome: impl Into<Outcome>) -> (Value, u16) {
    let mut out = Vec::new();
    let status = codec.encode(&outcome.into(), &mut out);
    (parse(&out), status)
}

pub(crate) fn request(id: impl Into<Value>, method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "id": id.into(), "method": method, "params": params})
}

pub(crate) fn notification(method: &str, params: Value) -> Value {
    json!({"jsonrpc": "2.0", "method": method, "params": params})
}

/// Builds a modern request with the required metadata.
pub(crate) fn modern(id: impl Into<Value>, method: &str, mut params: Value) -> Value {
    let meta = params.as_object_mut().unwrap().entry("_meta").or_insert_with(|| json!({}));
    let meta = meta.as_object_mut().unwrap();
    let put = |meta: &mut serde_json::Map<String, Value>, key: &str, value: Value| {
        meta.entry(format!("io.modelcontextprotocol/{key}")).or_insert(value);
    };
    put(meta, "protocolVersion", MODERN.into());
    put(meta, "clientCapabilities", json!({}));
    put(meta, "clientInfo", json!({"name": "client", "version": "1"}));
    request(id, method, params)
}

pub(crate) fn initialize(version: &str, capabilities: Value) -> Value {
    let client = json!({"name": "client", "version": "1"});
    let params =
        json!({"protocolVersion": version, "capabilities": capabilities, "clientInfo": client});
    request(0, "initialize", params)
}

pub(crate) fn discovery() -> Discovery {
    Discovery::default()
        .capabilities(
            ServerCapabilities::default()
                .tools(ListCapability::default().list_changed(true))
                .resources(ResourcesCapability::default().subscribe(true))
                .completions(true)
                .logging(true)
                .extension("com.example/x", serde_json::Map::new()),
        )
        .instructions("Be kind".to_owned())
}

/// Opens a session with a server that announces `offered`; returns the reply to `initialize`.
pub(crate) fn open_with(
    connection: &mut Connection,
    version: &str,
    capabilities: Value,
    offered: Discovery,
) -> Value {
    let (_, codec) = call(receive(connection, &initialize(version, capabilities)));
    encoded(&codec, Reply::Discover(Box::new(offered))).0
}

pub(crate) fn open(connection: &mut Connection, version: &str) -> Value {
    open_with(connection, version, json!({}), discovery())
}

/// Opens a connection in `version`; returns the codec of a call of `method` on it.
pub(crate) fn codec(version: &str, method: &str, params: Value) -> Codec {
    codec_for(version, json!({}), method, params)
}

/// Like `codec`, for a client that declared `capabilities`.
pub(crate) fn codec_for(
    version: &str,
    capabilities: Value,
    method: &str,
    mut params: Value,
) -> Codec {
    let mut connection = connection();
    if version == MODERN {
        params["_meta"]["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        return call(receive(&mut connection, &modern(7, method, params))).1;
    }
    open_with(&mut connection, version, capabilities, discovery());
    call(receive(&mut connection, &request(7, method, params))).1
}
