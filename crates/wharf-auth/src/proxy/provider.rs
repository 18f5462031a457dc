//! The identity provider, and how this server is known there.

use std::{borrow::Cow, fmt};

/// An identity provider where this server is registered by hand.
///
/// At the provider, register an application with the redirect URI `PUBLIC-URL/callback`, and give its id
/// and secret here.
///
/// ```
/// use wharf_auth::proxy::Provider;
///
/// let (id, secret) = ("id", "secret");
/// let google = Provider::google(id, secret);
/// let company = Provider::oidc("https://login.example.com", id, secret).scopes(["openid", "email"]);
/// let github = Provider::github(id, secret).scopes(["read:user", "repo"]);
/// assert!(!format!("{company:?}").contains("secret"));
/// ```
#[derive(Clone)]
pub struct Provider {
    pub(super) kind: ProviderKind,
    /// What people know it by.
    pub(super) name: String,
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) scopes: Vec<String>,
    pub(super) parameters: Vec<(String, String)>,
    /// Whether the secret goes into the body; if nothing is said, what the provider prefers.
    pub(super) secret_in_body: Option<bool>,
}

/// How a provider says who somebody is.
#[derive(Clone, Debug)]
pub(super) enum ProviderKind {
    /// By an ID token; everything else is found at its issuer.
    Oidc { issuer: String },
    /// By a URL that knows whose token it is asked with.
    OAuth { authorize: String, token: String, userinfo: String, subject: Cow<'static, str> },
}

impl Provider {
    /// An OpenID provider, by its issuer exactly as it writes that itself. Its endpoints and keys are
    /// found there.
    #[must_use]
    pub fn oidc(
        issuer: impl Into<String>,
        id: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        let issuer = issuer.into();
        let provider = Provider::new(host(&issuer), ProviderKind::Oidc { issuer }, id, secret);
        provider.scopes(["openid", "profile", "email"])
    }

    /// A provider without OpenID. Who the user is says `userinfo`, a URL that answers with JSON in
    /// which `sub` (or [another member](Provider::subject)) names the user.
    #[must_use]
    pub fn oauth(
        authorize: impl Into<String>,
        token: impl Into<String>,
        userinfo: impl Into<String>,
        id: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        let authorize = authorize.into();
        let name = host(&authorize);
        let (token, userinfo) = (token.into(), userinfo.into());
        let kind = ProviderKind::OAuth { authorize, token, userinfo, subject: "sub".into() };
        Provider::new(name, kind, id, secret)
    }

    /// GitHub, as an OAuth app or a GitHub app.
    #[must_use]
    pub fn github(id: impl Into<String>, secret: impl Into<String>) -> Self {
        Provider::oauth(
            "https://github.com/login/oauth/authorize",
            "https://github.com/login/oauth/access_token",
            "https://api.github.com/user",
            id,
            secret,
        )
        .subject("id")
        .scopes(["read:user"])
        .secret_in_body(true)
    }

    /// Google. Everybody with an account there can sign in: see
    /// [`OAuthProxy::grant`](super::OAuthProxy::grant).
    #[must_use]
    pub fn google(id: impl Into<String>, secret: impl Into<String>) -> Self {
        let provider = Provider::oidc("https://accounts.google.com", id, secret);
        provider.parameter("access_type", "offline").parameter("prompt", "consent")
    }

    /// Microsoft Entra ID, for one tenant: its id, not `common`.
    #[must_use]
    pub fn entra(tenant: &str, id: impl Into<String>, secret: impl Into<String>) -> Self {
        let issuer = format!("https://login.microsoftonline.com/{tenant}/v2.0");
        let provider = Provider::oidc(issuer, id, secret);
        provider.scopes(["openid", "profile", "email", "offline_access"])
    }

    /// What to ask the provider for, in place of what was said before. With OpenID, `openid` must be
    /// among it.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// One more parameter for the provider's authorization page.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Which member of what the userinfo URL answers names the user for good.
    #[must_use]
    pub fn subject(mut self, member: impl Into<Cow<'static, str>>) -> Self {
        if let ProviderKind::OAuth { subject, .. } = &mut self.kind {
            *subject = member.into();
        }
        self
    }

    /// What people know the provider by; the host of its URL without it.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Whether the secret goes into the body of requests instead of a header. An OpenID provider says
    /// itself what it takes.
    #[must_use]
    pub fn secret_in_body(mut self, in_body: bool) -> Self {
        self.secret_in_body = Some(in_body);
        self
    }

    fn new(name: String, kind: ProviderKind, id: impl Into<String>, secret: impl Into<String>) -> Self {
        let (id, secret) = (id.into(), secret.into());
        let (scopes, parameters) = (Vec::new(), Vec::new());
        Provider { kind, name, id, secret, scopes, parameters, secret_in_body: None }
    }

    /// Who vouches for the users: what their names are unique within.
    pub(super) fn realm(&self) -> &str {
        match &self.kind {
            ProviderKind::Oidc { issuer } => issuer,
            ProviderKind::OAuth { authorize, .. } => authorize,
        }
    }
}

impl fmt::Debug for Provider {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut it = f.debug_struct("Provider");
        it.field("kind", &self.kind).field("id", &self.id).field("scopes", &self.scopes);
        it.finish_non_exhaustive()
    }
}

fn host(url: &str) -> String {
    let url = url::Url::parse(url).ok();
    url.and_then(|url| url.host_str().map(str::to_owned)).unwrap_or_default()
}
