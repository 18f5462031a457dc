//! Whatever a server does when a conversation opens, and what follows from it.

mod answers;
mod held;
mod trouble;

use std::sync::Arc;

use serde_json::{Value, json};
use wharf_model::{ErrorKind, Implementation};
use wharf_wire::{
    Answered, CallId, Carrier, ClientIdentity, Negotiation, Patience, Revision, ServerMessage, Step,
};

use crate::common::*;

/// What happens next.
#[derive(Clone, Debug)]
enum Event {
    /// The last `server/discover` is answered so, over lines.
    Discover(Value),
    /// The last `initialize` is answered so, over lines.
    Initialize(Value),
    /// A reply to something else.
    Stray,
    /// An HTTP answer; the id of the last request is put into a body that is a reply.
    Http(u16, Value),
    /// An HTTP answer of other bytes.
    Bytes(u16, &'static [u8]),
    Silence,
    Closed,
    /// HTTP+SSE is there.
    Events,
}
use Event::{Bytes, Closed, Discover, Events, Http, Initialize, Silence, Stray};

/// One server, as seen through an opening.
struct Case {
    carrier: Carrier,
    opening: Negotiation,
    asked: [u64; 2],
    /// The last step in a few words.
    last: String,
    step: Step,
}

const DISCOVER: usize = 0;
const INITIALIZE: usize = 1;

impl Case {
    fn new(carrier: Carrier, pin: Option<&str>, remembered: Option<&str>) -> Case {
        let client =
            ClientIdentity { info: Implementation::new("c", "1"), ..ClientIdentity::default() };
        let (pin, remembered) = (pin.map(revision), remembered.map(revision));
        let mut opening = Negotiation::new(Arc::new(client), carrier, pin, remembered);
        let step = opening.start();
        let mut case = Case { carrier, opening, asked: [0, 0], last: String::new(), step };
        case.look();
        case
    }

    /// Notes what the step is.
    fn look(&mut self) {
        let http = self.carrier == Carrier::Http;
        let patience = |it: &Patience| format!("{it:?}").to_lowercase();
        self.last = match &self.step {
            Step::Send { message, headers, patience: wait, reopen } => {
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
                format!("{name} {}{again} {}", version.as_str().unwrap(), patience(wait))
            }
            Step::Wait(wait) => format!("wait {}", patience(wait)),
            Step::Open { talk, info, then, .. } => {
                let then = then.as_ref().map(|bytes| parse(bytes)["method"].to_string());
                assert_eq!(then.is_some(), !talk.is_modern());
                assert!(then.is_none_or(|then| then == "\"notifications/initialized\""));
                format!("open {} {}", talk.revision(), info.name)
            }
            Step::TryEvents => "events".to_owned(),
            Step::Fail(error) => format!("fail {}", error.kind),
        };
    }

    fn goes(mut self, event: Event, expected: &str) -> Case {
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
                self.opening.answered(Answered::Http { status, body: body.as_bytes() })
            }
            Bytes(status, body) => self.opening.answered(Answered::Http { status, body }),
            Silence => self.opening.answered(Answered::Silence),
            Closed => self.opening.answered(Answered::Closed),
            Events => self.opening.over_events(),
        };
        self.look();
        assert_eq!(self.last, expected, "after {happened}");
        self
    }

    fn replied(&mut self, message: &str) -> Step {
        let heard = self.opening.talk().hear(message.to_owned().into()).unwrap();
        let [ServerMessage::Reply { id: Some(id), result }] = &heard[..] else {
            panic!("{heard:?}")
        };
        self.opening.answered(Answered::Reply(id.clone(), result.as_deref()))
    }

    fn error(self) -> wharf_model::Error {
        match self.step {
            Step::Fail(error) => error,
            other => panic!("{other:?}"),
        }
    }
}

fn begins(carrier: Carrier, expected: &str) -> Case {
    let case = Case::new(carrier, None, None);
    assert_eq!(case.last, expected);
    case
}

fn lines() -> Case {
    begins(Carrier::Lines, "discover 2026-07-28 probe")
}

fn http() -> Case {
    begins(Carrier::Http, "discover 2026-07-28 probe")
}

fn pinned(carrier: Carrier, pin: &str, expected: &str) -> Case {
    // What is remembered does not count beside a pin.
    for remembered in [Some("2024-11-05"), Some(MODERN)] {
        assert_eq!(Case::new(carrier, Some(pin), remembered).last, expected);
    }
    Case::new(carrier, Some(pin), None)
}

fn remembering(carrier: Carrier, last: &str, expected: &str) -> Case {
    let case = Case::new(carrier, None, Some(last));
    assert_eq!(case.last, expected);
    case
}

fn speaks(versions: &[&str]) -> Value {
    json!({"result": {
        "resultType": "complete", "supportedVersions": versions,
        "capabilities": {"tools": {}}, "ttlMs": 5, "cacheScope": "public", "instructions": "Be kind",
        "_meta": {"io.modelcontextprotocol/serverInfo": {"name": "harbour", "version": "1"}},
    }})
}

fn chose(version: &str) -> Value {
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

const BOTH: [Carrier; 2] = [Carrier::Lines, Carrier::Http];
const SHAKE: &str = "initialize 2025-11-25 handshake";
const SHAKE_ANEW: &str = "initialize 2025-11-25 reopen handshake";
const AGAIN: &str = "discover 2026-07-28 handshake";
const OPEN: &str = "open 2026-07-28 harbour";
const OLD: &str = "open 2025-11-25 pier";

/// The same reply over either carrier.
fn answer(carrier: Carrier, lines: fn(Value) -> Event, body: Value) -> Event {
    match carrier {
        Carrier::Lines => lines(body),
        Carrier::Http => Http(200, body),
    }
}
