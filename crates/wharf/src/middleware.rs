//! Middleware: layers around the router that see every call of a server.

pub use wharf_server::{
    Concurrency, Middleware, Next, PanicGuard, RateKey, RateLimit, Timeout, from_fn, layered,
};
#[cfg(feature = "tower")]
pub use wharf_server::{TowerLayer, TowerNext};
