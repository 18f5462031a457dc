//! Only tests are here: `oidc` and `authorized`.
