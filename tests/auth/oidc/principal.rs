//! Principal of the caller in a handler.

use wharf::prelude::*;
use wharf_auth::jose::Claims;
use wharf_auth::server::Jwt;

use crate::support::authorization::AuthorizationServer;
use crate::support::protected::{BoundAddress, tool_text};

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
    let address = BoundAddress::take().await;
    let authority = Jwt::issuer(&issuer.issuer).audience(&address.resource).roles("roles");
    let server = address.serve_with(authority, |server| server.tool::<rank>());
    let token = issuer.token(&server.resource, "files:read").await;
    assert_eq!(tool_text(&server.call_with("rank", &token).await), "captain by machine");
}
