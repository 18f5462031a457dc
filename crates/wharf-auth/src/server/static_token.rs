//! Authenticator with configured tokens.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use wharf_model::{Authenticated, Principal};

use crate::jose::{constant_time_eq, sha256};
use crate::server::{
    authenticate::TokenAuthenticator,
    builder_macros::verifier_builder,
    resource_metadata::ResourceMetadata,
    verified_token::{
        SubmittedToken, TokenBinding, TokenRejection, TokenVerification, TokenVerifier,
        VerifiedToken,
    },
};

/// Authenticates configured tokens: for development, and for servers with a few fixed callers.
///
/// ```
/// use wharf_auth::server::StaticToken;
/// use wharf_model::Principal;
///
/// let authority = StaticToken::new("s3cr3t", Principal::new("alice").with_scope("files:write"))
///     .and("t0ps3cr3t", Principal::new("bob"));
/// # let _ = authority;
/// ```
#[must_use]
pub struct StaticToken {
    pub(super) metadata: ResourceMetadata,
    tokens: Vec<([u8; 32], Principal)>,
    authenticator: OnceLock<Arc<TokenAuthenticator<StaticTokenVerifier>>>,
}

impl StaticToken {
    /// Maps `token` to `principal`.
    pub fn new(token: impl AsRef<str>, principal: Principal) -> Self {
        let empty = StaticToken {
            metadata: ResourceMetadata::default(),
            tokens: Vec::new(),
            authenticator: OnceLock::new(),
        };
        empty.and(token, principal)
    }

    /// Adds another token.
    pub fn and(mut self, token: impl AsRef<str>, principal: Principal) -> Self {
        self.tokens.push((sha256(token.as_ref().as_bytes()), principal));
        self
    }

    fn authenticator(&self) -> &Arc<TokenAuthenticator<StaticTokenVerifier>> {
        self.authenticator.get_or_init(|| {
            TokenAuthenticator::new(self.metadata.clone(), StaticTokenVerifier(self.tokens.clone()))
        })
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.metadata.problems();
        let nothing = sha256(b"");
        if self.tokens.iter().any(|(digest, _)| *digest == nothing) {
            problems.push("a static token is empty: every client would know it".into());
        }
        problems
    }
}

verifier_builder!(StaticToken);

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticToken").field("tokens", &self.tokens.len()).finish_non_exhaustive()
    }
}

struct StaticTokenVerifier(Vec<([u8; 32], Principal)>);

impl TokenVerifier for StaticTokenVerifier {
    fn verify(&self, submitted: &SubmittedToken<'_>) -> TokenVerification {
        let token = submitted.token;
        let digest = sha256(token.as_bytes());
        // Compares with all tokens, so that the timing does not reveal which one matches.
        let matching = self.0.iter().filter(|(it, _)| constant_time_eq(it, &digest));
        TokenVerification::Now(match matching.fold(None, |_, found| Some(found)) {
            Some((_, principal)) => Ok(VerifiedToken {
                pass: Authenticated::new(principal.clone()),
                expires: None,
                bound: TokenBinding::default(),
            }),
            None => Err(TokenRejection::Invalid("The token is unknown")),
        })
    }

    fn cache_ttl(&self) -> Duration {
        Duration::ZERO
    }
}
