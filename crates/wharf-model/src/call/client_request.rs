//! What a handler can ask the client.

use serde::{Deserialize, Serialize};

use crate::{ClientCapability, ElicitForm, ElicitUrl, Method, SamplingRequest};

/// A question from a handler to the client.
#[derive(Clone, Debug, PartialEq)]
#[non_exhaustive]
pub enum ClientRequest {
    /// Fill in a form.
    Elicit(Box<ElicitForm>),
    /// Open a URL and do something there.
    ElicitUrl(Box<ElicitUrl>),
    /// Let the client's model continue a conversation.
    Sample(Box<SamplingRequest>),
    /// List the directories the client works in.
    Roots,
}

impl ClientRequest {
    /// The method that carries this question.
    #[must_use]
    pub fn method(&self) -> Method {
        match self {
            ClientRequest::Elicit(_) | ClientRequest::ElicitUrl(_) => Method::Elicit,
            ClientRequest::Sample(_) => Method::Sample,
            ClientRequest::Roots => Method::ListRoots,
        }
    }

    /// What the client must have declared to be asked this.
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

/// Names one ask of one exchange.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Serialize, Deserialize)]
pub struct ClientRequestId(pub u32);

/// How asks are met on this request. The handler does not see the difference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum InputMode {
    /// The ask goes to the client now, and the answer comes back while the handler waits.
    Deliver,
    /// The call ends as [`InputRequired`](crate::InputRequired); a retry carries the answers.
    Suspend,
    /// The task waits, and its owner brings the answers.
    Park,
}
