//! Identity provider settings.

use std::{borrow::Cow, fmt};

/// An identity provider where this server is registered by hand.
///
/// At the provider, register an application with the redirect URI `PUBLIC-URL/callback`, and pass its id
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
    /// Name for display.
    pub(super) name: String,
    pub(super) id: String,
    pub(super) secret: String,
    pub(super) scopes: Vec<String>,
    pub(super) parameters: Vec<(String, String)>,
    /// Sends the secret in the body; by default as the provider prefers.
    pub(super) secret_in_body: Option<bool>,
}

/// Protocol that identifies the user.
#[derive(Clone, Debug)]
pub(super) enum ProviderKind {
    /// OpenID Connect: ID token, with discovery of the endpoints.
    Oidc { issuer: String },
    /// OAuth with a userinfo URL.
    OAuth { authorize: String, token: String, userinfo: String, subject: Cow<'static, str> },
}

impl Provider {
    /// An OpenID Provider with this exact issuer. Endpoints and keys are discovered.
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

    /// A provider without OpenID Connect. `userinfo` is a URL whose JSON response identifies the user in
    /// `sub` (or [another member](Provider::subject)).
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

    /// Google. Every user with an account can sign in: see [`OAuthProxy::grant`](super::OAuthProxy::grant).
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

    /// Sets the scopes at the provider, replacing the default. OpenID Connect requires `openid`.
    #[must_use]
    pub fn scopes<S: Into<String>>(mut self, scopes: impl IntoIterator<Item = S>) -> Self {
        self.scopes = scopes.into_iter().map(Into::into).collect();
        self
    }

    /// Adds a parameter to the provider's authorization request.
    #[must_use]
    pub fn parameter(mut self, name: impl Into<String>, value: impl Into<String>) -> Self {
        self.parameters.push((name.into(), value.into()));
        self
    }

    /// Sets the member of the userinfo response that identifies the user permanently.
    #[must_use]
    pub fn subject(mut self, member: impl Into<Cow<'static, str>>) -> Self {
        if let ProviderKind::OAuth { subject, .. } = &mut self.kind {
            *subject = member.into();
        }
        self
    }

    /// Sets the name for display: the URL's host by default.
    #[must_use]
    pub fn name(mut self, name: impl Into<String>) -> Self {
        self.name = name.into();
        self
    }

    /// Sends the secret in the body instead of a header. The metadata of an OpenID Provider decides by
    /// default.
    #[must_use]
    pub fn secret_in_body(mut self, in_body: bool) -> Self {
        self.secret_in_body = Some(in_body);
        self
    }

    fn new(
        name: String,
        kind: ProviderKind,
        id: impl Into<String>,
        secret: impl Into<String>,
    ) -> Self {
        let (id, secret) = (id.into(), secret.into());
        let (scopes, parameters) = (Vec::new(), Vec::new());
        Provider { kind, name, id, secret, scopes, parameters, secret_in_body: None }
    }

    /// Namespace in which the users' names are unique.
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
