//! Timeout for connecting.

#[cfg(feature = "auth")]
use std::sync::Arc;
use std::time::Duration;

#[cfg(feature = "auth")]
use wharf_model::{AuthFailure, AuthHeaders, BoxFuture, CredentialsProvider};
use wharf_model::{Error, ErrorKind, FailureOrigin, TimeoutKind};
use wharf_transport::client::Deadline;

/// Runs the future with a timeout for connecting and the handshake.
pub(super) async fn within<T>(
    limit: Duration,
    deadline: &Deadline,
    work: impl Future<Output = Result<T, Error>>,
) -> Result<T, Error> {
    tokio::select! {
        biased;
        done = work => done,
        () = deadline.up() => {
            let message = format!(
                "The server did not complete the handshake within {limit:?}: \
                 raise `timeout` or `handshake` if it needs more time"
            );
            let error = Error::new(ErrorKind::RequestTimeout).with_message(message);
            Err(error.from_client(FailureOrigin::Timeout(TimeoutKind::Connect, limit)))
        }
    }
}

/// Credentials that pause the clock while they are fetched, because the user may have to log in.
#[cfg(feature = "auth")]
pub(super) struct ClockPausingCredentials {
    pub(super) credentials: Arc<dyn CredentialsProvider>,
    pub(super) deadline: Deadline,
}

#[cfg(feature = "auth")]
impl CredentialsProvider for ClockPausingCredentials {
    fn attach(&self, verb: &str, url: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        let (paused, attaching) = (self.deadline.pause(), self.credentials.attach(verb, url));
        Box::pin(async move {
            let headers = attaching.await;
            drop(paused);
            headers
        })
    }

    fn on_response(&self, mark: u64, status: u16, nonce: Option<&str>) {
        self.credentials.on_response(mark, status, nonce);
    }

    fn on_auth_failure(&self, failure: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        let (paused, renewing) = (self.deadline.pause(), self.credentials.on_auth_failure(failure));
        Box::pin(async move {
            let renewed = renewing.await;
            drop(paused);
            renewed
        })
    }
}
