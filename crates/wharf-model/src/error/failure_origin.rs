//! [`FailureOrigin`]: the part of a client that made an error, carried within an [`Error`].

use std::{error::Error as StdError, sync::Arc, time::Duration};

use super::{Error, InternalSource, SharedSource, TimeoutKind};

/// Origin of an error that a client made itself. A transport ends a call with an [`Error`], as a
/// server does; without an origin that error came from the server.
#[doc(hidden)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FailureOrigin {
    /// Wrong use by the caller, who has to change something.
    Usage,
    /// The target of a connection is unusable.
    Target,
    /// The program of the server does not start.
    Start,
    /// The request was not sent.
    NotSent,
    /// The connection broke after the request may have arrived.
    Interrupted,
    /// The server violated the protocol.
    Protocol,
    /// Client and server have no protocol revision in common.
    NoCommonVersion,
    /// The client has no valid credentials.
    Authorization,
    /// A timeout of this length expired.
    Timeout(TimeoutKind, Duration),
}

#[doc(hidden)]
impl Error {
    /// Marks an error that this client made. Keeps an origin that the error has already.
    #[must_use]
    pub fn from_client(mut self, origin: FailureOrigin) -> Self {
        if self.origin().is_none() {
            let error = self.shared_source();
            self.source = Some(Arc::new(InternalSource { origin: Some(origin), error }));
        }
        self
    }

    /// Marks an error that this client made, with the error that it shares as its source.
    #[must_use]
    pub fn from_client_because(mut self, origin: FailureOrigin, error: SharedSource) -> Self {
        self.source = Some(Arc::new(InternalSource { origin: Some(origin), error: Some(error) }));
        self
    }

    /// Replaces the origin, and takes the source of `cause`, which this error replaces.
    #[must_use]
    pub fn in_place_of(mut self, cause: &Error, origin: FailureOrigin) -> Self {
        let error = cause.shared_source();
        self.source = Some(Arc::new(InternalSource { origin: Some(origin), error }));
        self
    }

    /// Removes the origin: for the service of a server, the failure of its own client is one of its own.
    #[must_use]
    pub fn without_origin(mut self) -> Self {
        if self.origin().is_some() {
            let error = self.shared_source();
            self.source =
                error.map(|error| Arc::new(InternalSource { origin: None, error: Some(error) }));
        }
        self
    }

    /// Returns the origin; none if the server sent the error.
    pub fn origin(&self) -> Option<FailureOrigin> {
        self.source.as_ref()?.origin
    }

    /// Returns whether the server has certainly not received the request.
    pub fn is_unsent(&self) -> bool {
        matches!(self.origin(), Some(FailureOrigin::NotSent | FailureOrigin::Start))
    }

    /// The error of a call whose request before this one may have arrived.
    #[must_use]
    pub fn after_arrival(self) -> Self {
        if !self.is_unsent() {
            return self;
        }
        let cause = self.clone();
        self.in_place_of(&cause, FailureOrigin::Interrupted)
    }

    /// Returns the source, shared with this error.
    pub fn shared_source(&self) -> Option<SharedSource> {
        self.source.as_ref()?.error.clone()
    }
}

/// Returns a shared source as the `source()` of an error.
pub(super) fn source_of(source: &Option<SharedSource>) -> Option<&(dyn StdError + 'static)> {
    source.as_deref().map(|source| source as _)
}
