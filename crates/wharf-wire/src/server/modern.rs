//! Modern (stateless) requests, which carry version, identity and capabilities.

use std::sync::Arc;

use wharf_model::{Error, InputMode, LogLevel, Method, TaskRequest};

use crate::{
    McpHeaders, Received, Revision, ServerProtocol,
    json::field_spans::MessageField,
    server::message::{Message, RequestRejection, invalid_field, unknown_method},
    versions::revision::{RequestKind, RevisionRange},
};

const VERSION: &str = "_meta.io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "_meta.io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "_meta.io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "_meta.io.modelcontextprotocol/logLevel";

/// Validates a request in the specification's order: metadata, headers, version, method, parameters.
pub(crate) fn begin(
    wire: &Arc<ServerProtocol>,
    row: Option<(RequestKind, RevisionRange)>,
    message: &mut Message,
    headers: Option<&McpHeaders<'_>>,
) -> Result<Received, RequestRejection> {
    let version = message.text(MessageField::MetaVersion).unwrap_or_default();
    let requested = modern_revision(&version);
    // A request of an unknown revision is refused in the newest one.
    let revision = requested.unwrap_or(Revision::NEWEST);
    let refused = |error: Error| RequestRejection::new(error, revision);
    // Malformed metadata is a fault of the HTTP request.
    let malformed = |error: Error| RequestRejection { status: Some(400), ..refused(error) };
    if let Some(headers) = headers.filter(|_| !wire.has_sessions()) {
        // The header may be missing only on servers with legacy clients, where that means the legacy era.
        headers.require_version().map_err(refused)?;
    }
    metadata(wire, message).map_err(malformed)?;
    let method = match row.filter(|row| row.1.has(revision)) {
        Some((RequestKind::Call(Method::Listen), _)) if !wire.streams => None,
        Some((RequestKind::Call(method), _)) => Some(method),
        _ => None,
    };
    if let Some(headers) = headers {
        headers.check(message, method).map_err(refused)?;
    }
    if requested.is_none() {
        return Err(refused(wire.unsupported_version(&version)));
    }
    let Some(method) = method else {
        return Err(refused(unknown_method(
            &message.text(MessageField::Method).unwrap_or_default(),
        )));
    };
    let level = log_level(message).map_err(malformed)?;
    let task_request = message.task_request_from_capabilities();
    let mut codec = message.codec(wire, method, revision);
    codec.may_be_task = method == Method::CallTool && task_request == TaskRequest::Welcome;
    let mut request = message.take_request(wire, method, revision).map_err(refused)?;
    request.asks = InputMode::Suspend;
    request.tasking = task_request;
    request.log_level = level.filter(|_| wire.streams);
    if method == Method::CallTool {
        request.mirrored = headers.map(McpHeaders::mirrored);
    }
    Ok(Received::Call(request, codec))
}

/// Returns the revision of this date, if it is a modern one.
pub(crate) fn modern_revision(date: &str) -> Option<Revision> {
    date.parse().ok().filter(|revision: &Revision| revision.is_modern())
}

fn metadata(wire: &ServerProtocol, message: &Message) -> Result<(), Error> {
    message.check_objects()?;
    if !message.is_string(MessageField::MetaVersion) {
        return Err(invalid_field(VERSION, "must be a string"));
    }
    if !message.span(MessageField::MetaCapabilities).is_some() {
        return Err(invalid_field(CAPABILITIES, "must be an object"));
    }
    message.check_client_field(wire, MessageField::MetaCapabilities, CAPABILITIES)?;
    message.check_client_field(wire, MessageField::MetaClient, CLIENT)
}

fn log_level(message: &Message) -> Result<Option<LogLevel>, Error> {
    let Some(json) = message.raw(MessageField::MetaLevel) else { return Ok(None) };
    match serde_json::from_str(json) {
        Ok(level) => Ok(Some(level)),
        Err(_) => Err(invalid_field(LEVEL, "must be a log level")),
    }
}
