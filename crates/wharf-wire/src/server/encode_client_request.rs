//! Encodes server-to-client requests (elicitation, sampling, roots) for each revision.

use std::hash::{DefaultHasher, Hash, Hasher};

use serde_json::{Value, json};
use wharf_model::{
    ClientCapability, ClientRequest, ElicitForm, ElicitUrl, Error, InputRequired, SamplingRequest,
};

use crate::server::codec::write_cancelled;
use crate::{
    json::{writer, writer::ObjectWriter},
    server::codec::Codec,
    versions::{revision::Feature, translate},
};

impl Codec {
    /// Writes an `input_required` result, if the client declared the capability for each request.
    pub(crate) fn input_required(&self, input: &InputRequired, out: &mut Vec<u8>) -> u16 {
        let mut needs = input.requests.iter().map(|(_, ask)| ask.needs());
        if let Some(missing) = needs.find(|wanted| !self.client_can(wanted)) {
            return self.refuse(&Error::missing_capability(missing), out);
        }
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        message.plain("id", self.id_json());
        let mut result = message.object("result");
        result.plain("resultType", "\"input_required\"");
        if !input.requests.is_empty() {
            self.write_requests(&input.requests, &mut result);
        }
        if let Some(state) = &input.state {
            result.text("requestState", state);
        }
        self.write_meta(&mut result, None);
        result.close();
        message.close();
        200
    }

    /// Writes the input requests, each under its key.
    pub(crate) fn write_requests(
        &self,
        asked: &[(String, ClientRequest)],
        result: &mut ObjectWriter<'_>,
    ) {
        let mut requests = result.object("inputRequests");
        for (key, asked) in asked {
            let mut request = ObjectWriter::open(requests.any_key(key));
            request.text("method", asked.method().name());
            if let Some(params) = params(asked, self, 0).filter(|it| !it.is_null()) {
                request.json("params", &params);
            }
            request.close();
        }
        requests.close();
    }
}

/// Returns whether the result has requests or state. Without either, the client would retry for ever.
pub(crate) fn has_content(input: &InputRequired) -> bool {
    input.state.is_some() || !input.requests.is_empty()
}

/// Returns the parameters of a request: `null` if it has none; none if the revision does not have the request.
pub(crate) fn params(ask: &ClientRequest, codec: &Codec, number: u64) -> Option<Value> {
    match ask {
        ClientRequest::Elicit(form) => self::form(form, codec),
        ClientRequest::ElicitUrl(url) => self::url(url, codec, number),
        ClientRequest::Sample(request) => Some(sampling(request, codec)),
        ClientRequest::Roots => Some(Value::Null),
    }
}

fn form(form: &ElicitForm, codec: &Codec) -> Option<Value> {
    let revision = codec.revision;
    if !revision.has(Feature::Elicitation) {
        return None;
    }
    let mut schema = form.schema.clone();
    translate::form(&mut schema, revision);
    let mut params = json!({"message": form.message, "requestedSchema": schema});
    if revision.has(Feature::ElicitationModes) {
        params["mode"] = "form".into();
    }
    Some(params)
}

fn url(asked: &ElicitUrl, codec: &Codec, number: u64) -> Option<Value> {
    let revision = codec.revision;
    if !revision.has(Feature::ElicitationModes) {
        return None;
    }
    let mut params = json!({"mode": "url", "message": asked.message, "url": asked.url});
    if revision.has(Feature::ElicitationIds) {
        let id = asked.id.clone().unwrap_or_else(|| elicitation_id(asked, number));
        params["elicitationId"] = id.into();
    }
    Some(params)
}

/// Returns a stable id: the same elicitation under the same number has the same id.
fn elicitation_id(asked: &ElicitUrl, number: u64) -> String {
    let mut hasher = DefaultHasher::new();
    (&asked.url, &asked.message).hash(&mut hasher);
    format!("{number}-{:016x}", hasher.finish())
}

fn sampling(request: &SamplingRequest, codec: &Codec) -> Value {
    let mut params = serde_json::to_value(request).unwrap_or_default();
    translate::sampling_params(&mut params, codec.revision);
    let wants_context = request.include_context.as_deref().is_some_and(|it| it != "none");
    if let Value::Object(params) = &mut params
        && wants_context
        && !codec.client_can(&ClientCapability::SamplingContext)
    {
        params.remove("includeContext");
    }
    params
}

/// Returns the URL elicitations listed in the error, each under a separate key.
pub(crate) fn elicitation_urls(error: &Error) -> Vec<(String, ClientRequest)> {
    let listed = error.data.as_deref().and_then(|data| data["elicitations"].as_array());
    let read = |(index, it): (usize, &Value)| {
        let asked: ElicitUrl = serde_json::from_value(it.clone()).ok()?;
        Some((format!("url-{}", index + 1), ClientRequest::ElicitUrl(Box::new(asked))))
    };
    listed.into_iter().flatten().enumerate().filter_map(read).collect()
}

/// Returns the error and its URLs as text, for clients that can only display text.
pub(crate) fn urls_as_text(error: &Error, asked: &[(String, ClientRequest)]) -> String {
    let mut text = error.message.to_string();
    for (_, ask) in asked {
        if let ClientRequest::ElicitUrl(asked) = ask {
            text.push_str(&format!("\n{}: {}", asked.message, asked.url));
        }
    }
    text
}

impl Codec {
    /// Writes a server-to-client request with this number as its id. Returns false, and writes nothing, if the
    /// revision does not have it here.
    pub fn ask(&self, number: u64, ask: &ClientRequest, out: &mut Vec<u8>) -> bool {
        if !self.revision.has(Feature::ServerRequests) {
            return false;
        }
        let Some(mut params) = params(ask, self, number) else {
            return false;
        };
        self.add_related_task(&mut params);
        let mut message = ObjectWriter::open(out);
        message.plain("jsonrpc", "\"2.0\"");
        writer::integer(message.key("id"), number);
        message.text("method", ask.method().name());
        if !params.is_null() {
            message.json("params", &params);
        }
        message.close();
        true
    }

    /// Writes the cancellation of the server-to-client request with this number.
    pub fn withdraw(&self, number: u64, out: &mut Vec<u8>) {
        if self.revision.has(Feature::ServerRequests) {
            write_cancelled(out, &number.to_string(), "the response is no longer needed");
        }
    }
}
