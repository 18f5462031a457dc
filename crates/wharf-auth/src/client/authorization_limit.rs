//! Limit of authorizations in a row: when a client gives up, although the server demands another one.

use std::time::Duration;

use tokio::time::Instant;

use crate::client::{challenge::AuthRequirement, scope};

/// Failed authorizations in a row before they stop.
const MAX_FAILED_ATTEMPTS: u32 = 3;
/// Time after which failed authorizations no longer count.
const ATTEMPT_COOLDOWN: Duration = Duration::from_secs(60);

/// Authorizations of this process at one server.
#[derive(Default)]
pub(super) struct AuthorizationLimit {
    /// Failed authorizations in a row, and the time of the last one.
    failed_attempts: u32,
    attempted_at: Option<Instant>,
    /// All scopes that this process requested.
    requested: Vec<String>,
}

impl AuthorizationLimit {
    /// Returns true if another authorization may help, and counts it.
    pub(super) fn may_authorize(&mut self, requirement: &AuthRequirement) -> bool {
        let wanted = requirement.scope.as_deref().unwrap_or_default();
        if requirement.requires_scope() && wanted.iter().all(|it| self.requested.contains(it)) {
            return false;
        }
        if self.attempted_at.is_none_or(|at| at.elapsed() > ATTEMPT_COOLDOWN) {
            self.failed_attempts = 0;
        }
        if self.failed_attempts >= MAX_FAILED_ATTEMPTS {
            return false;
        }
        self.failed_attempts += 1;
        true
    }

    /// Records an authorization with the granted scopes, or its failure.
    pub(super) fn record(&mut self, granted: Option<&Vec<String>>) {
        // Now, and not at its start: users take their time.
        self.attempted_at = Some(Instant::now());
        if let Some(scopes) = granted {
            self.requested = scope::union([std::mem::take(&mut self.requested), scopes.clone()]);
        }
    }

    /// Forgets the failed authorizations: the server has accepted a token.
    pub(super) fn reset(&mut self) {
        self.failed_attempts = 0;
    }
}
