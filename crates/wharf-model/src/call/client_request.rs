//! Server-to-client requests: elicitation, sampling and roots.

use serde::{Deserialize, Serialize};

use crate::{ClientCapability, ElicitForm, ElicitUrl, Method, SamplingRequest};

/// Request from a handler to the client.
///
/// A new request of the protocol is a new variant, in a new minor version of this crate.
#[derive(Clone, Debug, PartialEq)]
pub enum ClientRequest {
    /// Elicitation with a form.
    Elicit(Box<ElicitForm>),
    /// Elicitation with a URL that the user has to open.
    ElicitUrl(Box<ElicitUrl>),
    /// Sampling from the client's model.
    Sample(Box<SamplingRequest>),
    /// List of the client's roots.
    Roots,
}

impl ClientRequest {
    /// Returns the method of this request.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            ClientRequest::Elicit(_) | ClientRequest::ElicitUrl(_) => Method::Elicit,
            ClientRequest::Sample(_) => Method::Sample,
            ClientRequest::Roots => Method::ListRoots,
        }
    }

    /// Returns the client capability that this request requires.
    #[must_use]
    pub fn needs(&self) -> ClientCapability {
        match self {
            ClientRequest::Elicit(_) => ClientCapability::Elicitation,
            ClientRequest::ElicitUrl(_) => ClientCapability::ElicitationUrl,
            ClientRequest::Sample(request)
                if !request.tools.is_empty() || request.tool_choice.is_some() =>
            {
                ClientCapability::SamplingTools
            }
            ClientRequest::Sample(_) => ClientCapability::Sampling,
            ClientRequest::Roots => ClientCapability::Roots,
        }
    }
}

/// Id of a client request, unique within its call.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientRequestId(pub u32);

/// Delivery mode of client requests. Handlers do not see the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    /// The request is sent now, and the handler waits for the response.
    Deliver,
    /// The call ends as [`InputRequired`](crate::InputRequired); a retry carries the responses.
    Suspend,
    /// The task waits until its owner sends the responses.
    Park,
}
