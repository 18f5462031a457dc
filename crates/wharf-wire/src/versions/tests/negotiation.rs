//! Negotiation of the made-up revision, and of the one before it with a server that lacks it.

use serde_json::{Value, json};
use wharf_model::Reply;

use super::{NEW, OLD, encoded, protocol, revision};
use crate::{
    AllowedRevisions, ClientIdentity, Negotiation, NegotiationEvent, NegotiationStep, Received,
    TransportKind,
};

fn start(pin: Option<&str>, remembered: Option<&str>) -> (Negotiation, NegotiationStep) {
    let identity = ClientIdentity::default().into();
    let allowed = pin.map(revision).map_or(AllowedRevisions::Any, AllowedRevisions::One);
    let remembered = remembered.map(revision);
    let mut negotiation = Negotiation::new(identity, TransportKind::Http, allowed, remembered);
    let step = negotiation.start();
    (negotiation, step)
}

/// Returns the message of the step, whose header and body name the revision `date`.
fn sent(step: &NegotiationStep, date: &str) -> Value {
    let NegotiationStep::Send { message, headers, .. } = step else { panic!("{step:?}") };
    let message: Value = serde_json::from_slice(message).unwrap();
    assert_eq!(message["method"], "server/discover");
    let named = &message["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    assert_eq!((named, headers[0].1.as_str()), (&json!(date), date));
    message
}

fn answer(negotiation: &mut Negotiation, id: &Value, mut reply: Value) -> NegotiationStep {
    reply["jsonrpc"] = "2.0".into();
    reply["id"] = id.clone();
    let status = if reply.get("error").is_some() { 400 } else { 200 };
    let body = reply.to_string();
    negotiation.answered(NegotiationEvent::Http { status, body: body.as_bytes() })
}

fn refused(supported: &[&str]) -> Value {
    json!({"error": {"code": -32022, "message": "no", "data": {"supported": supported}}})
}

fn discovered(supported: &[&str]) -> Value {
    json!({"result": {"resultType": "complete", "supportedVersions": supported,
        "capabilities": {}, "ttlMs": 0, "cacheScope": "private"}})
}

fn opened(step: &NegotiationStep) -> &'static str {
    let NegotiationStep::Open { codec, .. } = step else { panic!("{step:?}") };
    codec.revision().as_str()
}

#[test]
fn the_newest_common_revision_is_negotiated() {
    for remembered in [None, Some(NEW)] {
        let (mut negotiation, step) = start(None, remembered);
        let message = sent(&step, NEW);
        let Received::Call(_, codec) = protocol().receive(message.to_string().into(), None) else {
            panic!("{message}")
        };
        let (reply, status) = encoded(&codec, Reply::Discover(Box::default()));
        let body = reply.to_string();
        let step = negotiation.answered(NegotiationEvent::Http { status, body: body.as_bytes() });
        assert_eq!(opened(&step), NEW);
    }
}

#[test]
fn an_older_server_is_negotiated_to_the_revision_before() {
    // The last server refuses without a list.
    for supported in [&[OLD, "2025-11-25"][..], &["2030-01-01", OLD], &[]] {
        let (mut negotiation, step) = start(None, None);
        let id = &sent(&step, NEW)["id"];
        let step = answer(&mut negotiation, id, refused(supported));
        let id = &sent(&step, OLD)["id"];
        assert_eq!(opened(&answer(&mut negotiation, id, discovered(&[OLD]))), OLD);
    }
    // It may also answer, and list what it has.
    let (mut negotiation, step) = start(None, None);
    let id = &sent(&step, NEW)["id"];
    assert_eq!(opened(&answer(&mut negotiation, id, discovered(&[OLD]))), OLD);
}

#[test]
fn a_server_that_refuses_a_listed_revision_gets_the_one_before() {
    let (mut negotiation, step) = start(None, None);
    let id = &sent(&step, NEW)["id"];
    let step = answer(&mut negotiation, id, refused(&[NEW, OLD]));
    let id = &sent(&step, NEW)["id"];
    let step = answer(&mut negotiation, id, refused(&[NEW, OLD]));
    let id = &sent(&step, OLD)["id"];
    let step = answer(&mut negotiation, id, refused(&[NEW, OLD]));
    assert!(matches!(step, NegotiationStep::Fail(_)), "{step:?}");
}

#[test]
fn a_pinned_client_negotiates_only_its_revision() {
    for supported in [&[OLD][..], &[]] {
        let (mut negotiation, step) = start(Some(NEW), None);
        let id = &sent(&step, NEW)["id"];
        let step = answer(&mut negotiation, id, refused(supported));
        assert!(matches!(step, NegotiationStep::Fail(_)), "{step:?}");
    }
    let (mut negotiation, step) = start(Some(OLD), Some(NEW));
    let id = &sent(&step, OLD)["id"];
    assert_eq!(opened(&answer(&mut negotiation, id, discovered(&[NEW, OLD]))), OLD);
}

#[test]
fn an_upgraded_server_is_detected_with_one_request() {
    let (mut negotiation, step) = start(None, Some(OLD));
    let id = &sent(&step, OLD)["id"];
    assert_eq!(opened(&answer(&mut negotiation, id, discovered(&[NEW, OLD]))), NEW);
}

#[test]
fn a_code_of_its_own_shows_a_modern_server() {
    let (mut negotiation, step) = start(None, None);
    let id = &sent(&step, NEW)["id"];
    let error = json!({"error": {"code": -32030, "message": "no"}});
    let step = answer(&mut negotiation, id, error);
    assert!(matches!(step, NegotiationStep::Fail(_)), "{step:?}");
}
