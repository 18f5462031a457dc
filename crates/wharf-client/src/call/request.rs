//! [`CallSpec`]: a request that can be built and sent more than once.

use std::{borrow::Cow, collections::BTreeMap};

use serde::Serialize;
use serde_json::{Value, value::RawValue};
use wharf_model::{Error, ErrorKind, FailureOrigin, Meta, Method, Request, RequestBuilder};

/// Maximum length of arguments. Transports have far lower limits.
const MAX_ARGUMENT_BYTES: usize = 1 << 30;

/// The parts of a request, kept so that it can be sent more than once.
#[derive(Clone, Debug)]
pub(crate) struct CallSpec {
    pub(crate) method: Method,
    /// The tool, prompt, resource or task; for a custom method, its name.
    pub(crate) target: Option<String>,
    /// A JSON object, as text.
    pub(crate) arguments: Option<String>,
    pub(crate) cursor: Option<String>,
    /// Other parameters, as JSON text.
    pub(crate) params: Vec<(Cow<'static, str>, String)>,
    pub(crate) meta: Option<Meta>,
}

impl CallSpec {
    pub(crate) fn new(method: Method) -> Self {
        let (target, arguments, cursor) = (None, None, None);
        CallSpec { method, target, arguments, cursor, params: Vec::new(), meta: None }
    }

    pub(crate) fn named(method: Method, target: impl Into<String>) -> Self {
        CallSpec { target: Some(target.into()), ..CallSpec::new(method) }
    }

    /// Sets the arguments, which must serialize as an object or as `null` for none.
    pub(crate) fn arguments(mut self, arguments: &impl Serialize) -> Result<Self, Error> {
        self.arguments = object("Arguments", arguments)?;
        Ok(self)
    }

    /// Sets all parameters from the text of a JSON object.
    pub(crate) fn all_params(mut self, json: &str) -> Result<Self, Error> {
        let members: BTreeMap<String, &RawValue> =
            serde_json::from_str(json).map_err(Error::invalid_params)?;
        for (name, value) in members {
            match &*name {
                "_meta" => {
                    self.meta = serde_json::from_str(value.get()).map_err(Error::invalid_params)?;
                }
                _ => self.params.push((name.into(), value.get().into())),
            }
        }
        Ok(self)
    }

    pub(crate) fn param(mut self, name: &'static str, value: &Value) -> Self {
        self.params.push((name.into(), value.to_string()));
        self
    }

    /// Copies a received request, without its input responses and request state.
    pub(crate) fn of(request: &Request) -> Result<Self, Error> {
        let params: BTreeMap<Cow<'_, str>, &RawValue> =
            serde_json::from_str(request.params()).map_err(Error::invalid_params)?;
        let mut spec = CallSpec::new(request.method);
        if request.method == Method::Custom {
            spec.target = Some(request.target().into_owned());
        }
        let mirrored = request.method.info().mirrored;
        for (name, value) in params {
            let json = value.get();
            match &*name {
                name if Some(name) == mirrored => {
                    spec.target = Some(request.target().into_owned());
                }
                "arguments" => spec.arguments = Some(json.into()),
                "_meta" => spec.meta = serde_json::from_str(json).map_err(Error::invalid_params)?,
                "inputResponses" | "requestState" if request.method != Method::Custom => {}
                "inputResponses" if request.input_responses().is_some() => {}
                "requestState" if request.request_state().is_some() => {}
                _ => spec.params.push((name.into_owned().into(), json.into())),
            }
        }
        Ok(spec)
    }

    /// Builds the request, with the fields of a retry if there are any.
    pub(crate) fn build(&self, retry: Option<&RetryParams>) -> Request {
        let mut request = match (self.method, &self.target) {
            (Method::Custom, name) => RequestBuilder::custom(name.as_deref().unwrap_or_default()),
            (method, Some(target)) => RequestBuilder::new(method).target(target),
            (method, None) => RequestBuilder::new(method),
        };
        if let Some(arguments) = &self.arguments {
            request = request.arguments(arguments);
        }
        if let Some(cursor) = &self.cursor {
            request = request.cursor(cursor);
        }
        for (name, json) in &self.params {
            request = request.param(name, json);
        }
        if let Some(responses) = retry.and_then(|it| it.responses.as_ref()) {
            request = request.input_responses(responses);
        }
        if let Some(state) = retry.and_then(|it| it.state.as_ref()) {
            request = request.request_state(state);
        }
        if let Some(meta) = &self.meta {
            request = request.meta(&Value::Object(meta.clone()).to_string());
        }
        request.build()
    }

    /// The cache key: the parameters of the request.
    pub(crate) fn key(&self) -> String {
        self.build(None).params().to_owned()
    }
}

/// Fields of a request that is sent again after `input_required`.
#[derive(Clone, Debug, Default)]
pub(crate) struct RetryParams {
    /// A JSON object, as text: one response for each key.
    pub(crate) responses: Option<String>,
    pub(crate) state: Option<String>,
}

/// Serializes a value that must be an object, or `null`.
pub(crate) fn object(what: &str, value: &impl Serialize) -> Result<Option<String>, Error> {
    let wrong = |kind, problem: String| {
        Error::new(kind).with_message(problem).from_client(FailureOrigin::Usage)
    };
    let invalid = |problem| wrong(ErrorKind::InvalidParams, problem);
    let json = serde_json::to_string(value)
        .map_err(|error| invalid(format!("{what} cannot be written as JSON: {error}")))?;
    if json.len() > MAX_ARGUMENT_BYTES {
        let message = format!("{what} are longer than {MAX_ARGUMENT_BYTES} bytes");
        return Err(wrong(ErrorKind::ContentTooLarge, message));
    }
    match json.as_bytes().first() {
        Some(b'{') => Ok(Some(json)),
        Some(b'n') => Ok(None),
        _ => {
            Err(invalid(format!("{what} must be a JSON object, such as `args! {{ name: value }}`")))
        }
    }
}
