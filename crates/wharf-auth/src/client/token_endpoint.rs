//! The token endpoint, and how a client says who it is there.

use std::sync::Arc;

use base64::{Engine, engine::general_purpose::STANDARD};
use http::{HeaderMap, HeaderName, HeaderValue, StatusCode, header::AUTHORIZATION};
use serde_json::json;
use url::form_urlencoded::byte_serialize;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::client::{
    Tokens,
    dpop::Prover,
    failed,
    metadata::{Authority, Granted, Refused},
    now,
};
use crate::{
    fetch::{Fetch, Fetched},
    jose::{SigningKey, random_token},
};

pub(super) const DPOP: HeaderName = HeaderName::from_static("dpop");
pub(super) const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");
const ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";
/// How long an assertion about ourselves is good.
const ASSERTED: u64 = 300;
/// Nothing that an authorization server gives us is longer: it is kept together with all else.
const LONGEST: usize = 16 << 10;

/// Who we are to one authorization server.
#[derive(Clone)]
pub(super) struct Identity {
    pub(super) client_id: String,
    pub(super) proof: Proof,
    /// The other way to show a secret, where the authorization server takes both and may know us by either.
    other: Option<Proof>,
}

/// How we show it.
#[derive(Clone)]
pub(super) enum Proof {
    /// Not at all.
    None,
    /// By a secret in the `Authorization` header.
    Basic(String),
    /// By a secret in the body.
    Post(String),
    /// By a token that we sign.
    Key(Arc<SigningKey>),
}

impl Identity {
    pub(super) fn public(client_id: &str) -> Identity {
        Identity::new(client_id, Proof::None)
    }

    pub(super) fn new(client_id: &str, proof: Proof) -> Identity {
        Identity { client_id: client_id.to_owned(), proof, other: None }
    }

    /// With a secret, shown as `method` says, or as the authorization server takes it.
    pub(super) fn secret(
        client_id: &str,
        secret: Option<&str>,
        method: Option<&str>,
        authority: &Authority,
    ) -> Identity {
        let listed = authority.token_endpoint_auth_methods_supported.as_deref();
        let takes = |method: &str| listed.is_some_and(|it| it.iter().any(|it| it == method));
        let proof = match (secret, method) {
            (None, _) | (_, Some("none")) => Proof::None,
            (Some(secret), Some("client_secret_post")) => Proof::Post(secret.to_owned()),
            (Some(secret), Some("client_secret_basic")) => Proof::Basic(secret.to_owned()),
            (Some(secret), _) if !takes("client_secret_basic") && takes("client_secret_post") => {
                Proof::Post(secret.to_owned())
            }
            (Some(secret), _) => Proof::Basic(secret.to_owned()),
        };
        let is_unsaid = method.is_none() && takes("client_secret_post");
        let other = match &proof {
            Proof::Basic(secret) if is_unsaid => Some(Proof::Post(secret.clone())),
            _ => None,
        };
        Identity { other, ..Identity::new(client_id, proof) }
    }
}

/// Why there is no token.
pub(super) enum Denial {
    /// The endpoint said so, and why.
    Refused { error: String, problem: Error },
    /// It could not be asked.
    Failed(Error),
}

impl From<Error> for Denial {
    fn from(error: Error) -> Self {
        Denial::Failed(error)
    }
}

impl Denial {
    pub(super) fn into_error(self) -> Error {
        match self {
            Denial::Refused { problem, .. } | Denial::Failed(problem) => problem,
        }
    }
}

/// A form to be sent to a token endpoint.
pub(super) type Form = Vec<(&'static str, String)>;

/// An endpoint of one authorization server that wants to know who asks.
pub(super) struct Endpoint<'a> {
    pub(super) fetch: &'a Fetch,
    pub(super) url: &'a str,
    /// Whom assertions are for.
    pub(super) issuer: &'a str,
    pub(super) prover: Option<&'a Prover>,
}

