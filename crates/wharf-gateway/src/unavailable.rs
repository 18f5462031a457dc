//! Outcome of a call whose upstream server is unavailable.

use std::time::Duration;

use serde_json::json;
use wharf_model::{Error, ErrorKind, FailureOrigin, Method, Outcome, ToolResult};

/// Value of `data.reason`.
const REASON: &str = "upstream_unavailable";

/// Returns whether the error says that the server could not be reached, and is not an answer of the server. Nothing
/// of it is passed on: it may name the server's address.
pub(crate) fn is_outage(error: &Error) -> bool {
    !matches!(error.origin(), None | Some(FailureOrigin::Usage))
}

/// Returns the outcome of a call to this server: a result that a model can read for a tool, else an error.
pub(crate) fn unavailable(method: Method, upstream: &str, retry_after: Duration) -> Outcome {
    let seconds = retry_after.as_secs_f64().ceil().max(1.0);
    let message =
        format!("The upstream server `{upstream}` is unavailable. Try again in {seconds} s.");
    if method == Method::CallTool {
        return ToolResult::error(message).into();
    }
    let data = json!({"reason": REASON, "upstream": upstream, "retryAfterSeconds": seconds});
    Error::new(ErrorKind::InternalError).with_message(message).with_data(data).into()
}

/// Returns the error of a list for which no upstream server is available.
pub(crate) fn all_unavailable() -> Outcome {
    let message = "None of the upstream servers is available. Try again later.";
    let error = Error::new(ErrorKind::InternalError).with_message(message);
    error.with_data(json!({"reason": REASON})).into()
}
