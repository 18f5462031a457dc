//! Limits of retries with a hostile server that redirects, rejects and drops its session as often as it can. They are
//! listed in `wharf-client/src/call/mod.rs`.

use std::{
    collections::VecDeque,
    sync::{Arc, Mutex},
};

use wharf_model::{AuthFailure, AuthHeaders, BoxFuture, CredentialsProvider, Error};
use wharf_transport::client::connect_http;

use crate::client_http::{
    scripted_server::{ResponseWriter, ScriptedServer, SeenRequest, legacy},
    support::{fails, pinned, soon},
};

/// Requests for one message: the first, 5 redirects and 5 authorizations.
const MAX_REQUESTS_PER_MESSAGE: usize = 11;

/// Claims to have new credentials after each rejection.
struct TirelessCredentials;

impl CredentialsProvider for TirelessCredentials {
    fn attach(&self, _: &str, _: &str) -> BoxFuture<Result<AuthHeaders, Error>> {
        Box::pin(async { Ok(AuthHeaders::default()) })
    }

    fn on_response(&self, _: u64, _: u16, _: Option<&str>) {}

    fn on_auth_failure(&self, _: AuthFailure) -> BoxFuture<Result<bool, Error>> {
        Box::pin(async { Ok(true) })
    }
}

/// Statuses that the server returns for a call, one after the other; the last one is repeated.
async fn calls_sent(statuses: &[u16]) -> usize {
    let statuses = Arc::new(Mutex::new(VecDeque::from(statuses.to_vec())));
    let scripted = ScriptedServer::new(move |seen: SeenRequest, mut wire: ResponseWriter| {
        let statuses = statuses.clone();
        async move {
            if seen.method() != "tools/call" && legacy(&seen, &mut wire).await {
                return;
            }
            let status = {
                let mut statuses = statuses.lock().unwrap();
                if statuses.len() > 1 { statuses.pop_front() } else { statuses.front().copied() }
            };
            let location = "Location: /mcp?again\r\n";
            wire.answer(status.unwrap(), location, "").await;
        }
    })
    .await;
    let mut options = pinned("2025-11-25");
    options.credentials = Some(Arc::new(TirelessCredentials));
    let link = connect_http(&scripted.url(), Vec::new(), options).await.unwrap();
    soon(fails(&link, "t")).await;
    scripted.count("tools/call")
}

#[tokio::test(start_paused = true)]
async fn each_way_to_repeat_a_message_is_bounded() {
    // Endless redirects, authorizations, and expired sessions.
    assert_eq!(calls_sent(&[307]).await, 6);
    assert_eq!(calls_sent(&[401]).await, 6);
    assert_eq!(calls_sent(&[403]).await, 6);
    assert_eq!(calls_sent(&[404]).await, 2);
}

#[tokio::test(start_paused = true)]
async fn all_of_them_together_add_up_and_do_not_multiply() {
    let message = [307, 401, 307, 403, 307, 401, 307, 401, 307, 401, 404];
    assert_eq!(message.len(), MAX_REQUESTS_PER_MESSAGE);
    // A new session is opened once, with the same limits again.
    assert_eq!(calls_sent(&message.repeat(9)).await, 2 * MAX_REQUESTS_PER_MESSAGE);
    let mut alternating = [307, 401].repeat(99);
    assert!(calls_sent(&alternating).await <= MAX_REQUESTS_PER_MESSAGE);
    alternating.rotate_left(1);
    assert!(calls_sent(&alternating).await <= MAX_REQUESTS_PER_MESSAGE);
}
