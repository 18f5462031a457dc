//! Requests of a legacy server that belong to no call.

use wharf_model::{BoxFuture, ClientRequest, Error};

/// Answers requests of a legacy server that belong to no call, or cannot be attributed to one.
///
/// ```
/// use wharf_model::{BoxFuture, ClientRequest, Error};
/// use wharf_transport::client::UnsolicitedRequestHandler;
///
/// struct Refuse;
///
/// impl UnsolicitedRequestHandler for Refuse {
///     fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
///         Box::pin(async move { Err(Error::method_not_found(ask.method().name())) })
///     }
/// }
/// ```
pub trait UnsolicitedRequestHandler: Send + Sync + 'static {
    /// Answers a request: the result as JSON text. Dropping the future withdraws the request.
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>>;
}

/// Rejects every request.
pub(super) struct NoHandler;

impl UnsolicitedRequestHandler for NoHandler {
    fn ask(&self, ask: ClientRequest) -> BoxFuture<Result<String, Error>> {
        Box::pin(std::future::ready(Err(Error::method_not_found(ask.method().name()))))
    }
}
