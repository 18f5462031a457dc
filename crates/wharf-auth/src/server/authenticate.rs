//! From a request to a verdict: what was shown, what it is worth, whose it is.

use std::sync::Arc;

use http::HeaderName;
use wharf_model::{
    AuthDecision, AuthRejection, AuthRequest, AuthResult, Authenticated, ClientCertificate, Stores,
};

use crate::jose::{b64, same, sha256};
use crate::server::{
    cache::Cache,
    credentials::{Scheme, Shown, presented},
    dpop::{Proofs, Refused},
    resource_metadata::Front,
    verified_token::{Checked, Checking, Grant, Rejected, Submitted, Verifier, moment},
};

const NONCE: HeaderName = HeaderName::from_static("dpop-nonce");

/// Lets in whoever has a token that `V` finds good.
pub(crate) struct Gate<V> {
    pub(crate) front: Front,
    verifier: V,
    cache: Cache,
    proofs: Proofs,
}

impl<V: Verifier> Gate<V> {
    pub(crate) fn new(front: Front, verifier: V) -> Arc<Self> {
        let proofs = Proofs::new(front.dpop.clone(), front.url());
        Arc::new(Gate { front, verifier, cache: Cache::default(), proofs })
    }

    pub(crate) fn join(&self, stores: &Stores) {
        self.proofs.join(stores);
    }

    pub(crate) fn admit(self: &Arc<Self>, knock: &AuthRequest<'_>) -> AuthDecision {
        let presented = match presented(knock) {
            Ok(Some(presented)) => presented,
            Ok(None) => return AuthDecision::Now(Err(self.front.nobody())),
            Err(problem) => return AuthDecision::Now(Err(self.front.malformed(problem))),
        };
        let digest = sha256(presented.token.as_bytes());
        if let Some(grant) = self.cache.get(&digest) {
            if grant.bound.is_free() && presented.scheme == Scheme::Bearer {
                return AuthDecision::Now(self.unbound(grant));
            }
            return self.clone().enter(grant, Shown::of(knock, &presented));
        }
        let submitted = Submitted { token: presented.token, digest, scope: knock.scope };
        let checking = self.verifier.verify(&submitted);
        let shown = Shown::of(knock, &presented);
        match checking {
            Checking::Now(checked) => self.clone().settle(digest, checked, shown),
            Checking::Later(checked) => {
                let gate = self.clone();
                AuthDecision::Later(Box::pin(async move {
                    let checked = checked.await;
                    gate.settle(digest, checked, shown).verdict().await
                }))
            }
        }
    }

    fn settle(self: Arc<Self>, digest: [u8; 32], checked: Checked, shown: Shown) -> AuthDecision {
        let grant = match checked {
            Ok(grant) => grant,
            Err(Rejected::Invalid(problem)) => {
                let denied = self.front.invalid(shown.scheme, "invalid_token", problem);
                return AuthDecision::Now(Err(denied));
            }
            Err(Rejected::Unknown) => return AuthDecision::Now(Err(self.front.unknown())),
        };
        self.cache.put(digest, &grant, self.verifier.keep());
        self.enter(grant, shown)
    }

    /// Lets the bearer of a good token in, if it is the one that the token is bound to.
    fn enter(self: Arc<Self>, grant: Grant, shown: Shown) -> AuthDecision {
        if grant.bound.otherwise {
            let problem = "The token is bound in a way that is not supported here";
            return AuthDecision::Now(Err(self.front.invalid(
                shown.scheme,
                "invalid_token",
                problem,
            )));
        }
        if let Some(wanted) = &grant.bound.certificate
            && !shows(wanted, shown.certificate.as_ref())
        {
            let problem = "The token is bound to another client certificate";
            return AuthDecision::Now(Err(self.front.invalid(
                shown.scheme,
                "invalid_token",
                problem,
            )));
        }
        match (shown.scheme, &grant.bound.key) {
            (Scheme::Bearer, None) => AuthDecision::Now(self.unbound(grant)),
            (Scheme::Bearer, Some(_)) => {
                let problem = "The token is bound to a key: send it with DPoP and a proof";
                AuthDecision::Now(Err(self.front.invalid(Scheme::Dpop, "invalid_token", problem)))
            }
            (Scheme::Dpop, None) => {
                let problem = "The token is not bound to a key: send it as Bearer";
                AuthDecision::Now(Err(self.front.invalid(Scheme::Dpop, "invalid_token", problem)))
            }
            (Scheme::Dpop, Some(key)) => {
                let key = key.clone();
                AuthDecision::Later(Box::pin(async move { self.proved(grant, &key, &shown).await }))
            }
        }
    }

    fn unbound(&self, grant: Grant) -> AuthResult {
        if self.front.dpop.is_required() {
            let problem = "Only tokens that are bound to a key are taken here: use DPoP";
            return Err(self.front.invalid(Scheme::Dpop, "invalid_token", problem));
        }
        self.pass(grant, Scheme::Bearer)
    }

    async fn proved(&self, grant: Grant, key: &str, shown: &Shown) -> AuthResult {
        let fresh = match self.proofs.check(key, shown).await {
            Ok(fresh) => fresh,
            Err(refused) => return Err(self.refused(refused)),
        };
        let mut pass = self.pass(grant, Scheme::Dpop)?;
        if let Some(nonce) = fresh {
            pass.headers.insert(NONCE, nonce);
        }
        Ok(pass)
    }

    fn refused(&self, refused: Refused) -> AuthRejection {
        match refused {
            Refused::Proof(problem) => {
                self.front.invalid(Scheme::Dpop, "invalid_dpop_proof", problem)
            }
            Refused::Nonce(nonce) => {
                let problem = "The proof needs the nonce of DPoP-Nonce";
                let mut denied = self.front.invalid(Scheme::Dpop, "use_dpop_nonce", problem);
                denied.headers.insert(NONCE, nonce);
                denied
            }
            Refused::Unknown => self.front.unknown(),
        }
    }

    fn pass(&self, grant: Grant, scheme: Scheme) -> AuthResult {
        let mut pass: Authenticated = grant.pass;
        if let Some(denied) = self.front.lacks(&pass.principal, scheme) {
            return Err(denied);
        }
        pass.until = grant.expires.map(moment);
        Ok(pass)
    }
}

/// Whether the certificate is the one with this digest.
fn shows(wanted: &str, certificate: Option<&ClientCertificate>) -> bool {
    certificate.is_some_and(|it| same(b64(sha256(&it.0)).as_bytes(), wanted.as_bytes()))
}