impl Endpoint<'_> {
    /// Asks for a token.
    pub(super) async fn grant(&self, who: &Identity, form: Form) -> Result<Granted, Denial> {
        let mut answer = self.post(who, &form).await?;
        if self.wants_nonce(&answer) {
            answer = self.post(who, &form).await?;
        }
        if answer.status != StatusCode::OK {
            return Err(refused(&answer));
        }
        let granted: Granted = answer.json().map_err(Error::from)?;
        if !is_token(&granted.access_token) {
            let problem = format!("{} gave a token that no header can carry", answer.from());
            return Err(failed(problem).into());
        }
        let (refresh, scope) = (granted.refresh_token.as_deref(), granted.scope.as_deref());
        if is_long([Some(granted.access_token.as_str()), refresh, scope]) {
            let problem = format!("{} gave a token that is too long to be kept", answer.from());
            return Err(failed(problem).into());
        }
        Ok(granted)
    }

    /// Sends a form, with who we are.
    ///
    /// The form has the `client_id` beside basic authentication too, as RFC 6749 (3.2.1) allows and Python's `mcp`
    /// demands. Some servers, Okta's among them, take that for a second authentication and refuse it with
    /// `invalid_request` (5.2), before they look at the grant: they are asked again without it. A client that was
    /// registered by hand, and did not say how it authenticates, tries both ways that the server lists.
    pub(super) async fn post(&self, who: &Identity, form: &Form) -> Result<Fetched, Error> {
        let mut named = form.clone();
        named.push(("client_id", who.client_id.clone()));
        let answer = self.send(&who.client_id, &who.proof, named.clone()).await?;
        let is_basic = matches!(who.proof, Proof::Basic(_));
        if is_basic && is_refused_as(&answer, "invalid_request") {
            return self.send(&who.client_id, &who.proof, form.clone()).await;
        }
        if let Some(other) = &who.other
            && is_unknown_client(&answer)
        {
            let second = self.send(&who.client_id, other, named).await?;
            return Ok(if second.status.is_success() { second } else { answer });
        }
        Ok(answer)
    }

    /// Sends a form with the proof of who we are.
    async fn send(&self, id: &str, proof: &Proof, mut form: Form) -> Result<Fetched, Error> {
        let mut headers = HeaderMap::new();
        match proof {
            Proof::None => {}
            Proof::Basic(secret) => {
                headers.insert(AUTHORIZATION, basic(id, secret)?);
            }
            Proof::Post(secret) => form.push(("client_secret", secret.clone())),
            Proof::Key(key) => {
                form.push(("client_assertion_type", ASSERTION.to_owned()));
                form.push(("client_assertion", self.assertion(id, key)?));
            }
        }
        if let Some(prover) = self.prover {
            let proof = prover.prove("POST", self.url, None)?;
            headers.insert(DPOP, header(&proof)?);
        }
        let fields: Vec<_> = form.iter().map(|(name, value)| (*name, value.as_str())).collect();
        let answer = self.fetch.post_form(self.url, headers, &fields).await?;
        let nonce = answer.headers.get(DPOP_NONCE).and_then(|it| it.to_str().ok());
        if let (Some(prover), Some(nonce)) = (self.prover, nonce) {
            prover.note(self.url, nonce);
        }
        Ok(answer)
    }

    /// Whether the same would be granted with the nonce that just came.
    fn wants_nonce(&self, answer: &Fetched) -> bool {
        self.prover.is_some()
            && answer.headers.contains_key(DPOP_NONCE)
            && is_refused_as(answer, "use_dpop_nonce")
    }

    fn assertion(&self, client_id: &str, key: &SigningKey) -> Result<String, Error> {
        let iat = now();
        let claims = json!({
            "iss": client_id,
            "sub": client_id,
            "aud": self.issuer,
            "jti": random_token(16),
            "iat": iat,
            "exp": iat + ASSERTED,
        });
        let mut head = json!({"typ": "JWT"});
        if let Some(kid) = key.public_jwk().kid() {
            head["kid"] = kid.into();
        }
        key.sign(&head, &claims)
            .map_err(|error| failed(format!("The client's key cannot sign: {error}")))
    }
}

/// Whether tokens are bound to a key of ours.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Binding {
    Impossible,
    Possible,
    Wanted,
}

