//! Revocation endpoint (RFC 7009): ends a grant with its tokens.

use bytes::Bytes;
use http::{StatusCode, request::Parts};
use serde_json::json;
use wharf_model::Error;

use crate::proxy::{
    consent_page, consent_page::ProxyResponse, records::GrantRecord, routes::ProxyState,
};

use crate::proxy::token_endpoint::{
    access_parts, invalid_request, matches_digest, refresh_parts, refusal_response,
};

impl ProxyState {
    /// Revokes a token (RFC 7009).
    pub(super) async fn revoke(&self, parts: &Parts, body: &Bytes) -> Result<ProxyResponse, Error> {
        let (form, client) = match self.authenticate(parts, body).await? {
            Ok(known) => known,
            Err(refusal) => return Ok(refusal_response(parts, &refusal)),
        };
        let Some(token) = form.get("token") else {
            return Ok(refusal_response(parts, &invalid_request("token is missing")));
        };
        // An unknown token counts as revoked.
        let done = consent_page::json(StatusCode::OK, &json!({}));
        if let Some([id, family, _]) = refresh_parts(token) {
            let kept = self.store.get::<GrantRecord>(id).await?;
            let is_genuine = |grant: &GrantRecord| {
                grant.client == client && matches_digest(family, &grant.family)
            };
            if kept.is_some_and(|kept| is_genuine(&kept.value)) {
                self.store.remove::<GrantRecord>(id).await?;
            }
        } else if let Some((id, secret)) = access_parts(token) {
            while let Some(mut kept) = self.store.get::<GrantRecord>(id).await? {
                let access = &mut kept.value.access;
                let Some(at) = access.iter().position(|it| matches_digest(secret, &it.digest))
                else {
                    break;
                };
                access.remove(at);
                if kept.value.client != client || self.store.swap(kept, None).await? {
                    break;
                }
            }
        }
        Ok(done)
    }

    /// Revokes a grant with all its tokens.
    pub(super) async fn revoke_grant(&self, grant: Option<&str>) -> Result<(), Error> {
        if let Some(id) = grant {
            self.store.remove::<GrantRecord>(id).await?;
        }
        Ok(())
    }
}
