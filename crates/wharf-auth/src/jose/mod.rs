//! Tokens, keys and signatures.
