//! Event streams in the SQLite file.

use std::sync::Arc;

use rusqlite::{Connection, OptionalExtension, params};
use wharf_model::{EventStore, Events, Retention, Stored};

use super::{group_commit::SqliteEngine, limit, ordered};
use crate::clock::millis;

#[derive(Debug)]
pub(super) struct SqliteEvents {
    engine: Arc<SqliteEngine>,
}

impl SqliteEvents {
    pub(super) fn new(engine: Arc<SqliteEngine>) -> Self {
        SqliteEvents { engine }
    }
}

/// Expired streams deleted by each append: more than one, so that they do not accumulate.
const SWEEP_LIMIT: i64 = 4;
const SWEEP: &str = "DELETE FROM streams WHERE n IN
    (SELECT n FROM streams WHERE expires <= ?1 ORDER BY expires LIMIT ?2)";
const DELETE_STREAM: &str = "DELETE FROM streams WHERE name = ?1";
const DELETE_EXPIRED: &str = "DELETE FROM streams WHERE name = ?1 AND expires <= ?2";
const UPSERT_STREAM: &str = "INSERT INTO streams (name, newest, oldest, bytes, expires)
    VALUES (?1, 1, 1, ?2, ?3) ON CONFLICT (name) DO UPDATE SET
    newest = newest + 1, bytes = bytes + ?2, expires = ?3
    RETURNING n, newest, oldest, bytes";
const APPEND: &str = "INSERT INTO events (stream, number, event) VALUES (?1, ?2, ?3)";
const DELETE_OLDEST: &str = "DELETE FROM events WHERE stream = ?1 AND number = ?2
    RETURNING length(event)";
const TRIM: &str = "UPDATE streams SET oldest = ?2, bytes = ?3 WHERE n = ?1";
const FIND_STREAM: &str = "SELECT n, newest FROM streams WHERE name = ?1 AND expires > ?2";
const READ: &str = "SELECT number, event FROM events WHERE stream = ?1 AND number > ?2
    ORDER BY number LIMIT ?3";

impl EventStore for SqliteEvents {
    fn append(&self, stream: &str, event: Vec<u8>, keep: Retention) -> Stored<u64> {
        let name = stream.to_owned();
        self.engine.write(move |db, now| {
            db.prepare_cached(DELETE_EXPIRED)?.execute(params![name, ordered(now)])?;
            db.prepare_cached(SWEEP)?.execute(params![ordered(now), SWEEP_LIMIT])?;
            let expires = ordered(now.saturating_add(millis(keep.ttl)));
            let stream = db.prepare_cached(UPSERT_STREAM)?.query_row(
                params![name, limit(event.len()), expires],
                |row| {
                    let (row_number, newest) = (row.get(0)?, row.get(1)?);
                    Ok(StreamRow {
                        row: row_number,
                        newest,
                        oldest: row.get(2)?,
                        bytes: row.get(3)?,
                    })
                },
            )?;
            db.prepare_cached(APPEND)?.execute(params![stream.row, stream.newest, event])?;
            stream.trim(db, keep)?;
            Ok(stream.newest.cast_unsigned())
        })
    }

    fn read(&self, stream: &str, after: u64, most: usize) -> Stored<Events> {
        let name = stream.to_owned();
        self.engine.read(move |db, now| {
            // Both statements read the same snapshot.
            let snapshot = db.unchecked_transaction()?;
            let found = snapshot
                .prepare_cached(FIND_STREAM)?
                .query_row(params![name, ordered(now)], |row| Ok((row.get(0)?, row.get(1)?)))
                .optional()?;
            let Some((stream, newest)): Option<(i64, i64)> = found else {
                return Ok(Events::default());
            };
            let events = snapshot
                .prepare_cached(READ)?
                .query_map(params![stream, ordered(after), limit(most)], |row| {
                    Ok((row.get::<_, i64>(0)?.cast_unsigned(), row.get(1)?))
                })?
                .collect::<Result<_, _>>()?;
            Ok(Events::new(newest.cast_unsigned(), events))
        })
    }

    fn remove(&self, stream: &str) -> Stored<()> {
        let name = stream.to_owned();
        self.engine
            .write(move |db, _| db.prepare_cached(DELETE_STREAM)?.execute(params![name]).map(drop))
    }
}

struct StreamRow {
    row: i64,
    newest: i64,
    oldest: i64,
    bytes: i64,
}

impl StreamRow {
    fn trim(&self, db: &Connection, keep: Retention) -> rusqlite::Result<()> {
        let (mut oldest, mut bytes) = (self.oldest, self.bytes);
        let (most, most_bytes) = (limit(keep.events), limit(keep.bytes));
        while oldest < self.newest && (self.newest - oldest >= most || bytes > most_bytes) {
            bytes -= db
                .prepare_cached(DELETE_OLDEST)?
                .query_row(params![self.row, oldest], |row| row.get::<_, i64>(0))
                .optional()?
                .unwrap_or_default();
            oldest += 1;
        }
        if oldest > self.oldest {
            db.prepare_cached(TRIM)?.execute(params![self.row, oldest, bytes])?;
        }
        Ok(())
    }
}
