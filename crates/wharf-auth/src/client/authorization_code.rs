//! Authorization code grant with PKCE: the user agent visits the authorization server and returns with a
//! code.

use std::sync::Arc;

use url::Url;
use wharf_model::{Error, ErrorKind, excerpt};

use crate::client::{
    AuthorizationRequest, Login, RedirectParams, UserAgent,
    discovery::display_url,
    failed,
    flow::AuthorizationFlow,
    metadata_documents::{AuthServerMetadata, TokenResponse},
    resource_url::is_loopback,
    scope,
    token_endpoint::{TokenError, sanitized},
};
use crate::jose::{b64, constant_time_eq, random_token, sha256};

/// Parameters of our authorization request. An authorization endpoint must not contain them.
const REQUEST_PARAMETERS: [&str; 13] = [
    "response_type",
    "client_id",
    "redirect_uri",
    "state",
    "code_challenge",
    "code_challenge_method",
    "resource",
    "scope",
    "prompt",
    "dpop_jkt",
    "request",
    "request_uri",
    "response_mode",
];

/// Values of an authorization request that the response must match.
struct PendingAuthorization {
    state: String,
    verifier: String,
    redirect_uri: String,
}

impl AuthorizationFlow<'_> {
    pub(super) async fn authorize_with_code(
        &self,
        visit: &Arc<dyn UserAgent>,
        login: &mut Login,
    ) -> Result<TokenResponse, TokenError> {
        let endpoint_url = self.endpoint_url().await?;
        let last = login.registration.as_ref().and_then(|it| it.redirect_uri.as_deref());
        let session = visit.prepare(last).await?;
        let pending = PendingAuthorization {
            state: random_token(32),
            verifier: random_token(32),
            redirect_uri: session.redirect_uri().to_owned(),
        };
        let identity = self.ensure_registered(login, &pending.redirect_uri).await?;
        let to = AuthorizationRequest {
            url: self.request_url(endpoint_url, &identity.client_id, &pending),
            state: pending.state.clone(),
            issuer: self.auth_server.issuer.clone(),
            server: display_url(self.server),
        };
        let callback = session.visit(to).await?;
        let code = validated_code(&callback, &pending.state, self.auth_server)?;
        let mut form = self.base_form("authorization_code");
        form.push(("code", code));
        form.push(("redirect_uri", pending.redirect_uri));
        form.push(("code_verifier", pending.verifier));
        let granted = self.endpoint()?.request_token(&identity, form).await;
        if matches!(&granted, Err(TokenError::Rejected { error, .. }) if error == "invalid_client")
        {
            // The authorization server has removed our registration; the next attempt registers again.
            self.remove_registration(login).await?;
        }
        granted
    }

    /// Checks the authorization endpoint.
    async fn endpoint_url(&self) -> Result<Url, Error> {
        let issuer = excerpt(&self.auth_server.issuer);
        let Some(endpoint) = &self.auth_server.authorization_endpoint else {
            return Err(failed(format!(
                "the authorization server {issuer:?} has no authorization endpoint"
            )));
        };
        let methods = self.auth_server.code_challenge_methods_supported.as_deref();
        if !methods.unwrap_or_default().iter().any(|it| it == "S256") {
            return Err(failed(format!(
                "the authorization server {issuer:?} does not announce PKCE with S256, which protects codes against theft: it is not used"
            )));
        }
        let bad = |why: &str| {
            failed(format!(
                "the authorization endpoint of {issuer:?} is not opened ({:?}): {why}",
                excerpt(endpoint)
            ))
        };
        let url = Url::parse(endpoint).map_err(|error| bad(&error.to_string()))?;
        // A loopback page is opened only for servers on loopback.
        let is_inside = is_loopback(&url);
        let is_safe = match url.scheme() {
            "https" => !is_inside || is_loopback(self.server),
            "http" => is_inside && is_loopback(self.server),
            _ => false,
        };
        if !is_safe || !url.username().is_empty() || url.password().is_some() {
            return Err(bad("only https:// is allowed"));
        }
        // Duplicate parameters could override ours: some servers use the first one.
        if let Some((name, _)) =
            url.query_pairs().find(|(name, _)| REQUEST_PARAMETERS.contains(&&**name))
        {
            return Err(bad(&format!("it contains the request parameter `{name}`")));
        }
        // A browser can reach private networks, so the same SSRF check applies to it.
        self.fetch.check_reachable(url.as_str()).await.map_err(|error| bad(&error.to_string()))?;
        Ok(url)
    }

    fn request_url(
        &self,
        mut endpoint_url: Url,
        client_id: &str,
        pending: &PendingAuthorization,
    ) -> Url {
        endpoint_url.set_fragment(None);
        let challenge = b64(sha256(pending.verifier.as_bytes()));
        let mut query = endpoint_url.query_pairs_mut();
        query
            .append_pair("response_type", "code")
            .append_pair("client_id", client_id)
            .append_pair("redirect_uri", &pending.redirect_uri)
            .append_pair("state", &pending.state)
            .append_pair("code_challenge", &challenge)
            .append_pair("code_challenge_method", "S256")
            .append_pair("resource", &self.discovered.resource);
        if !self.scopes.is_empty() {
            query.append_pair("scope", &self.scopes.join(" "));
        }
        if scope::requests_offline_access(self.scopes) {
            // OpenID Connect grants offline access only with a consent prompt.
            query.append_pair("prompt", "consent");
        }
        if let Some(prover) = self.prover {
            query.append_pair("dpop_jkt", &prover.thumbprint());
        }
        drop(query);
        endpoint_url
    }
}