impl Granted {
    /// The tokens; the refresh token stays what it was if there is no new one.
    pub(super) fn tokens(self, before: Option<&Tokens>, proof: Binding) -> Result<Tokens, Error> {
        let kind = self.token_type.unwrap_or_else(|| "Bearer".into());
        let bound = match (kind.to_ascii_lowercase().as_str(), proof) {
            ("bearer", Binding::Wanted) => {
                return Err(failed(
                    "The token is not bound to the key of this client, as it has to be (DPoP): it was \
                     not used"
                        .into(),
                ));
            }
            ("bearer", _) => false,
            ("dpop", Binding::Possible | Binding::Wanted) => true,
            _ => {
                let problem =
                    format!("The token is of type {:?}, which we cannot use", excerpt(&kind));
                return Err(failed(problem));
            }
        };
        let refresh = self.refresh_token.filter(|it| !it.is_empty());
        Ok(Tokens {
            access: self.access_token,
            bound,
            refresh: refresh.or_else(|| before.and_then(|it| it.refresh.clone())),
            // Zero says nothing that helps: such a token would be replaced before each request.
            expires_at: self.expires_in.filter(|it| *it > 0).map(|it| now().saturating_add(it)),
            scope: self.scope.or_else(|| before.and_then(|it| it.scope.clone())),
        })
    }
}

/// Whether an endpoint refused with this error code.
fn is_refused_as(answer: &Fetched, error: &str) -> bool {
    matches!(answer.status, StatusCode::BAD_REQUEST | StatusCode::UNAUTHORIZED)
        && answer.json::<Refused>().is_ok_and(|it| it.error == error)
}

/// Whether an endpoint did not take our word for who we are. Python's `mcp` has another code for it at revocation.
fn is_unknown_client(answer: &Fetched) -> bool {
    let is_other = answer.status == StatusCode::UNAUTHORIZED;
    is_refused_as(answer, "invalid_client")
        || is_other && is_refused_as(answer, "unauthorized_client")
}

/// What an endpoint said that refused.
pub(super) fn refused(answer: &Fetched) -> Denial {
    let (from, status) = (answer.from(), answer.status);
    let Ok(said) = answer.json::<Refused>() else {
        return failed(format!("{from} answered with {status}")).into();
    };
    let why = said.error_description.map_or(String::new(), |it| format!(" ({})", printable(&it)));
    let problem = format!("{from} refused: {}{why}", printable(&said.error));
    let problem = Error::new(ErrorKind::AuthorizationFailed).with_message(problem);
    match status.is_client_error() && !said.error.is_empty() {
        true => Denial::Refused { error: said.error, problem },
        false => Denial::Failed(problem),
    }
}

/// What a stranger wrote, on one line and short.
pub(super) fn printable(text: &str) -> String {
    let plain: String = text.chars().map(|it| if it.is_control() { ' ' } else { it }).collect();
    excerpt(plain.trim()).into_owned()
}

/// Whether one of these is longer than anything that is kept.
pub(super) fn is_long<'a>(texts: impl IntoIterator<Item = Option<&'a str>>) -> bool {
    texts.into_iter().flatten().any(|it| it.len() > LONGEST)
}

/// Whether a header can carry it.
fn is_token(token: &str) -> bool {
    !token.is_empty() && token.bytes().all(|it| it.is_ascii_graphic())
}

/// Both parts are encoded like a form, as OAuth wants it; a space as `%20`, which those read too that do not know `+`.
fn basic(client_id: &str, secret: &str) -> Result<HeaderValue, Error> {
    let encoded =
        |text: &str| byte_serialize(text.as_bytes()).collect::<String>().replace('+', "%20");
    let pair = format!("{}:{}", encoded(client_id), encoded(secret));
    header(&format!("Basic {}", STANDARD.encode(pair)))
}

fn header(text: &str) -> Result<HeaderValue, Error> {
    let mut value =
        HeaderValue::from_str(text).map_err(|_| failed("A credential fits no header".into()))?;
    value.set_sensitive(true);
    Ok(value)
}
