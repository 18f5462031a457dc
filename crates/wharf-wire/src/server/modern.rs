//! Requests that carry version, identity and capabilities themselves. They leave nothing behind.

use std::sync::Arc;

use wharf_model::{Error, InputMode, LogLevel, Method, TaskRequest};

use crate::{
    McpHeaders, Received, Revision, ServerProtocol,
    json::envelope::Slot,
    server::message::{Message, Refusal, bad_field, unknown_method},
    versions::revision::{Range, Verb},
};

const VERSION: &str = "_meta.io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "_meta.io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "_meta.io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "_meta.io.modelcontextprotocol/logLevel";

/// Checks in the specification's order: metadata, headers, version, method, parameters.
pub(crate) fn begin(
    wire: &Arc<ServerProtocol>,
    row: Option<(Verb, Range)>,
    message: &mut Message,
    heads: Option<&McpHeaders<'_>>,
) -> Result<Received, Refusal> {
    let refused = |error: Error| Refusal::new(error, Revision::MODERN);
    if let Some(heads) = heads.filter(|_| !wire.speaks_legacy()) {
        // Only where older clients are served may it be missing, and mean another era.
        heads.want_version().map_err(refused)?;
    }
    metadata(wire, message).map_err(malformed)?;
    let method = match row.filter(|row| row.1.has(Revision::MODERN)) {
        Some((Verb::Call(Method::Listen), _)) if !wire.streams => None,
        Some((Verb::Call(method), _)) => Some(method),
        _ => None,
    };
    if let Some(heads) = heads {
        heads.check(message, method).map_err(refused)?;
    }
    let version = message.text(Slot::MetaVersion).unwrap_or_default();
    if !version.parse::<Revision>().is_ok_and(Revision::is_modern) {
        return Err(refused(wire.unsupported(&version)));
    }
    let Some(method) = method else {
        return Err(refused(unknown_method(&message.text(Slot::Method).unwrap_or_default())));
    };
    let level = log_level(message).map_err(malformed)?;
    let tasking = message.declared_tasking();
    let mut codec = message.codec(wire, method, Revision::MODERN);
    codec.may_be_task = method == Method::CallTool && tasking == TaskRequest::Welcome;
    let mut request = message.take_request(wire, method, Revision::MODERN).map_err(refused)?;
    request.asks = InputMode::Suspend;
    request.tasking = tasking;
    request.log_level = level.filter(|_| wire.streams);
    if method == Method::CallTool {
        request.mirrored = heads.map(McpHeaders::mirrored);
    }
    Ok(Received::Call(request, codec))
}

fn metadata(wire: &ServerProtocol, message: &Message) -> Result<(), Error> {
    message.check_objects()?;
    if !message.is_text(Slot::MetaVersion) {
        return Err(bad_field(VERSION, "must be a string"));
    }
    if !message.span(Slot::MetaCapabilities).is_some() {
        return Err(bad_field(CAPABILITIES, "must be an object"));
    }
    message.want_client(wire, Slot::MetaCapabilities, CAPABILITIES)?;
    message.want_client(wire, Slot::MetaClient, CLIENT)
}

fn log_level(message: &Message) -> Result<Option<LogLevel>, Error> {
    let Some(json) = message.raw(Slot::MetaLevel) else { return Ok(None) };
    match serde_json::from_str(json) {
        Ok(level) => Ok(Some(level)),
        Err(_) => Err(bad_field(LEVEL, "must be a log level")),
    }
}

/// On HTTP, malformed metadata is the request's fault, not the call's.
fn malformed(error: Error) -> Refusal {
    Refusal { status: Some(400), ..Refusal::new(error, Revision::MODERN) }
}
