//! Authorization: of callers at a server, and of a client at servers.
//!
//! An [`Authenticator`] decides about each HTTP request. The feature `auth` has authenticators for
//! JWTs, for introspection and for static tokens, and the client side.

#[cfg(all(feature = "auth", feature = "client"))]
pub use wharf_auth::client;
#[cfg(feature = "oauth-proxy")]
pub use wharf_auth::proxy;
#[cfg(all(feature = "auth", feature = "server"))]
pub use wharf_auth::server::{self, Introspection, Jwt, StaticToken};
#[cfg(feature = "auth")]
pub use wharf_auth::{fetch, jose};
pub use wharf_model::{
    AuthDecision, AuthFailure, AuthHeaders, AuthRejection, AuthRequest, AuthResult, Authenticated,
    Authenticator, ClientCertificate, CredentialsProvider,
};
