//! Decides whether a failed call ends with a JSON-RPC error or with a result: a tool result with `isError` for the
//! model, an empty completion, or a URL elicitation.

use serde_json::{Value, json};
use wharf_model::{
    ClientRequest, Completion, Error, ErrorKind, InputRequired, Method, Reply, ToolResult,
};

use crate::{Codec, Revision, server::encode_client_request, versions::revision::Feature};

impl Codec {
    /// Writes the failure of the call; returns the HTTP status.
    pub(crate) fn fail(&self, error: &Error, out: &mut Vec<u8>) -> u16 {
        let kind = error.kind;
        if kind == ErrorKind::UrlElicitationRequired {
            return self.fail_for_url(error, out);
        }
        if is_tool_result(kind, self.method, self.revision) {
            return self.complete(&Reply::Tool(ToolResult::error(&*error.message)), out);
        }
        let uncapable = kind.is_capability_not_supported() || kind.is_method_not_found();
        if uncapable
            && self.method == Method::Complete
            && !self.revision.has(Feature::CompletionCapability)
        {
            return self.complete(&Reply::Completion(Completion::default()), out);
        }
        if kind.is_internal_error() && self.method == Method::ReadResource && error.data.is_none() {
            let uri = self.target.of(&self.body).and_then(|json| serde_json::from_str(json).ok());
            let uri: Value = uri.unwrap_or_default();
            return self.refuse(&error.clone().with_data(json!({"uri": uri})), out);
        }
        self.refuse(error, out)
    }

    /// Writes a required URL elicitation in the form of the call's era.
    fn fail_for_url(&self, error: &Error, out: &mut Vec<u8>) -> u16 {
        let requests = encode_client_request::elicitation_urls(error);
        if self.may_suspend() && !requests.is_empty() {
            return self.input_required(&InputRequired::new(requests, None), out);
        }
        if self.revision.has(Feature::ElicitationIds) && !requests.is_empty() {
            let mut error = error.clone();
            if let Some(data) = &mut error.data {
                data["elicitations"] = self.url_params(&requests);
            }
            return self.refuse(&error, out);
        }
        if matches!(self.method, Method::CallTool | Method::TaskResult) {
            let text = encode_client_request::urls_as_text(error, &requests);
            return self.complete(&Reply::Tool(ToolResult::error(text)), out);
        }
        match requests.is_empty() {
            // The error code implies a list of URLs.
            true => {
                let broken = Error::new(ErrorKind::InternalError);
                self.refuse(&broken.with_message(error.message.clone()), out)
            }
            false => self.refuse(error, out),
        }
    }

    /// Returns the parameters with mode and id, which the specification requires.
    fn url_params(&self, requests: &[(String, ClientRequest)]) -> Value {
        requests
            .iter()
            .zip(1..)
            .filter_map(|((_, request), number)| {
                encode_client_request::params(request, self, number)
            })
            .collect()
    }
}

/// Returns whether a call of `method` that failed with `kind` is reported as a tool result for the model, not
/// as an error.
pub(crate) fn is_tool_result(kind: ErrorKind, method: Method, revision: Revision) -> bool {
    // The result of a task is the result that the tool would have returned.
    if !matches!(method, Method::CallTool | Method::TaskResult) {
        return false;
    }
    match kind {
        ErrorKind::InvalidToolArguments => revision.has(Feature::ArgumentErrorsAsResults),
        _ => kind.is_tool_result(),
    }
}
