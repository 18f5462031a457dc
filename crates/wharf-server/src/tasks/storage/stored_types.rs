//! Stored forms of the call, client requests and errors of a task.

use serde::{Deserialize, Serialize};
use serde_json::{Value, value::RawValue};
use wharf_model::{
    CallErrorType, ClientCapabilities, ClientRequest, ElicitForm, ElicitUrl, Error, ErrorKind,
    Implementation, Peer, Principal, Request, SamplingRequest, TraceContext,
};
use wharf_schema::problem_report;

use crate::tasks::storage::nested_json;

/// The call, as far as another process can rebuild it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedCall {
    pub(crate) tool: String,
    pub(crate) arguments: Box<RawValue>,
    pub(crate) meta: Option<Box<RawValue>>,
    #[serde(with = "nested_json")]
    pub(crate) client: Option<Implementation>,
    #[serde(with = "nested_json")]
    pub(crate) capabilities: ClientCapabilities,
    pub(crate) principal: Option<(String, Vec<String>)>,
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) roles: Vec<String>,
    /// Key for claims of one-time steps, if not the task's own id.
    pub(crate) nonce: Option<String>,
    /// Trace of the call, for the event of its end; it is stored as a part of `meta`.
    #[serde(skip)]
    pub(crate) ended_trace: Option<TraceContext>,
}

/// Stored form of a client request.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum SavedClientRequest {
    Elicit(Box<ElicitForm>),
    ElicitUrl(Box<ElicitUrl>),
    Sample(Box<SamplingRequest>),
    Roots,
}

/// Stored form of an error.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct SavedError {
    kind: String,
    pub(crate) message: String,
    #[serde(with = "nested_json")]
    data: Option<Box<Value>>,
    code: Option<i32>,
}

impl SavedCall {
    /// Saves a call whose message has at most `most` bytes. Invalid JSON cannot occur here: the
    /// request was parsed before.
    pub(crate) fn from_request(request: &Request, most: usize) -> Result<Self, Error> {
        let size = request.message_len();
        if size > most {
            let text = format!("The call has {size} bytes, and {most} is the limit for a task");
            return Err(Error::new(ErrorKind::ContentTooLarge).with_message(text));
        }
        let raw =
            |json: &str| RawValue::from_string(json.to_owned()).map_err(Error::invalid_params);
        let peer = request.peer();
        Ok(SavedCall {
            tool: request.target().into_owned(),
            arguments: raw(request.arguments())?,
            meta: request.meta().map(raw).transpose()?,
            client: peer.info.clone(),
            capabilities: peer.capabilities.clone(),
            principal: request.principal().map(|principal| {
                (principal.id().to_owned(), principal.scopes().map(str::to_owned).collect())
            }),
            roles: request
                .principal()
                .map(|principal| principal.roles().map(str::to_owned).collect())
                .unwrap_or_default(),
            nonce: None,
            ended_trace: None,
        })
    }

    /// Removes the data that only the handler needs; the principal and the tool remain.
    pub(crate) fn clear_arguments(&mut self) {
        self.ended_trace = self.trace();
        self.arguments = RawValue::NULL.to_owned();
        (self.meta, self.client, self.nonce) = (None, None, None);
        self.capabilities = ClientCapabilities::default();
    }

    /// Returns the trace of the call that created the task.
    pub(crate) fn trace(&self) -> Option<TraceContext> {
        let meta = self.meta.as_ref().and_then(|meta| TraceContext::from_meta(meta.get()));
        meta.or_else(|| self.ended_trace.clone())
    }

    /// Returns the id of the principal.
    pub(crate) fn principal_id(&self) -> Option<&str> {
        self.principal.as_ref().map(|(id, _)| &**id)
    }

    pub(crate) fn peer(&self) -> Peer {
        Peer::new(self.client.clone(), self.capabilities.clone())
    }

    pub(crate) fn principal(&self) -> Option<Principal> {
        let (id, scopes) = self.principal.as_ref()?;
        let principal = Principal::new(id.as_str());
        let bare = scopes.iter().fold(principal, |principal, scope| principal.with_scope(scope));
        Some(self.roles.iter().fold(bare, |principal, role| principal.with_role(role)))
    }
}

impl SavedError {
    /// Class of the failure, for observers.
    pub(crate) fn error_type(&self) -> CallErrorType {
        let kind = || ErrorKind::from_name(&self.kind).unwrap_or(ErrorKind::InternalError);
        self.code.map_or_else(|| CallErrorType::Kind(kind()), CallErrorType::Code)
    }

    /// Saves an error in at most `most` bytes: without its data if they are too large or too deep,
    /// and then with a shortened message.
    pub(crate) fn within_limit(error: &Error, most: usize) -> Self {
        let saved = SavedError::from(error);
        let fits = |json: Vec<u8>| json.len() <= most && !nested_json::is_too_deep(&json);
        if serde_json::to_vec(&saved).is_ok_and(fits) {
            return saved;
        }
        SavedError { message: problem_report::shorten(saved.message), data: None, ..saved }
    }
}

impl From<&Error> for SavedError {
    fn from(error: &Error) -> Self {
        SavedError {
            kind: error.kind.name().into(),
            message: error.message.clone().into_owned(),
            data: error.data.clone(),
            code: error.code,
        }
    }
}

impl From<&SavedError> for Error {
    fn from(saved: &SavedError) -> Self {
        // The kind may be unknown if a later version stored it.
        let kind = ErrorKind::from_name(&saved.kind).unwrap_or(ErrorKind::InternalError);
        let mut error = Error::new(kind).with_message(saved.message.clone());
        (error.data, error.code) = (saved.data.clone(), saved.code);
        error
    }
}

impl From<&ClientRequest> for SavedClientRequest {
    fn from(ask: &ClientRequest) -> Self {
        match ask {
            ClientRequest::Elicit(form) => SavedClientRequest::Elicit(form.clone()),
            ClientRequest::ElicitUrl(url) => SavedClientRequest::ElicitUrl(url.clone()),
            ClientRequest::Sample(request) => SavedClientRequest::Sample(request.clone()),
            // The only other kind is `Roots`.
            _ => SavedClientRequest::Roots,
        }
    }
}

impl From<&SavedClientRequest> for ClientRequest {
    fn from(saved: &SavedClientRequest) -> Self {
        match saved {
            SavedClientRequest::Elicit(form) => ClientRequest::Elicit(form.clone()),
            SavedClientRequest::ElicitUrl(url) => ClientRequest::ElicitUrl(url.clone()),
            SavedClientRequest::Sample(request) => ClientRequest::Sample(request.clone()),
            SavedClientRequest::Roots => ClientRequest::Roots,
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn errors_and_client_requests_survive_a_round_trip() {
        let error = Error::resource_not_found("x:y");
        assert_eq!(Error::from(&SavedError::from(&error)), error);
        assert_eq!(Error::from(&SavedError::from(&Error::custom(7, "own"))).code, Some(7));
        let form = ElicitForm::new("m", json!({"type": "object"}));
        let sample = SamplingRequest::default();
        for ask in [
            ClientRequest::Elicit(Box::new(form)),
            ClientRequest::ElicitUrl(Box::new(ElicitUrl::new("m", "https://x"))),
            ClientRequest::Sample(Box::new(sample)),
            ClientRequest::Roots,
        ] {
            let json = serde_json::to_string(&SavedClientRequest::from(&ask)).unwrap();
            let back: SavedClientRequest = serde_json::from_str(&json).unwrap();
            assert_eq!(ClientRequest::from(&back), ask);
        }
    }
}
