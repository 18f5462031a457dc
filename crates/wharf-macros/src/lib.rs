//! The #[tool], #[resource] and #[prompt] attributes of Wharf
#![forbid(unsafe_code)]
