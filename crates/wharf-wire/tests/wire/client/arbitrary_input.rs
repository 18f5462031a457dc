//! No message of a server makes a client panic, or write anything but valid messages.

use proptest::{collection::vec, prelude::*, sample::select};
use wharf_model::METHODS;
use wharf_wire::{AllowedRevisions, Negotiation, NegotiationEvent, NegotiationStep, TransportKind};

use super::*;

fn messages() -> Vec<Value> {
    let discovered = json!({"resultType": "complete", "supportedVersions": [MODERN], "capabilities": {"tools": {}},
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "s", "version": "1"}}});
    vec![
        json!({"jsonrpc": "2.0", "id": 1, "result": discovered}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"protocolVersion": "2025-06-18", "capabilities": {}, "serverInfo": {"name": "s", "version": "1"}}}),
        json!({"jsonrpc": "2.0", "id": 1, "error": {"code": -32022, "message": "m", "data": {"supported": [MODERN], "reason": "x"}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"content": [{"type": "text", "text": "t"}, {"type": "resource", "resource": {"uri": "a:b", "blob": ""}}], "structuredContent": {}}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"tools": [{"name": "t", "inputSchema": {"type": "object"}}], "nextCursor": "c", "ttlMs": 5}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "input_required", "inputRequests": {"a": {"method": "roots/list", "params": {}}}, "requestState": "s"}}),
        json!({"jsonrpc": "2.0", "id": "q", "method": "sampling/createMessage", "params": {"messages": [{"role": "user", "content": [{"type": "text", "text": "t"}]}], "maxTokens": 5}}),
        json!({"jsonrpc": "2.0", "id": "q", "method": "elicitation/create", "params": {"mode": "url", "message": "m", "url": "u", "elicitationId": "e"}}),
        json!({"jsonrpc": "2.0", "id": "q", "method": "ping"}),
        json!({"jsonrpc": "2.0", "method": "notifications/progress", "params": {"progressToken": 1, "progress": 0.5, "total": 1, "message": "m"}}),
        json!({"jsonrpc": "2.0", "method": "notifications/message", "params": {"level": "info", "data": [1]}}),
        json!({"jsonrpc": "2.0", "method": "notifications/subscriptions/acknowledged", "params": {"notifications": {"resourceSubscriptions": ["a:b"]}, "_meta": {"io.modelcontextprotocol/subscriptionId": 1}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"resultType": "task", "taskId": "a", "status": "working", "createdAt": "2025-11-25T10:30:00Z", "lastUpdatedAt": "2025-11-25T10:30:00Z", "ttlMs": 5}}),
        json!({"jsonrpc": "2.0", "id": 1, "result": {"task": {"taskId": "a", "status": "failed", "createdAt": "2025-11-25T10:30:00Z", "ttl": null, "pollInterval": 5}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/tasks", "params": {"taskId": "a", "status": "input_required", "createdAt": "2025-11-25T10:30:00Z", "inputRequests": {"k": {"method": "roots/list"}}}}),
        json!({"jsonrpc": "2.0", "method": "notifications/tasks/status", "params": {"taskId": "a", "status": "completed", "createdAt": "2025-11-25T10:30:00Z", "ttl": 5}}),
        json!([{"jsonrpc": "2.0", "id": 1, "result": {}}, {"jsonrpc": "2.0", "method": "notifications/tools/list_changed"}]),
    ]
}

/// Decodes a message in every possible way.
fn decode_everywhere(bytes: &[u8]) {
    for revision in Revision::ALL {
        let client_codec = client_codec(revision);
        for one in client_codec.decode(bytes.to_vec().into()).unwrap_or_default() {
            match one {
                ServerMessage::Reply { result: Ok(result), .. } => {
                    for method in &METHODS {
                        let _ = client_codec.result(method.method, &result);
                    }
                }
                ServerMessage::ClientRequest { id, .. } | ServerMessage::Ping { id } => {
                    assert!(written(|out| client_codec.pong(&id, out)).is_object());
                }
                ServerMessage::Refused { id, error } => {
                    assert!(written(|out| client_codec.answer(&id, Err(&error), out)).is_object());
                }
                ServerMessage::Cancelled { id } => {
                    assert!(written(|out| client_codec.cancelled(&id, "r", out)).is_object());
                }
                _ => {}
            }
        }
    }
}

/// Negotiates with a server that sends these replies, and then nothing.
fn open(
    transport: TransportKind,
    remembered: Option<Revision>,
    answers: &[Vec<u8>],
    statuses: &[u16],
) {
    let mut negotiation =
        Negotiation::new(Arc::new(full_identity()), transport, AllowedRevisions::Any, remembered);
    let mut step = negotiation.start();
    let mut answers = answers.iter().zip(statuses.iter().cycle());
    // The number of steps is bounded for every server.
    for _ in 0..40 {
        step = match step {
            NegotiationStep::Open { .. } | NegotiationStep::Fail(_) => return,
            NegotiationStep::TryEvents => negotiation.over_events(),
            NegotiationStep::Wait(_) | NegotiationStep::Send { .. } => match answers.next() {
                None => negotiation.answered(NegotiationEvent::Silence),
                Some((_, 0)) => negotiation.answered(NegotiationEvent::Closed),
                Some((body, status)) if *status > 1 => {
                    negotiation.answered(NegotiationEvent::Http { status: *status, body })
                }
                Some((body, _)) => {
                    let heard = negotiation.codec().decode(body.clone().into()).unwrap_or_default();
                    match heard.into_iter().next() {
                        Some(ServerMessage::Reply { id: Some(id), result }) => {
                            negotiation.answered(NegotiationEvent::Reply(id, result.as_deref()))
                        }
                        _ => negotiation.answered(NegotiationEvent::Silence),
                    }
                }
            },
        };
    }
    panic!("it never ends");
}

/// Sets `value` at `path`.
fn put(place: &mut Value, path: &[prop::sample::Index], value: Value) {
    let inner = match (path, &mut *place) {
        ([step, rest @ ..], Value::Object(fields)) if !fields.is_empty() => {
            let at = step.index(fields.len());
            fields.values_mut().nth(at).map(|inner| (inner, rest))
        }
        ([step, rest @ ..], Value::Array(items)) if !items.is_empty() => {
            let at = step.index(items.len());
            items.get_mut(at).map(|inner| (inner, rest))
        }
        _ => None,
    };
    match inner {
        Some((inner, rest)) => put(inner, rest, value),
        None => *place = value,
    }
}

proptest! {
    #![proptest_config(ProptestConfig { failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn arbitrary_bytes_do_not_panic(bytes in vec(any::<u8>(), 0..300)) {
        decode_everywhere(&bytes);
    }

    #[test]
    fn mutated_messages_do_not_panic(
        message in select(messages()),
        changes in vec((any::<prop::sample::Index>(), any::<u8>(), 0..4u8), 0..6),
    ) {
        let mut bytes = message.to_string().into_bytes();
        for (at, byte, how) in changes {
            let at = at.index(bytes.len().max(1));
            match how {
                0 if !bytes.is_empty() => bytes[at] = byte,
                1 => bytes.insert(at.min(bytes.len()), byte),
                2 if !bytes.is_empty() => drop(bytes.remove(at)),
                _ => bytes.truncate(at),
            }
        }
        decode_everywhere(&bytes);
    }

    #[test]
    fn mutated_members_do_not_panic(
        message in select(messages()),
        paths in vec((vec(any::<prop::sample::Index>(), 1..5), select(vec!["null", "5", "-1.5", "\"\"", "[]", "{}", "true", "[[1]]", "{\"a\":1}"])), 1..4),
    ) {
        let mut message = message;
        for (path, value) in paths {
            put(&mut message, &path, serde_json::from_str(value).unwrap());
        }
        decode_everywhere(message.to_string().as_bytes());
    }

    #[test]
    fn every_negotiation_ends(
        http in any::<bool>(),
        remembered in proptest::option::of(select(Revision::ALL.to_vec())),
        answers in vec((select(messages()), 1..6u64), 0..12),
        statuses in vec(select(vec![0, 1, 1, 1, 200, 200, 202, 400, 401, 404, 405, 500]), 1..5),
    ) {
        let transport = if http { TransportKind::Http } else { TransportKind::Lines };
        let bodies: Vec<_> = answers.into_iter().map(|(mut message, id)| {
            if message.get("id").is_some() {
                message["id"] = id.into();
            }
            message.to_string().into_bytes()
        }).collect();
        open(transport, remembered, &bodies, &statuses);
    }
}
