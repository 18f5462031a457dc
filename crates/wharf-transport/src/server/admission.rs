//! Admission of calls: the id must be free, and the limits must allow another call.

use std::time::Duration;

use tokio::time::timeout;
use wharf_model::{Error, ErrorKind};
use wharf_wire::Codec;

use crate::{LineLimits, server::jsonl::in_flight::InFlight};

/// Delay after which a client that exceeded a limit may retry.
const RETRY_AFTER: Duration = Duration::from_secs(1);

/// True if a call of a JSON lines connection may start at once. A subscription is admitted by [`admit_or_wait`].
pub(crate) fn may_start(in_flight: &InFlight, codec: &Codec, limits: &LineLimits) -> bool {
    !codec.is_listen() && !in_flight.has_id_of(codec) && in_flight.has_slot(limits)
}

/// Admits a call of a JSON lines connection, and waits for a free slot if necessary. Fails if the call must be
/// rejected, as in a batch whose replies are at their limit.
pub(crate) async fn admit_or_wait(
    in_flight: &InFlight,
    codec: &Codec,
    limits: &LineLimits,
    is_batch_full: bool,
) -> Result<(), Error> {
    if codec.is_silent() {
        return Ok(());
    }
    check_id(in_flight, codec)?;
    check_room(!is_batch_full)?;
    check_room(if codec.is_listen() {
        in_flight.listens() < limits.listens && in_flight.has_memory(limits)
    } else {
        // The client may be about to cancel a blocking call, so reading continues after a while.
        in_flight.has_slot(limits)
            || timeout(limits.patience, in_flight.wait_for_slot(limits)).await.unwrap_or(false)
    })
}

/// Admits a call of a session, which may have `most` calls in flight, without waiting.
#[cfg(feature = "http")]
pub(crate) fn admit(
    in_flight: Option<&InFlight>,
    codec: &Codec,
    limits: &LineLimits,
    most: usize,
) -> Result<(), Error> {
    // Most sessions have no other call in flight.
    let Some(in_flight) = in_flight.filter(|it| !it.is_empty()) else { return Ok(()) };
    check_id(in_flight, codec)?;
    check_room(in_flight.calls() < most && in_flight.has_memory(limits))
}

fn check_id(in_flight: &InFlight, codec: &Codec) -> Result<(), Error> {
    match in_flight.has_id_of(codec) {
        true => Err(Error::new(ErrorKind::InvalidRequest)
            .with_message("a request with this id is still in flight")),
        false => Ok(()),
    }
}

/// Rejects a call for which a limit has no room.
pub(crate) fn check_room(has_room: bool) -> Result<(), Error> {
    if has_room { Ok(()) } else { Err(overloaded()) }
}

/// Error for a call beyond the limits.
pub(crate) fn overloaded() -> Error {
    Error::overloaded(RETRY_AFTER)
}
