//! Responses to requests whose session cannot be used or opened: 400 without `Mcp-Session-Id`, 404 if it names no session,
//! 503 over a limit.

use wharf_model::{Error, RefusalReason};
use wharf_wire::HeaderField;

use crate::server::{
    admission::overloaded,
    http::{
        request_headers::RequestHeaders, response, response::HttpResponse,
        session::table::FindError,
    },
};

/// Message for a client that cannot get another session.
const TABLE_FULL: &str = "The server is full: all sessions are in use. Try again later";

/// Returns the session id of a request.
pub(crate) fn required_session_id<'a>(
    parsed: &RequestHeaders<'a>,
) -> Result<&'a [u8], Box<HttpResponse>> {
    let refuse = |problem| Err(Box::new(response::refuse(400, problem)));
    match parsed.session {
        HeaderField::One(name) => Ok(name),
        HeaderField::Absent => refuse("There is no Mcp-Session-Id header"),
        HeaderField::Several => refuse("There is more than one Mcp-Session-Id header"),
    }
}

/// Response 404: the session never existed, has ended or belongs to another principal. All three look the
/// same.
pub(crate) fn not_found() -> HttpResponse {
    let problem = "There is no such session: send `initialize` without Mcp-Session-Id";
    response::refuse_for(RefusalReason::UnknownSession, 404, problem)
}

/// Returns the response to a request whose session cannot be used.
pub(crate) fn find_error_response(error: FindError) -> Box<HttpResponse> {
    Box::new(match error {
        FindError::NotFound => not_found(),
        FindError::TableFull => response::busy(RefusalReason::TooManySessions, TABLE_FULL),
    })
}

/// Response 400: the client cannot resume after this event.
pub(crate) fn unknown_event() -> HttpResponse {
    response::refuse(400, "Last-Event-ID is not the id of an event of this session")
}

/// Error for a client that cannot get another session.
pub(crate) fn too_many_sessions() -> Error {
    overloaded().with_message(TABLE_FULL)
}

/// Response 503: the session's subscription was refused; the client may retry.
pub(crate) fn listen_refused(error: &Error) -> HttpResponse {
    let problem = "Too many subscriptions: try again later";
    let mut reply = response::refuse_for(RefusalReason::TooManyCalls, 503, problem);
    response::explain(&mut reply, error);
    reply
}
