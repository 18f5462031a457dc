//! Credentials: headers that are attached, and authentication failures that are reported.

use std::sync::{Arc, Mutex};

use wharf_client::ControlRequest;
use wharf_model::{AuthFailure, AuthHeaders, BoxFuture, CredentialsProvider, Error};
use wharf_transport::client::connect_http;

use crate::client_http::{
    scripted_server::{ScriptedServer, legacy},
    support::{fails, pinned},
};

/// Attaches no credentials and records authentication failures.
#[derive(Clone, Default)]
struct RejectedCredentials(Arc<Mutex<Vec<AuthFailure>>>);

impl CredentialsProvider for RejectedCredentials {
    fn attach(&self, _: &str, _: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        Box::pin(async { Ok(AuthHeaders::default()) })
    }

    fn on_response(&self, _: u64, _: u16, _: Option<&str>) {}

    fn on_auth_failure(&self, rebuff: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        self.0.lock().unwrap().push(rebuff);
        Box::pin(async { Ok(false) })
    }
}

#[tokio::test]
async fn a_rejected_notification_does_not_wait_for_the_credentials() {
    let scripted = ScriptedServer::new(|seen, mut wire| async move {
        if !legacy(&seen, &mut wire).await {
            wire.status(401).await;
        }
    })
    .await;
    let (stranger, mut options) = (RejectedCredentials::default(), pinned("2025-11-25"));
    options.credentials = Some(Arc::new(stranger.clone()));
    let link = connect_http(&scripted.url(), Vec::new(), options).await.unwrap();
    assert!(link.run(ControlRequest::RootsChanged).await.is_err());
    fails(&link, "t").await;
    let waited: Vec<_> = stranger.0.lock().unwrap().iter().map(|it| it.waited).collect();
    assert_eq!(waited, [false, true]);
}
