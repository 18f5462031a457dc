//! Principal of the caller in a handler.

use wharf::prelude::*;
use wharf_auth::jose::Claims;
use wharf_auth::server::Jwt;

use crate::support::authorization::AuthorizationServer;
use crate::support::protected::{Place, said};

mod tests {
    crate::oidc::tests! { principals_have_the_roles_and_claims_of_the_token }
}

/// Returns the claims of the caller and the client id.
#[tool]
async fn rank(caller: Principal, Extension(claims): Extension<Claims>) -> String {
    let roles: Vec<_> = caller.roles().collect();
    format!("{} by {}", roles.join(" "), claims.text("client_id").unwrap_or_default())
}

async fn principals_have_the_roles_and_claims_of_the_token() {
    let issuer = AuthorizationServer::start().await;
    let place = Place::take().await;
    let authority = Jwt::issuer(&issuer.issuer).audience(&place.resource).roles("roles");
    let server = place.serve_with(authority, |server| server.tool::<rank>());
    let token = issuer.token(&server.resource, "files:read").await;
    assert_eq!(said(&server.call_with("rank", &token).await), "captain by machine");
}
