//! Test user agent that reads the proxy's pages and submits their forms.

use std::sync::{
    Arc, Mutex,
    atomic::{AtomicUsize, Ordering},
};

use url::Url;
use wharf::{
    Error,
    auth::client::{AuthorizationRequest, RedirectParams, UserAgent, UserAgentSession},
    model::BoxFuture,
};

use wharf_testbed::fake_idp::Idp;

use crate::oauth_proxy::pages;

pub(crate) struct TestUserAgent {
    idp: Idp,
    user: String,
    decision: &'static str,
    pub(crate) visits: Arc<AtomicUsize>,
    page: Arc<Mutex<String>>,
}

struct AuthorizationVisit {
    idp: Idp,
    user: String,
    decision: &'static str,
    page: Arc<Mutex<String>>,
}

impl TestUserAgent {
    pub(crate) fn new(idp: &Idp, user: &str) -> Self {
        let (visits, page) = (Arc::default(), Arc::default());
        TestUserAgent { idp: idp.clone(), user: user.into(), decision: "allow", visits, page }
    }

    pub(crate) fn denying_consent(self) -> Self {
        TestUserAgent { decision: "deny", ..self }
    }

    /// Text of the last consent page.
    pub(crate) fn last_page(&self) -> String {
        self.page.lock().unwrap().clone()
    }
}

impl UserAgent for TestUserAgent {
    fn prepare(&self, _last: Option<&str>) -> BoxFuture<Result<Box<dyn UserAgentSession>, Error>> {
        self.visits.fetch_add(1, Ordering::SeqCst);
        let visit = AuthorizationVisit {
            idp: self.idp.clone(),
            user: self.user.clone(),
            decision: self.decision,
            page: self.page.clone(),
        };
        Box::pin(async move { Ok(Box::new(visit) as Box<dyn UserAgentSession>) })
    }
}

impl UserAgentSession for AuthorizationVisit {
    fn redirect_uri(&self) -> &str {
        "http://127.0.0.1:33418/callback"
    }

    fn visit(
        self: Box<Self>,
        to: AuthorizationRequest,
    ) -> BoxFuture<Result<RedirectParams, Error>> {
        Box::pin(async move {
            let decided = pages::decide(to.url.as_str(), self.decision).await;
            *self.page.lock().unwrap() = decided.page;
            if self.decision != "allow" {
                return Ok(RedirectParams::from_url(&decided.onward));
            }
            let back = self.idp.sign_in(&Url::parse(&decided.onward).unwrap(), &self.user);
            Ok(RedirectParams::from_url(&pages::come_back(back.as_str(), decided.cookies).await))
        })
    }
}
