//! Version negotiation with servers of any behaviour.

mod failures;
mod pinned_and_cached;
mod replies;

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{ErrorKind, Implementation};
use wharf_wire::{
    AllowedRevisions, CallId, ClientIdentity, Era, Negotiation, NegotiationEvent, NegotiationStep,
    NegotiationTimeout, Revision, ServerMessage, TransportKind,
};

use crate::common::*;

/// Next action of the server.
#[derive(Clone, Debug)]
enum ServerBehaviour {
    /// Replies to the last `server/discover`, over lines.
    Discover(Value),
    /// Replies to the last `initialize`, over lines.
    Initialize(Value),
    /// Replies to another id.
    Stray,
    /// HTTP response; a body that is a reply gets the id of the last request.
    Http(u16, Value),
    /// HTTP response with other bytes.
    Bytes(u16, &'static [u8]),
    Silence,
    Closed,
    /// HTTP+SSE is connected.
    Events,
}
use ServerBehaviour::{Bytes, Closed, Discover, Events, Http, Initialize, Silence, Stray};

/// Negotiation with one server.
struct NegotiationCase {
    transport: TransportKind,
    negotiation: Negotiation,
    asked: [u64; 2],
    /// Short description of the last step.
    last: String,
    step: NegotiationStep,
}

const NEWEST: &str = Revision::NEWEST.as_str();
const DISCOVER: usize = 0;
const INITIALIZE: usize = 1;

impl NegotiationCase {
    fn new(
        transport: TransportKind,
        pin: Option<&str>,
        remembered: Option<&str>,
    ) -> NegotiationCase {
        let client =
            ClientIdentity { info: Implementation::new("c", "1"), ..ClientIdentity::default() };
        let (allowed, remembered) = (allowed(pin), remembered.map(revision));
        let mut negotiation = Negotiation::new(Arc::new(client), transport, allowed, remembered);
        let step = negotiation.start();
        let mut case =
            NegotiationCase { transport, negotiation, asked: [0, 0], last: String::new(), step };
        case.describe_step();
        case
    }

    /// Describes the step, with a word for the newest revision.
    fn describe_step(&mut self) {
        let http = self.transport == TransportKind::Http;
        let timeout = |it: &NegotiationTimeout| format!("{it:?}").to_lowercase();
        self.last = match &self.step {
            NegotiationStep::Send { message, headers, timeout: wait, reopen } => {
                let message = parse(message);
                let id = message["id"].as_u64().unwrap();
                assert!((1..10).contains(&id), "{message}");
                let params = &message["params"];
                let (which, version) = match message["method"].as_str().unwrap() {
                    "server/discover" => {
                        (DISCOVER, &params["_meta"]["io.modelcontextprotocol/protocolVersion"])
                    }
                    "initialize" => (INITIALIZE, &params["protocolVersion"]),
                    method => panic!("{method}"),
                };
                self.asked[which] = id;
                assert_eq!(headers.len(), if which == DISCOVER && http { 2 } else { 0 });
                let (name, again) = (["discover", "initialize"][which], [" ", " reopen "]);
                let again = again[usize::from(*reopen)].trim_end();
                format!("{name} {}{again} {}", version.as_str().unwrap(), timeout(wait))
            }
            NegotiationStep::Wait(wait) => format!("wait {}", timeout(wait)),
            NegotiationStep::Open { codec: client_codec, info, then, .. } => {
                let then = then.as_ref().map(|bytes| parse(bytes)["method"].to_string());
                assert_eq!(then.is_some(), client_codec.has_sessions());
                assert!(then.is_none_or(|then| then == "\"notifications/initialized\""));
                format!("open {} {}", client_codec.revision(), info.name)
            }
            NegotiationStep::TryEvents => "events".to_owned(),
            NegotiationStep::Fail(error) => format!("fail {}", error.kind),
        }
        .replace(NEWEST, "newest");
    }

