//! An authorization server in front of an identity provider that registers nobody by itself.
