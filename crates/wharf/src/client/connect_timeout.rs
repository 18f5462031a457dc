//! Timeout for connecting.

#[cfg(feature = "auth")]
use std::sync::{Arc, Weak};
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

/// Credentials that pause the clock of connecting while they are fetched, because the user may have to log in. Once
/// connected, they hand on the futures of the inner credentials.
#[cfg(feature = "auth")]
pub(super) struct ClockPausingCredentials {
    credentials: Arc<dyn CredentialsProvider>,
    /// Dropped by the builder once the client is connected.
    deadline: Weak<Deadline>,
}

#[cfg(feature = "auth")]
impl ClockPausingCredentials {
    pub(super) fn new(credentials: Arc<dyn CredentialsProvider>, deadline: &Arc<Deadline>) -> Self {
        ClockPausingCredentials { credentials, deadline: Arc::downgrade(deadline) }
    }

    fn paused<T: 'static>(&self, work: BoxFuture<T>) -> BoxFuture<T> {
        let Some(deadline) = self.deadline.upgrade() else { return work };
        let paused = deadline.pause();
        Box::pin(async move {
            let done = work.await;
            drop(paused);
            done
        })
    }
}

#[cfg(feature = "auth")]
impl CredentialsProvider for ClockPausingCredentials {
    fn attach(&self, verb: &str, url: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        self.paused(self.credentials.attach(verb, url))
    }

    fn on_response(&self, mark: u64, status: u16, nonce: Option<&str>) {
        self.credentials.on_response(mark, status, nonce);
    }

    fn on_auth_failure(&self, failure: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        self.paused(self.credentials.on_auth_failure(failure))
    }
}

#[cfg(all(test, feature = "auth"))]
mod tests {
    use std::{
        future::ready,
        sync::atomic::{AtomicUsize, Ordering},
    };

    use super::*;

    /// Credentials that record the address of the future that they returned last.
    #[derive(Default)]
    struct Recorded(AtomicUsize);

    impl Recorded {
        fn record<T: Send + 'static>(&self, done: Result<T, Error>) -> BoxFuture<Result<T, Error>> {
            // Not of size zero, so that the future has an address of its own.
            let future: BoxFuture<Result<T, Error>> = Box::pin(ready(done));
            self.0.store(address(&future), Ordering::SeqCst);
            future
        }
    }

    impl CredentialsProvider for Recorded {
        fn attach(&self, _: &str, _: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
            self.record(Ok(AuthHeaders::default()))
        }

        fn on_response(&self, _: u64, _: u16, _: Option<&str>) {}

        fn on_auth_failure(&self, _: AuthFailure) -> BoxFuture<Result<bool, Error>> {
            self.record(Ok(true))
        }
    }

    fn address<T>(future: &BoxFuture<T>) -> usize {
        std::ptr::from_ref(&**future).cast::<()>().addr()
    }

    #[tokio::test]
    async fn credentials_pause_the_clock_only_until_the_client_is_connected() {
        let inner = Arc::new(Recorded::default());
        let deadline = Arc::new(Deadline::new(Some(Duration::ZERO)));
        let credentials = ClockPausingCredentials::new(inner.clone(), &deadline);

        let attaching = credentials.attach("POST", "http://127.0.0.1/mcp");
        assert!(!deadline.is_up(), "paused while connecting");
        drop(attaching);
        assert!(deadline.is_up());

        drop(deadline);
        let attaching = credentials.attach("POST", "http://127.0.0.1/mcp");
        assert_eq!(address(&attaching), inner.0.load(Ordering::SeqCst), "not boxed again");
        let renewing = credentials.on_auth_failure(AuthFailure::new("POST", 401, 0));
        assert_eq!(address(&renewing), inner.0.load(Ordering::SeqCst), "not boxed again");
    }
}
