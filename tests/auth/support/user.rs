//! Test user, who consents to everything, or to nothing if the authorization server is set so.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::json;
use wharf::Error;
use wharf::model::BoxFuture;
use wharf_auth::client::{AuthorizationRequest, RedirectParams, UserAgent, UserAgentSession};

use super::authorization::{AuthorizationServer, control};

/// Redirect URI. Nothing listens there: the test reads the redirect itself.
const CALLBACK: &str = "http://127.0.0.1:7/callback";

/// User agent of the test user; clones share its records.
#[derive(Clone)]
pub(crate) struct TestUser {
    control: String,
    visits: Arc<Mutex<Vec<String>>>,
}

impl TestUser {
    pub(crate) fn at(issuer: &AuthorizationServer) -> Self {
        Self { control: issuer.control.clone(), visits: Arc::default() }
    }

    /// Values of this parameter in the authorization requests.
    pub(crate) fn asked(&self, parameter: &str) -> Vec<String> {
        let visits = self.visits.lock().unwrap();
        let value =
            |url: &String| RedirectParams::from_url(url).get(parameter).unwrap_or("-").to_owned();
        visits.iter().map(value).collect()
    }

    /// Number of authorization requests.
    pub(crate) fn visits(&self) -> usize {
        self.visits.lock().unwrap().len()
    }
}

impl UserAgent for TestUser {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let visitor: Box<dyn UserAgentSession> = Box::new(self.clone());
        Box::pin(async { Ok(visitor) })
    }
}

impl UserAgentSession for TestUser {
    fn redirect_uri(&self) -> &str {
        CALLBACK
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        self.visits.lock().unwrap().push(to.url.to_string());
        Box::pin(async move {
            let RedirectTarget { location } =
                control(&self.control, "/visit", json!({"url": to.url.as_str()})).await;
            Ok(RedirectParams::from_url(&location))
        })
    }
}

#[derive(Deserialize)]
struct RedirectTarget {
    location: String,
}
