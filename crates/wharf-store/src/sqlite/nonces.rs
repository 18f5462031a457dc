//! One-time claims (nonces) in the SQLite file.

use std::{sync::Arc, time::Duration};

use rusqlite::params;
use wharf_model::{NonceStore, Stored};

use super::{group_commit::SqliteEngine, ordered};
use crate::clock::millis;

#[derive(Debug)]
pub(super) struct SqliteNonces {
    engine: Arc<SqliteEngine>,
}

impl SqliteNonces {
    pub(super) fn new(engine: Arc<SqliteEngine>) -> Self {
        SqliteNonces { engine }
    }
}

/// Expired claims deleted by each new one: more than one, so that they do not accumulate.
const SWEEP_LIMIT: i64 = 4;
const SWEEP: &str = "DELETE FROM nonces WHERE nonce IN
    (SELECT nonce FROM nonces WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
const CLAIM: &str = "INSERT INTO nonces (nonce, expires) VALUES (?1, ?2)
    ON CONFLICT (nonce) DO UPDATE SET expires = ?2 WHERE expires <= ?3";

impl NonceStore for SqliteNonces {
    fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
        let nonce = nonce.to_owned();
        self.engine.write(move |db, now| {
            let expires = ordered(now.saturating_add(millis(ttl)));
            let claimed =
                db.prepare_cached(CLAIM)?.execute(params![nonce, expires, ordered(now)])?;
            db.prepare_cached(SWEEP)?.execute(params![ordered(now), SWEEP_LIMIT])?;
            Ok(claimed == 1)
        })
    }
}
