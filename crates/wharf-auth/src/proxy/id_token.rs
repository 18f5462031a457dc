//! Verifies the ID token of the identity provider: signature, issuer, audience, times and nonce.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

use http::HeaderMap;
use tokio::time::Instant;

use crate::jose::{Algorithm, Claims, JwkSet, UnverifiedToken, constant_time_eq};
use crate::proxy::idp::{IdpClient, IdpError, METADATA_TTL, still_valid};

/// Shortest interval between key fetches because of an unknown key.
const KEY_REFETCH_INTERVAL: Duration = Duration::from_secs(10);

/// Tolerated clock difference.
const CLOCK_SKEW_SECS: u64 = 60;

impl IdpClient {
    pub(super) async fn verify_id_token(&self, token: &str) -> Result<Claims, IdpError> {
        let wrong = |why: &dyn std::fmt::Display| IdpError::new(format!("ID token: {why}"));
        let token = UnverifiedToken::parse(token).map_err(|error| wrong(&error))?;
        let mut last = wrong(&"the provider has no matching key");
        // The keys may have been rotated: fetch them once more.
        for refetched_at in [false, true] {
            let keys = self.keys(refetched_at).await?;
            let wanted = token.header.kid.as_deref();
            let fits = |kid: Option<&str>| wanted.is_none() || kid.is_none() || kid == wanted;
            for key in keys.keys.iter().filter(|key| fits(key.kid())) {
                match token.verify(key, Algorithm::ALL) {
                    Ok(claims) => return Ok(claims),
                    Err(error) => last = wrong(&error),
                }
            }
        }
        Err(last)
    }

    /// Returns the provider's keys. Fetches them again if none fits, at a limited rate.
    async fn keys(&self, refetched_at: bool) -> Result<JwkSet, IdpError> {
        let url = self.endpoints().await?.keys;
        let url = url.ok_or_else(|| IdpError::new("the provider has no keys"))?;
        let mut known = self.keys.lock().await;
        let is_recent = known.refetched_at.is_some_and(|at| at.elapsed() < KEY_REFETCH_INTERVAL);
        if let Some(keys) =
            still_valid(&known.found, METADATA_TTL).filter(|_| !refetched_at || is_recent)
        {
            return keys;
        }
        let old = known.found.as_ref().and_then(|(_, found)| found.as_ref().ok().cloned());
        if let Some(old) = old.clone().filter(|_| is_recent) {
            return Ok(old);
        }
        if refetched_at || old.is_some() {
            known.refetched_at = Some(Instant::now());
        }
        match (self.read::<JwkSet>(&url, HeaderMap::new()).await, old) {
            // Stale keys are used until a fetch succeeds.
            (Err(_), Some(old)) => Ok(old),
            (keys, _) => {
                known.found = Some((Instant::now(), keys.clone()));
                keys
            }
        }
    }

    /// Validates an ID token: issuer, audience, expiry and nonce.
    pub(super) fn check_id_token(
        &self,
        claims: &Claims,
        issuer: &str,
        nonce: &str,
    ) -> Result<(), IdpError> {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).map_or(0, |it| it.as_secs());
        let (id, audience) = (&*self.provider.id, claims.texts("aud"));
        let party = claims.text("azp");
        let wrong = |what: &str| Err(IdpError::new(format!("ID token: {what}")));
        if claims.text("iss") != Some(issuer) {
            return wrong("it is from another issuer");
        }
        if !audience.contains(&id) || party.is_some_and(|it| it != id) {
            return wrong("it is for another client");
        }
        if audience.len() > 1 && party.is_none() {
            return wrong("it is for several clients, but has no azp");
        }
        if claims.time("exp").is_none_or(|exp| exp.saturating_add(CLOCK_SKEW_SECS) <= now) {
            return wrong("it has expired");
        }
        if claims.time("iat").is_some_and(|iat| iat > now.saturating_add(CLOCK_SKEW_SECS)) {
            return wrong("it was issued in the future: check the clocks");
        }
        if !constant_time_eq(claims.text("nonce").unwrap_or_default().as_bytes(), nonce.as_bytes())
        {
            return wrong("its nonce is from another sign-in");
        }
        Ok(())
    }
}
