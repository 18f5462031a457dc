//! Authorization: of callers at a server, and of a client at servers.
//!
//! An [`Authenticator`] decides about each HTTP request. The feature `auth` has authenticators for
//! JWTs, for introspection and for static tokens, and the client side.

#[cfg(all(feature = "auth", feature = "server"))]
pub use wharf_auth::server::{Introspection, Jwt, StaticToken};
pub use wharf_model::{
    AuthDecision, AuthFailure, AuthHeaders, AuthRejection, AuthRequest, AuthResult, Authenticated,
    Authenticator, ClientCertificate, CredentialsProvider,
};

/// OAuth client: obtains, refreshes and stores the access tokens for MCP servers.
#[cfg(all(feature = "auth", feature = "client"))]
pub mod client {
    pub use wharf_auth::client::{
        Assertion, Auth, AuthorizationRequest, Challenge, Enterprise, FileTokenStore, Keychain,
        Login, LoginKey, MemoryTokenStore, RedirectParams, Registration, StoreLock, TokenStore,
        Tokens, UserAgent, UserAgentSession, server_key,
    };

    /// User agent that opens the system's browser, and receives the redirect on the loopback interface.
    pub mod browser {
        pub use wharf_auth::client::browser::{
            AuthorizationResponse, Browser, Loopback, Notice, OpenError, checked_url, open,
        };
    }
}

/// Authenticators of servers: JWT (with DPoP), introspection, static tokens, and functions.
#[cfg(all(feature = "auth", feature = "server"))]
pub mod server {
    pub use wharf_auth::server::{
        Download, Dpop, FnAuthenticator, Introspection, Jwt, JwtIssuer, RequestHead, StaticToken,
        from_async_fn, from_fn,
    };
}

/// OAuth proxy: an authorization server in front of an identity provider without dynamic client registration.
#[cfg(feature = "oauth-proxy")]
pub mod proxy {
    pub use wharf_auth::proxy::{AccessToken, Identity, OAuthProxy, Provider, Upstream};
}

/// HTTP client for URLs that a remote party chose, with protection against SSRF.
#[cfg(feature = "auth")]
pub mod fetch {
    pub use wharf_auth::fetch::{
        AddressClass, Fetch, FetchError, FetchResponse, Resolve, address_class,
    };
}

/// JSON Object Signing and Encryption: JWT (RFC 7519), JWS (RFC 7515) and JWK (RFC 7517).
#[cfg(feature = "auth")]
pub mod jose {
    pub use wharf_auth::jose::{
        Algorithm, Claims, JoseError, Jwk, JwkSet, MAX_TOKEN, SigningKey, TokenHeader,
        UnverifiedToken, b64, constant_time_eq, random_token, sha256, unb64,
    };
}
