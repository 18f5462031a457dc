//! Credentials of a request: token, DPoP proof and client certificate.

use http::{HeaderMap, Method, Uri, header};
use url::form_urlencoded;
use wharf_model::{AuthRequest, ClientCertificate};

use crate::jose::{MAX_TOKEN, sha256};

/// Authentication scheme of the token.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum AuthScheme {
    /// Bearer token.
    Bearer,
    /// Token bound to a key (DPoP).
    Dpop,
}

/// A token as the request presents it.
pub(crate) struct PresentedToken<'a> {
    pub(crate) scheme: AuthScheme,
    pub(crate) token: &'a str,
}

/// Returns the token in the `Authorization` header, if there is one.
///
/// Returns the problem if the request is malformed: RFC 6750 requires status 400 then.
pub(crate) fn presented_token<'a>(
    request: &AuthRequest<'a>,
) -> Result<Option<PresentedToken<'a>>, &'static str> {
    let query = request.uri.query().unwrap_or_default();
    if form_urlencoded::parse(query.as_bytes()).any(|(name, _)| name == "access_token") {
        return Err("Tokens in the URL are not accepted: send it in the Authorization header");
    }
    let mut fields = request.headers.get_all(header::AUTHORIZATION).into_iter();
    let field = match (fields.next(), fields.next()) {
        (None, _) => return Ok(None),
        (Some(field), None) => field,
        (Some(_), Some(_)) => return Err("There is more than one Authorization header"),
    };
    let field = field.to_str().map_err(|_| "The Authorization header is not ASCII")?.trim();
    let (scheme, token) = field.split_once(' ').unwrap_or((field, ""));
    let scheme = match scheme {
        it if it.eq_ignore_ascii_case("bearer") => AuthScheme::Bearer,
        it if it.eq_ignore_ascii_case("dpop") => AuthScheme::Dpop,
        // Other schemes are not ours.
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
    Ok(Some(PresentedToken { scheme, token }))
}

/// Owned data of a request that its token may be bound to.
pub(crate) struct RequestEvidence {
    pub(crate) scheme: AuthScheme,
    pub(crate) token: [u8; 32],
    pub(crate) method: Method,
    pub(crate) path: String,
    pub(crate) host: Option<String>,
    pub(crate) proof: ProofHeader,
    pub(crate) certificate: Option<ClientCertificate>,
}

/// The `DPoP` header.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum ProofHeader {
    None,
    One(String),
    /// More than one header, or not ASCII.
    Malformed,
}

impl ProofHeader {
    fn of(headers: &HeaderMap) -> Self {
        let mut proofs = headers.get_all("dpop").into_iter();
        match (proofs.next(), proofs.next()) {
            (None, _) => ProofHeader::None,
            (Some(proof), None) => proof
                .to_str()
                .map_or(ProofHeader::Malformed, |proof| ProofHeader::One(proof.to_owned())),
            (Some(_), Some(_)) => ProofHeader::Malformed,
        }
    }
}

impl RequestEvidence {
    pub(crate) fn of(request: &AuthRequest<'_>, presented_token: &PresentedToken<'_>) -> Self {
        let host = request.headers.get(header::HOST).and_then(|host| host.to_str().ok());
        let host = Uri::authority(request.uri).map(|it| it.as_str()).or(host);
        RequestEvidence {
            scheme: presented_token.scheme,
            token: sha256(presented_token.token.as_bytes()),
            method: request.method.clone(),
            path: request.uri.path().to_owned(),
            host: host.map(str::to_owned),
            proof: ProofHeader::of(request.headers),
            certificate: request.scope.get::<ClientCertificate>().cloned(),
        }
    }
}
