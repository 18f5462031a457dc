//! Tokens that somebody wrote down.

use std::{
    fmt,
    sync::{Arc, OnceLock},
    time::Duration,
};

use wharf_model::{Authenticated, Principal};

use crate::jose::{same, sha256};
use crate::server::{
    authenticate::Gate,
    builder_macros::common,
    resource_metadata::Front,
    verified_token::{Bound, Checking, Grant, Rejected, Submitted, Verifier},
};

/// Lets in whoever knows a secret: for development, and for servers with a few callers that never change.
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
    pub(super) front: Front,
    known: Vec<([u8; 32], Principal)>,
    gate: OnceLock<Arc<Gate<Secrets>>>,
}

impl StaticToken {
    /// Whoever shows `token` is `principal`.
    pub fn new(token: impl AsRef<str>, principal: Principal) -> Self {
        let nobody =
            StaticToken { front: Front::default(), known: Vec::new(), gate: OnceLock::new() };
        nobody.and(token, principal)
    }

    /// And whoever shows this one is that.
    pub fn and(mut self, token: impl AsRef<str>, principal: Principal) -> Self {
        self.known.push((sha256(token.as_ref().as_bytes()), principal));
        self
    }

    fn gate(&self) -> &Arc<Gate<Secrets>> {
        self.gate.get_or_init(|| Gate::new(self.front.clone(), Secrets(self.known.clone())))
    }

    fn problems(&self) -> Vec<String> {
        let mut problems = self.front.problems();
        let nothing = sha256(b"");
        if self.known.iter().any(|(digest, _)| *digest == nothing) {
            problems.push("a static token is empty: everybody knows it".into());
        }
        problems
    }
}

common!(StaticToken);

impl fmt::Debug for StaticToken {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("StaticToken").field("tokens", &self.known.len()).finish_non_exhaustive()
    }
}

struct Secrets(Vec<([u8; 32], Principal)>);

impl Verifier for Secrets {
    fn verify(&self, submitted: &Submitted<'_>) -> Checking {
        let token = submitted.token;
        let digest = sha256(token.as_bytes());
        // All of them, so that the time tells nothing about which it is.
        let matching = self.0.iter().filter(|(known, _)| same(known, &digest));
        Checking::Now(match matching.fold(None, |_, found| Some(found)) {
            Some((_, principal)) => Ok(Grant {
                pass: Authenticated::new(principal.clone()),
                expires: None,
                bound: Bound::default(),
            }),
            None => Err(Rejected::Invalid("The token is unknown")),
        })
    }

    fn keep(&self) -> Duration {
        Duration::ZERO
    }
}
