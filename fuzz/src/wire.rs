//! Messages of both sides in every revision.

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{
    Direction, Error, ErrorKind, Implementation, METHODS, Outcome, Reply, Request, ToolResult,
};
use wharf_wire::{
    CallId, ClientCodec, ClientIdentity, Codec, Connection, Era, Received, Revision, ServerMessage,
    ServerProtocol,
};

use crate::input::byte;

/// Messages of clients. The first byte selects the revision; each line is a message.
pub fn messages(data: &[u8]) {
    let (revision, data) = byte(data);
    let revision = Revision::ALL[usize::from(revision) % Revision::ALL.len()];
    let wire = Arc::new(ServerProtocol::new(Implementation::new("harbour", "1.0.0")));
    let mut connection = Connection::new(wire.clone());
    for message in data.split(|byte| *byte == b'\n') {
        let message = bytes::Bytes::copy_from_slice(message);
        process(wire.receive(message.clone(), Some(revision)), revision);
        process(connection.receive(message.clone()), revision);
    }
    let mut open = open_connection(wire, revision);
    for message in data.split(|byte| *byte == b'\n') {
        process(open.receive(bytes::Bytes::copy_from_slice(message)), revision);
        let ping = open.receive(r#"{"jsonrpc":"2.0","id":"p","method":"ping"}"#.into());
        let Received::Reply(reply, ..) = ping else { panic!("{ping:?}") };
        assert_eq!(parse(&reply)["id"], "p");
    }
}

/// Returns a connection after the handshake, if the revision has one.
fn open_connection(wire: Arc<ServerProtocol>, revision: Revision) -> Connection {
    let mut connection = Connection::new(wire);
    if revision.era() == Era::Modern {
        return connection;
    }
    let hello = json!({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {
        "protocolVersion": revision.as_str(),
        "capabilities": {"sampling": {}, "elicitation": {}, "roots": {}},
        "clientInfo": {"name": "c", "version": "1"},
    }});
    let Received::Call(_, codec) = connection.receive(hello.to_string().into()) else {
        panic!("the handshake is refused");
    };
    codec.encode(&Outcome::Complete(discovery()), &mut Vec::new());
    connection
}

fn discovery() -> Reply {
    Reply::Discover(Box::default())
}

/// Processes a message as a transport does: whatever is written must be a message with the id of the request, and a
/// request that was read must survive being written by a client.
fn process(received: Received, revision: Revision) {
    match received {
        Received::Reply(bytes, status, _) => {
            let reply = parse(&bytes);
            let each = reply.as_array().map_or(std::slice::from_ref(&reply), Vec::as_slice);
            assert!(each.iter().all(|one| one["jsonrpc"] == "2.0") && status >= 200, "{reply}");
        }
        Received::Call(request, codec) => {
            read_back(&request, &codec, revision);
            for outcome in outcomes() {
                let mut out = Vec::new();
                codec.encode(&outcome, &mut out);
                assert!(!out.is_empty() || codec.is_silent());
                if !out.is_empty() {
                    let id: Value = serde_json::from_str(codec.id().as_json()).unwrap();
                    assert_eq!(parse(&out)["id"], id);
                }
            }
        }
        Received::Batch(each) => each.into_iter().for_each(|one| process(one, revision)),
        _ => {}
    }
}

fn outcomes() -> [Outcome; 3] {
    [
        Outcome::Complete(discovery()),
        Outcome::Complete(Reply::Tool(ToolResult::text("\u{2028}\""))),
        Outcome::Failed(Error::new(ErrorKind::InternalError).into()),
    ]
}

fn read_back(request: &Request, codec: &Codec, revision: Revision) {
    let _ = (request.peer(), request.limit(), request.meta());
    let client = ClientCodec::new(revision, Arc::new(ClientIdentity::default()));
    let mut out = Vec::new();
    // The other revision may not have the call.
    if client.call(request, &CallId::from(7), &mut out).is_err() || codec.is_silent() {
        return;
    }
    parse(&out);
    let wire = Arc::new(ServerProtocol::new(Implementation::new("harbour", "1.0.0")));
    let (again, written) = match wire.receive(out.clone().into(), Some(revision)) {
        Received::Call(again, codec) => (again, codec),
        // A request of one era may lack what the other one requires.
        Received::Reply(..) => return,
        other => panic!("{other:?} from {}", String::from_utf8_lossy(&out)),
    };
    assert_eq!(again.method, request.method);
    assert_eq!(again.target(), request.target());
    assert_eq!(again.cursor(), request.cursor());
    assert_eq!(value(again.arguments()), value(request.arguments()));
    assert_eq!(written.id().as_json(), "7");
}

fn value(json: &str) -> Option<Value> {
    serde_json::from_str(json).ok()
}

/// Parses a message, which must be one line of JSON.
fn parse(bytes: &[u8]) -> Value {
    assert!(!bytes.contains(&b'\n') && !bytes.contains(&b'\r'));
    serde_json::from_slice(bytes)
        .unwrap_or_else(|error| panic!("{error}: {}", String::from_utf8_lossy(bytes)))
}

/// Messages of servers. The first byte selects the revision; each line is a message.
pub fn replies(data: &[u8]) {
    let (revision, data) = byte(data);
    let revision = Revision::ALL[usize::from(revision) % Revision::ALL.len()];
    let codec = ClientCodec::new(revision, Arc::new(ClientIdentity::default()));
    for message in data.split(|byte| *byte == b'\n') {
        let messages = codec.decode(bytes::Bytes::copy_from_slice(message)).unwrap_or_default();
        for message in messages {
            process_reply(&codec, message);
        }
    }
}

fn process_reply(codec: &ClientCodec, message: ServerMessage) {
    let mut out = Vec::new();
    match message {
        ServerMessage::Reply { result: Ok(result), .. } => {
            for row in METHODS.iter().filter(|row| row.direction == Direction::Call) {
                let _ = codec.result(row.method, &result);
            }
        }
        ServerMessage::ClientRequest { id, .. } => codec.answer(&id, Ok("{}"), &mut out),
        ServerMessage::Ping { id } => codec.pong(&id, &mut out),
        ServerMessage::Refused { id, error } => codec.answer(&id, Err(&error), &mut out),
        _ => {}
    }
    if !out.is_empty() {
        assert_eq!(parse(&out)["jsonrpc"], "2.0");
    }
}