/// Returns the code if `state` and `iss` match. Nothing else in the response is trusted or shown before.
fn validated_code(
    callback: &RedirectParams,
    state: &str,
    auth_server: &AuthServerMetadata,
) -> Result<String, Error> {
    let received = callback.get("state").unwrap_or_default();
    if !constant_time_eq(received.as_bytes(), state.as_bytes()) {
        return Err(failed(
            "the authorization response does not belong to this request (`state` differs); try again"
                .into(),
        ));
    }
    // RFC 9207: exact comparison.
    let is_from_issuer = match callback.get("iss") {
        Some(iss) => iss == auth_server.issuer,
        None => !callback.has("iss") && !auth_server.authorization_response_iss_parameter_supported,
    };
    if !is_from_issuer {
        return Err(failed(format!(
            "the authorization response is not from {:?} (`iss`): it was not used",
            excerpt(&auth_server.issuer)
        )));
    }
    if let Some(error) = callback.get("error") {
        let why = callback.get("error_description");
        let why = why.map_or(String::new(), |it| format!(" ({})", sanitized(it)));
        let problem = format!("The authorization server refused: {}{why}", sanitized(error));
        let kind = match error {
            "access_denied" => ErrorKind::AccessDenied,
            _ => ErrorKind::AuthorizationFailed,
        };
        return Err(Error::new(kind).with_message(problem));
    }
    match callback.get("code") {
        Some(code) if !code.is_empty() => Ok(code.to_owned()),
        _ => Err(failed("the authorization server returned no code; try again".into())),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, reason = "a test fails by panicking")]
    use super::*;

    #[test]
    fn authorization_responses_are_validated() {
        let issuer = "https://id.example";
        let cases = [
            // Metadata promises `iss`, response parameters, expected result.
            (true, "code=c&state=s&iss=https%3A%2F%2Fid.example", true),
            (true, "code=c&state=s", false),
            (true, "code=c&state=s&iss=https%3A%2F%2Fid.example%2F", false),
            (true, "code=c&state=s&iss=https%3A%2F%2FID.example", false),
            (true, "code=c&state=s&iss=https%3A%2F%2Fid.example:443", false),
            (true, "code=c&state=s&iss=https://id.example&iss=https://id.example", false),
            (false, "code=c&state=s", true),
            (false, "code=c&state=s&iss=https%3A%2F%2Fid.example", true),
            (false, "code=c&state=s&iss=https%3A%2F%2Fevil.example", false),
            (false, "code=c&state=s&iss=", false),
            (false, "code=c&state=s&iss=a&iss=b", false),
            (false, "code=c&state=t", false),
            (false, "code=c", false),
            (false, "code=c&state=s&state=s", false),
            (false, "code=&state=s", false),
            (false, "state=s", false),
            (false, "", false),
        ];
        for (promised, query, good) in cases {
            let auth_server = AuthServerMetadata {
                issuer: issuer.into(),
                authorization_response_iss_parameter_supported: promised,
                ..AuthServerMetadata::default()
            };
            let got = validated_code(&RedirectParams::from_query(query), "s", &auth_server);
            assert_eq!(got.is_ok(), good, "{promised} {query}: {got:?}");
        }
    }

    #[test]
    fn errors_of_unvalidated_responses_are_not_shown() {
        let auth_server = AuthServerMetadata {
            issuer: "https://id.example".into(),
            ..AuthServerMetadata::default()
        };
        let said = "error=access_denied&error_description=call+0900&state=s";
        for (query, is_shown) in [
            (said.to_owned(), true),
            (format!("{said}&iss=https://evil.example"), false),
            (said.replace("state=s", "state=x"), false),
        ] {
            let error =
                validated_code(&RedirectParams::from_query(&query), "s", &auth_server).unwrap_err();
            assert_eq!(error.message.contains("0900"), is_shown, "{query}: {error}");
            assert_eq!(error.message.contains("access_denied"), is_shown, "{query}: {error}");
        }
    }
}
