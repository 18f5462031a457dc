//! Ada, who agrees to everything, or to nothing if the authorization server was told so.

use std::sync::{Arc, Mutex};

use serde::Deserialize;
use serde_json::json;
use wharf::Error;
use wharf::model::BoxFuture;
use wharf_auth::client::{AuthorizationRequest, RedirectParams, UserAgent, UserAgentSession};

use super::authorization::{AuthorizationServer, tell};

/// Where Ada is sent back to. Nobody listens: she says herself where she was sent.
const CALLBACK: &str = "http://127.0.0.1:7/callback";

/// Clones are the same person.
#[derive(Clone)]
pub(crate) struct Ada {
    control: String,
    visits: Arc<Mutex<Vec<String>>>,
}

impl Ada {
    pub(crate) fn at(issuer: &AuthorizationServer) -> Self {
        Self { control: issuer.control.clone(), visits: Arc::default() }
    }

    /// What she was asked: the value of this parameter in each URL that she was sent to.
    pub(crate) fn asked(&self, parameter: &str) -> Vec<String> {
        let visits = self.visits.lock().unwrap();
        let value =
            |url: &String| RedirectParams::from_url(url).get(parameter).unwrap_or("-").to_owned();
        visits.iter().map(value).collect()
    }

    /// How often she was asked.
    pub(crate) fn visits(&self) -> usize {
        self.visits.lock().unwrap().len()
    }
}

impl UserAgent for Ada {
    fn prepare(&self, _: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        let visitor: Box<dyn UserAgentSession> = Box::new(self.clone());
        Box::pin(async { Ok(visitor) })
    }
}

impl UserAgentSession for Ada {
    fn redirect_uri(&self) -> &str {
        CALLBACK
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        self.visits.lock().unwrap().push(to.url.to_string());
        Box::pin(async move {
            let Landed { location } =
                tell(&self.control, "/visit", json!({"url": to.url.as_str()})).await;
            Ok(RedirectParams::from_url(&location))
        })
    }
}

#[derive(Deserialize)]
struct Landed {
    location: String,
}
