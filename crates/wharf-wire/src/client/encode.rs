//! Encodes the messages of a client.

use std::sync::Arc;

use serde_json::{Value, value::RawValue};
use wharf_model::{
    CustomNotification, Error, ErrorKind, FailureOrigin, LogLevel, Method, Request, TaskRequest,
};

use crate::client::{ClientCodec, ClientIdentity};
use crate::{
    CallId, ErrorProfile, Revision,
    json::{field_spans, scanner, writer, writer::ObjectWriter},
    server::{codec::write_cancelled, encode_error::write_error, message::invalid_field},
    versions::{
        fields::VersionedType,
        revision::{Feature, RequestKind},
        translate,
    },
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";
const TOKEN: &str = "progressToken";

/// Client info and capabilities in the form of one revision, as JSON.
#[derive(Debug)]
pub(super) struct IdentityJson {
    capabilities: Box<str>,
    info: Box<str>,
}

impl IdentityJson {
    pub(super) fn new(client: &ClientIdentity, revision: Revision) -> Self {
        let mut capabilities = serde_json::to_value(&client.capabilities).unwrap_or_default();
        translate::client_capabilities(&mut capabilities, revision);
        let mut info = serde_json::to_value(&client.info).unwrap_or_default();
        translate::implementation(&mut info, revision);
        IdentityJson {
            capabilities: capabilities.to_string().into(),
            info: info.to_string().into(),
        }
    }
}

/// Options of a request that go into `_meta`.
#[derive(Clone, Copy, Default)]
struct MetaOptions {
    /// Progress; if `None`, it is requested if the caller's `_meta` has a progress token.
    progress: Option<bool>,
    level: Option<LogLevel>,
}

impl ClientCodec {
    /// Writes a call. The call's id serves as its progress token.
    ///
    /// # Errors
    /// If the revision does not have the call (discovery and subscriptions in a legacy one), or if its
    /// parameters are not a JSON object.
    pub fn call(&self, request: &Request, id: &CallId, out: &mut Vec<u8>) -> Result<(), Error> {
        let is_custom = request.method == Method::Custom;
        let custom = is_custom.then(|| request.method_name());
        let Some(name) = custom.as_deref().or_else(|| self.name(request.method)) else {
            let name = request.method.name();
            let message = format!("Revision {} does not have `{name}`", self.revision);
            let error = Error::method_not_found(name).with_message(message);
            return Err(error.from_client(FailureOrigin::Usage));
        };
        // Without its state the call would start again and repeat its effects.
        if !self.revision.has(Feature::InputRequests) && request.request_state().is_some() {
            let problem = "is unknown or has expired: call again without it";
            return Err(invalid_field("requestState", problem).from_client(FailureOrigin::Usage));
        }
        let options = MetaOptions { progress: Some(request.progress), level: request.log_level };
        // All parameters of a custom method are the caller's.
        let unknown = VersionedType::CallParams.unknown_to(self.revision).filter(|_| !is_custom);
        let unknown: Vec<_> = unknown.collect();
        self.write(name, Some(id), out, |params| {
            let mut has_filter = false;
            let calls_tool = request.method == Method::CallTool;
            let meta = copy(request.params(), params, |key| {
                has_filter |= key == "notifications";
                // The `task` parameter is written below; one among the parameters is ignored.
                !(unknown.contains(&key) || calls_tool && key == "task")
            })?;
            if calls_tool {
                self.write_task_request(request.tasking, params);
            }
            if let Some(filter) = request.filter.as_ref().filter(|_| !has_filter) {
                filter.read(|filter| params.json("notifications", filter));
            }
            self.write_meta(params, meta, id, options)
        })
    }

    /// Writes a request with any method name, and the metadata that the revision requires beside the caller's
    /// own. `params` is the text of a JSON object. A progress token in it is replaced by the request's id, by
    /// which progress is routed.
    ///
    /// ```
    /// use wharf_wire::{CallId, ClientIdentity, Revision, ClientCodec};
    ///
    /// let codec = ClientCodec::new(Revision::NEWEST_LEGACY, ClientIdentity::default().into());
    /// let mut out = Vec::new();
    /// codec.request("com.example/moor", Some(r#"{"pier":3}"#), &CallId::from(1), &mut out).unwrap();
    /// assert_eq!(
    ///     out,
    ///     br#"{"jsonrpc":"2.0","id":1,"method":"com.example/moor","params":{"pier":3}}"#
    /// );
    /// ```
    ///
    /// # Errors
    /// If `params` is not a JSON object.
    pub fn request(
        &self,
        method: &str,
        params: Option<&str>,
        id: &CallId,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        let given = params.unwrap_or("{}");
        if params.is_none() && !self.is_modern() {
            open(out, Some(id), method).close();
            return Ok(());
        }
        self.write(method, Some(id), out, |params| {
            let meta = copy(given, params, |_| true)?;
            self.write_meta(params, meta, id, MetaOptions::default())
        })
    }

    /// Writes a request that every server answers, to check that the connection is alive.
    pub fn ping(&self, id: &CallId, out: &mut Vec<u8>) {
        // Fails only for invalid parameters, and there are none.
        let _ = self.request(self.ping_method(), None, id, out);
    }

    /// Writes `logging/setLevel`. Returns false, and writes nothing, where each request carries its level.
    pub fn set_log_level(&self, level: LogLevel, id: &CallId, out: &mut Vec<u8>) -> bool {
        self.write_single_param("logging/setLevel", ("level", level.as_str()), id, out)
    }

    /// Writes a subscription to a resource, or its end. Returns false, and writes nothing, where
    /// `subscriptions/listen` replaces it.
    pub fn subscribe(&self, uri: &str, on: bool, id: &CallId, out: &mut Vec<u8>) -> bool {
        let method = if on { "resources/subscribe" } else { "resources/unsubscribe" };
        self.write_single_param(method, ("uri", uri), id, out)
    }

    /// Writes that the client's roots changed. Returns false, and writes nothing, if the revision has no such
    /// notification or the client declared no roots.
    pub fn roots_changed(&self, out: &mut Vec<u8>) -> bool {
        let due = self.has_server_requests() && self.client.capabilities.roots.is_some();
        if due {
            open(out, None, "notifications/roots/list_changed").close();
        }
        due
    }

    /// Writes a notification of an extension, with the metadata that the revision requires.
    ///
    /// # Errors
    /// If its parameters are not a JSON object.
    pub fn custom_notification(
        &self,
        notification: &CustomNotification,
        out: &mut Vec<u8>,
    ) -> Result<(), Error> {
        self.write(&notification.method, None, out, |params| {
            let meta = copy(notification.params.get(), params, |_| true)?;
            let options = MetaOptions { progress: Some(false), level: None };
            // Without progress there is no token, and so no id.
            self.write_meta(params, meta, &CallId::from(0), options)
        })
    }

    /// Writes the cancellation of the call `id`.
    pub fn cancelled(&self, id: &CallId, reason: &str, out: &mut Vec<u8>) {
        write_cancelled(out, id.as_json(), reason);
    }

    /// Writes the response to a server request: the JSON text of a result, translated to the revision, or an
    /// error.
    ///
    /// ```
    /// use wharf_wire::{CallId, ClientIdentity, ClientCodec};
    ///
    /// let codec = ClientCodec::new("2024-11-05".parse().unwrap(), ClientIdentity::default().into());
    /// let identity = r#"{"model":"m","role":"assistant","content":[
    ///     {"type":"text","text":"a"},{"type":"text","text":"b"}]}"#;
    /// let mut out = Vec::new();
    /// codec.answer(&CallId::from(1), Ok(identity), &mut out);
    /// assert!(String::from_utf8(out).unwrap().contains(r#""text":"a\nb""#));
    /// ```
    pub fn answer(&self, id: &CallId, answer: Result<&str, &Error>, out: &mut Vec<u8>) {
        let error = match answer {
            Ok(json) => match self.translate_result(json) {
                Some(result) => return reply(out, id, &result),
                None => &Error::new(ErrorKind::InternalError),
            },
            Err(error) => error,
        };
        write_error(out, ErrorProfile::Spec, Some(id.as_json()), error, self.revision);
    }

    /// Writes the response to a ping.
    pub fn pong(&self, id: &CallId, out: &mut Vec<u8>) {
        reply(out, id, "{}");
    }

    /// Writes the `initialize` request.
    pub(super) fn initialize(&self, id: &CallId, out: &mut Vec<u8>) {
        let mut message = open(out, Some(id), "initialize");
        let mut params = message.object("params");
        params.text("protocolVersion", self.revision.as_str());
        params.plain("capabilities", &self.identity.capabilities);
        params.plain("clientInfo", &self.identity.info);
        params.close();
        message.close();
    }

    /// Writes `notifications/initialized`.
    pub(super) fn initialized(&self, out: &mut Vec<u8>) {
        open(out, None, "notifications/initialized").close();
    }

    pub(super) fn has_request(&self, method: &str) -> bool {
        RequestKind::named(method).is_some_and(|(_, revisions)| revisions.has(self.revision))
    }

    /// Writes a request with one parameter, if the revision has the request.
    fn write_single_param(
        &self,
        method: &str,
        field: (&str, &str),
        id: &CallId,
        out: &mut Vec<u8>,
    ) -> bool {
        let due = self.has_request(method);
        if due {
            let mut message = open(out, Some(id), method);
            let mut params = message.object("params");
            params.text(field.0, field.1);
            params.close();
            message.close();
        }
        due
    }

    /// Writes a request, or without an id a notification; `params` writes its parameters. If that fails, nothing
    /// is written.
    fn write(
        &self,
        method: &str,
        id: Option<&CallId>,
        out: &mut Vec<u8>,
        params: impl FnOnce(&mut ObjectWriter<'_>) -> Result<(), Error>,
    ) -> Result<(), Error> {
        let start = out.len();
        let mut message = open(out, id, method);
        let mut object = message.object("params");
        let written = params(&mut object);
        object.close();
        message.close();
        if written.is_err() {
            out.truncate(start);
        }
        written
    }

    /// Writes the `task` parameter, in the revision that has it.
    fn write_task_request(&self, task_request: TaskRequest, params: &mut ObjectWriter<'_>) {
        if let TaskRequest::Wanted(ttl) = task_request
            && self.revision.has(Feature::TaskRequests)
        {
            let mut task = params.object("task");
            if let Some(ttl) = ttl {
                writer::integer(task.key("ttl"), ttl);
            }
            task.close();
        }
    }

    /// Writes `_meta`: the caller's own members except those that the protocol layer sets, then the latter.
    fn write_meta(
        &self,
        params: &mut ObjectWriter<'_>,
        own: Option<&str>,
        id: &CallId,
        options: MetaOptions,
    ) -> Result<(), Error> {
        let mut level = options.level.map(LogLevel::as_str).map(str::to_owned);
        let modern = self.is_modern();
        if !modern && own.is_none() && options.progress != Some(true) {
            return Ok(());
        }
        let mut meta = params.object("_meta");
        let mut progress = options.progress;
        let walked = scanner::each_member(own.unwrap_or("{}"), |key, value| {
            match &*field_spans::unquote(key).unwrap_or_default() {
                VERSION | CAPABILITIES | CLIENT => {}
                LEVEL if level.is_none() => level = field_spans::unquote(value).map(Into::into),
                LEVEL => {}
                TOKEN => progress = progress.or(Some(true)),
                key => writer::raw(meta.any_key(key), value),
            }
        });
        if progress == Some(true) {
            meta.plain(TOKEN, id.as_json());
        }
        if modern {
            meta.text(VERSION, self.revision.as_str());
            meta.plain(CAPABILITIES, &self.identity.capabilities);
            meta.plain(CLIENT, &self.identity.info);
            if let Some(level) = level {
                meta.text(LEVEL, &level);
            }
        }
        meta.close();
        walked.map_err(|_| {
            invalid_field("_meta", "must be a JSON object").from_client(FailureOrigin::Usage)
        })
    }

    /// Translates a result to the revision; none if it is not JSON.
    fn translate_result(&self, json: &str) -> Option<Arc<str>> {
        if self.revision.has(Feature::SamplingTools) {
            return serde_json::from_str::<&RawValue>(json).ok().map(|raw| raw.get().into());
        }
        let mut value: Value = serde_json::from_str(json).ok()?;
        translate::answer(&mut value, self.revision);
        Some(value.to_string().into())
    }
}

/// Starts a request, or without an id a notification.
fn open<'a>(out: &'a mut Vec<u8>, id: Option<&CallId>, method: &str) -> ObjectWriter<'a> {
    let mut message = ObjectWriter::open(out);
    message.plain("jsonrpc", "\"2.0\"");
    if let Some(id) = id {
        message.plain("id", id.as_json());
    }
    message.text("method", method);
    message
}

fn reply(out: &mut Vec<u8>, id: &CallId, result: &str) {
    let mut message = ObjectWriter::open(out);
    message.plain("jsonrpc", "\"2.0\"");
    message.plain("id", id.as_json());
    message.raw("result", result);
    message.close();
}

/// Copies the members of a JSON object that `keep` selects; returns its `_meta`.
fn copy<'a>(
    from: &'a str,
    to: &mut ObjectWriter<'_>,
    mut keep: impl FnMut(&str) -> bool,
) -> Result<Option<&'a str>, Error> {
    let mut meta = None;
    let walked = scanner::each_member(from, |key, value| {
        let key = field_spans::unquote(key).unwrap_or_default();
        match &*key {
            "_meta" => meta = Some(value).filter(|json| *json != "null"),
            key if keep(key) => writer::raw(to.any_key(key), value),
            _ => {}
        }
    });
    match walked {
        Ok(()) => Ok(meta),
        Err(_) => {
            let error = invalid_field("params", "must be a JSON object");
            Err(error.from_client(FailureOrigin::Usage))
        }
    }
}
