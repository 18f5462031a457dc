//! Authenticates a request: extracts the token, verifies it, returns the principal or a rejection.

use std::sync::Arc;

use http::HeaderName;
use wharf_model::{
    AuthDecision, AuthRejection, AuthRequest, AuthResult, Authenticated, ClientCertificate, Stores,
};

use crate::jose::{b64, constant_time_eq, sha256};
use crate::server::{
    credentials::{AuthScheme, RequestEvidence, presented_token},
    dpop::{ProofRejection, ProofVerifier},
    resource_metadata::ResourceMetadata,
    token_cache::TokenCache,
    verified_token::{
        SubmittedToken, TokenRejection, TokenVerification, TokenVerifier, VerificationResult,
        VerifiedToken, system_time,
    },
};

const DPOP_NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Authenticates requests with tokens that `V` verifies.
pub(crate) struct TokenAuthenticator<V> {
    pub(crate) metadata: ResourceMetadata,
    verifier: V,
    cache: TokenCache,
    proofs: ProofVerifier,
}

impl<V: TokenVerifier> TokenAuthenticator<V> {
    pub(crate) fn new(metadata: ResourceMetadata, verifier: V) -> Arc<Self> {
        let proofs = ProofVerifier::new(metadata.dpop.clone(), metadata.url());
        Arc::new(TokenAuthenticator { metadata, verifier, cache: TokenCache::default(), proofs })
    }

    pub(crate) fn use_stores(&self, stores: &Stores) {
        self.proofs.use_stores(stores);
    }

    pub(crate) fn admit(self: &Arc<Self>, request: &AuthRequest<'_>) -> AuthDecision {
        let presented_token = match presented_token(request) {
            Ok(Some(presented_token)) => presented_token,
            Ok(None) => return AuthDecision::Now(Err(self.metadata.missing_token())),
            Err(problem) => return AuthDecision::Now(Err(self.metadata.malformed(problem))),
        };
        let digest = sha256(presented_token.token.as_bytes());
        if let Some(verified) = self.cache.get(&digest) {
            if verified.bound.is_unbound() && presented_token.scheme == AuthScheme::Bearer {
                return AuthDecision::Now(self.accept_unbound(verified));
            }
            return self
                .clone()
                .check_binding(verified, RequestEvidence::of(request, &presented_token));
        }
        let submitted =
            SubmittedToken { token: presented_token.token, digest, scope: request.scope };
        let checking = self.verifier.verify(&submitted);
        let evidence = RequestEvidence::of(request, &presented_token);
        match checking {
            TokenVerification::Now(checked) => self.clone().finish(digest, checked, evidence),
            TokenVerification::Later(checked) => {
                let authenticator = self.clone();
                AuthDecision::Later(Box::pin(async move {
                    let checked = checked.await;
                    authenticator.finish(digest, checked, evidence).resolve().await
                }))
            }
        }
    }

    fn finish(
        self: Arc<Self>,
        digest: [u8; 32],
        checked: VerificationResult,
        evidence: RequestEvidence,
    ) -> AuthDecision {
        let verified = match checked {
            Ok(verified) => verified,
            Err(TokenRejection::Invalid(problem)) => {
                let denied = self.metadata.invalid(evidence.scheme, "invalid_token", problem);
                return AuthDecision::Now(Err(denied));
            }
            Err(TokenRejection::Unavailable) => {
                return AuthDecision::Now(Err(self.metadata.unavailable()));
            }
        };
        self.cache.put(digest, &verified, self.verifier.cache_ttl());
        self.check_binding(verified, evidence)
    }

    /// Checks that the client presents the key or certificate that the token is bound to.
    fn check_binding(
        self: Arc<Self>,
        verified: VerifiedToken,
        evidence: RequestEvidence,
    ) -> AuthDecision {
        if verified.bound.unsupported {
            let problem = "The token has an unsupported binding (cnf)";
            return AuthDecision::Now(Err(self.metadata.invalid(
                evidence.scheme,
                "invalid_token",
                problem,
            )));
        }
        if let Some(wanted) = &verified.bound.certificate
            && !certificate_matches(wanted, evidence.certificate.as_ref())
        {
            let problem = "The token is bound to another client certificate";
            return AuthDecision::Now(Err(self.metadata.invalid(
                evidence.scheme,
                "invalid_token",
                problem,
            )));
        }
        match (evidence.scheme, &verified.bound.key) {
            (AuthScheme::Bearer, None) => AuthDecision::Now(self.accept_unbound(verified)),
            (AuthScheme::Bearer, Some(_)) => {
                let problem = "The token is bound to a key: send it with DPoP and a proof";
                AuthDecision::Now(Err(self.metadata.invalid(
                    AuthScheme::Dpop,
                    "invalid_token",
                    problem,
                )))
            }
            (AuthScheme::Dpop, None) => {
                let problem = "The token is not bound to a key: send it as Bearer";
                AuthDecision::Now(Err(self.metadata.invalid(
                    AuthScheme::Dpop,
                    "invalid_token",
                    problem,
                )))
            }
            (AuthScheme::Dpop, Some(key)) => {
                let key = key.clone();
                AuthDecision::Later(Box::pin(async move {
                    self.check_proof(verified, &key, &evidence).await
                }))
            }
        }
    }

    fn accept_unbound(&self, verified: VerifiedToken) -> AuthResult {
        if self.metadata.dpop.is_required() {
            let problem = "Only tokens that are bound to a key are accepted: use DPoP";
            return Err(self.metadata.invalid(AuthScheme::Dpop, "invalid_token", problem));
        }
        self.authenticate(verified, AuthScheme::Bearer)
    }

    async fn check_proof(
        &self,
        verified: VerifiedToken,
        key: &str,
        evidence: &RequestEvidence,
    ) -> AuthResult {
        let fresh = match self.proofs.check(key, evidence).await {
            Ok(fresh) => fresh,
            Err(rejection) => return Err(self.proof_rejection(rejection)),
        };
        let mut pass = self.authenticate(verified, AuthScheme::Dpop)?;
        if let Some(nonce) = fresh {
            pass.headers.insert(DPOP_NONCE, nonce);
        }
        Ok(pass)
    }

    fn proof_rejection(&self, rejection: ProofRejection) -> AuthRejection {
        match rejection {
            ProofRejection::Invalid(problem) => {
                self.metadata.invalid(AuthScheme::Dpop, "invalid_dpop_proof", problem)
            }
            ProofRejection::NonceRequired(nonce) => {
                let problem = "The proof must contain the nonce of DPoP-Nonce";
                let mut denied = self.metadata.invalid(AuthScheme::Dpop, "use_dpop_nonce", problem);
                denied.headers.insert(DPOP_NONCE, nonce);
                denied
            }
            ProofRejection::Unavailable => self.metadata.unavailable(),
        }
    }

    fn authenticate(&self, verified: VerifiedToken, scheme: AuthScheme) -> AuthResult {
        let mut pass: Authenticated = verified.pass;
        if let Some(denied) = self.metadata.missing_scopes(&pass.principal, scheme) {
            return Err(denied);
        }
        pass.until = verified.expires.map(system_time);
        Ok(pass)
    }
}

/// Returns true if the certificate has this digest.
fn certificate_matches(wanted: &str, certificate: Option<&ClientCertificate>) -> bool {
    certificate.is_some_and(|it| constant_time_eq(b64(sha256(&it.0)).as_bytes(), wanted.as_bytes()))
}
