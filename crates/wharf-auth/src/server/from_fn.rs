//! Whatever an application knows by itself.

use std::{fmt, sync::Arc};

use http::{HeaderMap, Method, Uri};
use wharf_model::{Admission, Authority, Denied, Knock, Pass, Scope, Verdict};

use crate::server::{
    builder_macros::{pages, published},
    credentials::{Scheme, presented},
    resource_metadata::Front,
};

/// A request that wants to come in: all of it but its body.
#[derive(Clone)]
#[non_exhaustive]
pub struct Head {
    /// The verb.
    pub method: Method,
    /// What is asked for, as it stood in the request.
    pub uri: Uri,
    /// The headers. They may hold secrets.
    pub headers: HeaderMap,
    /// What outer layers put there.
    pub scope: Scope,
}

impl Head {
    /// The token in the `Authorization` header, if it is a Bearer's.
    #[must_use]
    pub fn bearer(&self) -> Option<&str> {
        let knock = Knock::new(&self.method, &self.uri, &self.headers, &self.scope);
        let presented = presented(&knock).ok().flatten();
        presented.filter(|it| it.scheme == Scheme::Bearer).map(|it| it.token)
    }
}

impl fmt::Debug for Head {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Head").field("method", &self.method).finish_non_exhaustive()
    }
}

/// Lets a function decide who comes in. See [`by`] and [`by_async`].
#[must_use]
pub struct By {
    front: Front,
    decide: Box<dyn Fn(&Knock<'_>) -> Admission + Send + Sync>,
}

/// Lets in whomever a function lets in, which decides at once.
///
/// ```
/// use wharf_auth::server::by;
/// use wharf_model::{Denied, Knock, Principal};
///
/// // Some middleware of the application's has found out who it is.
/// let authority = by(|knock: &Knock<'_>| {
///     knock.scope.get::<Principal>().cloned().ok_or(Denied::new(401, "Log in first"))
/// });
/// # let _ = authority;
/// ```
pub fn by<F, P>(decide: F) -> By
where
    F: Fn(&Knock<'_>) -> Result<P, Denied> + Send + Sync + 'static,
    P: Into<Pass>,
{
    let decide = move |knock: &Knock<'_>| Admission::Now(decide(knock).map(Into::into));
    By { front: Front::default(), decide: Box::new(decide) }
}

/// Lets in whomever an async function lets in.
///
/// ```
/// use wharf_auth::server::{Head, by_async};
/// use wharf_model::{Denied, Principal};
///
/// async fn look_up(token: &str) -> Option<Principal> {
///     (token == "for-alice").then(|| Principal::new("alice"))
/// }
///
/// let authority = by_async(async |head: Head| {
///     let token = head.bearer().ok_or(Denied::new(401, "Send a token"))?;
///     look_up(token).await.ok_or(Denied::new(401, "The token is unknown"))
/// });
/// # let _ = authority;
/// ```
pub fn by_async<F, Fut, P>(decide: F) -> By
where
    F: Fn(Head) -> Fut + Send + Sync + 'static,
    Fut: Future<Output = Result<P, Denied>> + Send + 'static,
    P: Into<Pass>,
{
    let decide = Arc::new(decide);
    let decide = move |knock: &Knock<'_>| {
        let head = Head {
            method: knock.method.clone(),
            uri: knock.uri.clone(),
            headers: knock.headers.clone(),
            scope: knock.scope.clone(),
        };
        let deciding = decide(head);
        Admission::Later(Box::pin(async move { deciding.await.map(Into::into) }))
    };
    By { front: Front::default(), decide: Box::new(decide) }
}

impl By {
    published!();

    /// Whom clients ask for tokens. May be called several times.
    pub fn issuer(mut self, issuer: impl Into<String>) -> Self {
        self.front.issuers.push(issuer.into());
        self
    }
}

/// A refusal without a challenge gets the usual one: every 401 has one.
fn challenged(front: &Front, verdict: Verdict) -> Verdict {
    verdict.map_err(|denied| {
        if denied.status != 401 || denied.headers.contains_key(http::header::WWW_AUTHENTICATE) {
            return denied;
        }
        let usual = front.nobody();
        let mut headers = usual.headers;
        headers.extend((*denied.headers).clone());
        let mut with = Denied::new(denied.status, denied.message.clone());
        with.headers = headers;
        with
    })
}

impl Authority for By {
    fn admit(&self, knock: &Knock<'_>) -> Admission {
        match (self.decide)(knock) {
            Admission::Now(verdict) => Admission::Now(challenged(&self.front, verdict)),
            Admission::Later(verdict) => {
                let front = self.front.clone();
                Admission::Later(Box::pin(async move { challenged(&front, verdict.await) }))
            }
        }
    }

    pages!();

    fn problems(&self) -> Vec<String> {
        self.front.problems()
    }
}

impl fmt::Debug for By {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("By").finish_non_exhaustive()
    }
}