    fn then(mut self, event: ServerBehaviour, expected: &str) -> NegotiationCase {
        let reply = |mut body: Value, id: u64| {
            if body.is_object() {
                body["jsonrpc"] = "2.0".into();
                body.as_object_mut().unwrap().entry("id").or_insert(id.into());
            }
            body.to_string()
        };
        let last = self.asked.into_iter().max().unwrap();
        let happened = format!("{event:?}");
        self.step = match event {
            Discover(body) => self.replied(&reply(body, self.asked[DISCOVER])),
            Initialize(body) => self.replied(&reply(body, self.asked[INITIALIZE])),
            Stray => self.replied(&reply(json!({"result": {}}), 4711)),
            Http(status, body) => {
                let body = reply(body, last);
                self.negotiation.answered(NegotiationEvent::Http { status, body: body.as_bytes() })
            }
            Bytes(status, body) => {
                self.negotiation.answered(NegotiationEvent::Http { status, body })
            }
            Silence => self.negotiation.answered(NegotiationEvent::Silence),
            Closed => self.negotiation.answered(NegotiationEvent::Closed),
            Events => self.negotiation.over_events(),
        };
        self.describe_step();
        assert_eq!(self.last, expected, "after {happened}");
        self
    }

    fn replied(&mut self, message: &str) -> NegotiationStep {
        let heard = self.negotiation.codec().decode(message.to_owned().into()).unwrap();
        let [ServerMessage::Reply { id: Some(id), result }] = &heard[..] else {
            panic!("{heard:?}")
        };
        self.negotiation.answered(NegotiationEvent::Reply(id.clone(), result.as_deref()))
    }

    fn error(self) -> wharf_model::Error {
        match self.step {
            NegotiationStep::Fail(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

/// Revisions that a case allows: one era, one revision or all.
fn allowed(pin: Option<&str>) -> AllowedRevisions {
    match pin {
        None => AllowedRevisions::Any,
        Some("legacy") => AllowedRevisions::Era(Era::Legacy),
        Some("modern") => AllowedRevisions::Era(Era::Modern),
        Some(date) => AllowedRevisions::One(revision(date)),
    }
}

fn start_case(transport: TransportKind, expected: &str) -> NegotiationCase {
    let case = NegotiationCase::new(transport, None, None);
    assert_eq!(case.last, expected);
    case
}

fn lines() -> NegotiationCase {
    start_case(TransportKind::Lines, "discover newest probe")
}

fn http() -> NegotiationCase {
    start_case(TransportKind::Http, "discover newest probe")
}

fn pinned(transport: TransportKind, pin: &str, expected: &str) -> NegotiationCase {
    // A pin overrides the cached revision.
    for remembered in [Some("2024-11-05"), Some(NEWEST)] {
        assert_eq!(NegotiationCase::new(transport, Some(pin), remembered).last, expected);
    }
    NegotiationCase::new(transport, Some(pin), None)
}

fn with_cached_revision(transport: TransportKind, last: &str, expected: &str) -> NegotiationCase {
    let case = NegotiationCase::new(transport, None, Some(last));
    assert_eq!(case.last, expected);
    case
}

fn discover_result(versions: &[&str]) -> Value {
    json!({"result": {
        "resultType": "complete", "supportedVersions": versions,
        "capabilities": {"tools": {}}, "ttlMs": 5, "cacheScope": "public", "instructions": "Be kind",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "harbour", "version": "1"}},
    }})
}

fn initialize_result(version: &str) -> Value {
    json!({"result": {"protocolVersion": version, "capabilities": {"tools": {}}, "instructions": "Be kind",
        "serverInfo": {"name": "pier", "version": "2"}}})
}

fn error_of(code: i32) -> Value {
    json!({"error": {"code": code, "message": "no"}})
}

fn unsupported(code: i32, versions: &[&str]) -> Value {
    json!({"error": {"code": code, "message": "Unsupported protocol version",
        "data": {"supported": versions, "requested": "x"}}})
}

/// Returns the step after a refusal of the newest revision without a list: the one before, if it is modern.
fn after_bare_refusal() -> String {
    match modern_dates().get(1) {
        Some(older) => format!("discover {older} handshake"),
        None => "fail unsupported_protocol_version".to_owned(),
    }
}

const BOTH: [TransportKind; 2] = [TransportKind::Lines, TransportKind::Http];
const INITIALIZE_STEP: &str = "initialize 2025-11-25 handshake";
const REOPEN_STEP: &str = "initialize 2025-11-25 reopen handshake";
const DISCOVER_STEP: &str = "discover newest handshake";
const OPEN_MODERN: &str = "open newest harbour";
const OPEN_LEGACY: &str = "open 2025-11-25 pier";

/// Returns the same reply over either transport.
fn answer(
    transport: TransportKind,
    lines: fn(Value) -> ServerBehaviour,
    body: Value,
) -> ServerBehaviour {
    match transport {
        TransportKind::Lines => lines(body),
        TransportKind::Http => Http(200, body),
    }
}
