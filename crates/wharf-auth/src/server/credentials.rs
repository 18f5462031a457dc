//! What a request shows of itself.

use http::{HeaderMap, Method, Uri, header};
use url::form_urlencoded;
use wharf_model::{AuthRequest, ClientCertificate};

use crate::jose::{MAX_TOKEN, sha256};

/// How a token was sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scheme {
    /// Whoever has it may use it.
    Bearer,
    /// Only with a proof that the key is there as well.
    Dpop,
}

/// A token as it was sent.
pub(crate) struct Presented<'a> {
    pub(crate) scheme: Scheme,
    pub(crate) token: &'a str,
}

/// The token of a request, if it shows one where tokens belong.
///
/// The problem, if the request is malformed: RFC 6750 has it answered with 400.
pub(crate) fn presented<'a>(
    knock: &AuthRequest<'a>,
) -> Result<Option<Presented<'a>>, &'static str> {
    let query = knock.uri.query().unwrap_or_default();
    if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token") {
        return Err("A token in the URL is not taken: send it in the Authorization header");
    }
    let mut fields = knock.headers.get_all(header::AUTHORIZATION).into_iter();
    let field = match (fields.next(), fields.next()) {
        (None, _) => return Ok(None),
        (Some(field), None) => field,
        (Some(_), Some(_)) => return Err("There is more than one Authorization header"),
    };
    let field = field.to_str().map_err(|_| "The Authorization header is no text")?.trim();
    let (scheme, token) = field.split_once(' ').unwrap_or((field, ""));
    let scheme = match scheme {
        it if it.eq_ignore_ascii_case("bearer") => Scheme::Bearer,
        it if it.eq_ignore_ascii_case("dpop") => Scheme::Dpop,
        // Somebody else's business.
        _ => return Ok(None),
    };
    let token = token.trim_start();
    if token.len() > MAX_TOKEN {
        return Err("The token is too long");
    }
    let bare = token.trim_end_matches('=');
    let is_plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._~+/".contains(&byte);
    if bare.is_empty() || !bare.bytes().all(is_plain) {
        return Err("The Authorization header is malformed");
    }
    Ok(Some(Presented { scheme, token }))
}

/// All of a request that its token may be bound to, kept for as long as that takes.
pub(crate) struct Shown {
    pub(crate) scheme: Scheme,
    pub(crate) token: [u8; 32],
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) host: Option<String>,
    pub(crate) proof: Proof,
    pub(crate) certificate: Option<ClientCertificate>,
}

/// The proof that came with a token.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Proof {
    None,
    One(String),
    /// More than one, or no text.
    Malformed,
}

impl Proof {
    fn of(headers: &HeaderMap) -> Self {
        let mut proofs = headers.get_all("dpop").into_iter();
        match (proofs.next(), proofs.next()) {
            (None, _) => Proof::None,
            (Some(proof), None) => {
                proof.to_str().map_or(Proof::Malformed, |proof| Proof::One(proof.to_owned()))
            }
            (Some(_), Some(_)) => Proof::Malformed,
        }
    }
}

impl Shown {
    pub(crate) fn of(knock: &AuthRequest<'_>, presented: &Presented<'_>) -> Self {
        let host = knock.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = Uri::authority(knock.uri).map(|it| it.as_str()).or(host);
        Shown {
            scheme: presented.scheme,
            token: sha256(presented.token.as_bytes()),
            method: knock.method.clone(),
            path: knock.uri.path().to_owned(),
            host: host.map(str::to_owned),
            proof: Proof::of(knock.headers),
            certificate: knock.scope.get::<ClientCertificate>().cloned(),
        }
    }
}
