//! Records in the SQLite file.

use std::{collections::BTreeMap, sync::Arc};

use rusqlite::{Connection, OptionalExtension, Row, params};
use wharf_model::{AttachResult, Record, RecordStore, Stored};

use super::{bits, group_commit::SqliteEngine, limit, ordered};
use crate::clock;

/// Kind of the records; part of their key.
#[derive(Clone, Copy, Debug)]
pub(super) enum RecordSpace {
    Tasks = 1,
    Sessions = 2,
    Grants = 3,
}

#[derive(Debug)]
pub(super) struct SqliteRecords {
    engine: Arc<SqliteEngine>,
    space: i64,
}

impl SqliteRecords {
    pub(super) fn new(engine: Arc<SqliteEngine>, space: RecordSpace) -> Self {
        SqliteRecords { engine, space: space as i64 }
    }
}

const COLUMNS: &str = "id, owner, created, version, fence, due, expires, body";
/// Condition for records that have not expired: `?1` is the space and `?2` the time in every
/// statement.
const LIVE: &str = "space = ?1 AND (expires IS NULL OR expires > ?2)";

/// Defines statements that share parts.
macro_rules! sql {
    ($name:ident, $($text:expr),+) => {
        fn $name() -> &'static str {
            static TEXT: std::sync::LazyLock<String> = std::sync::LazyLock::new(|| [$($text),+].concat());
            &TEXT
        }
    };
}

sql!(load, "SELECT ", COLUMNS, " FROM records WHERE ", LIVE, " AND id = ?3");
sql!(row_and_fence, "SELECT n, fence FROM records WHERE ", LIVE, " AND id = ?3");
sql!(
    count,
    "SELECT COUNT(*) FROM (SELECT 1 FROM records WHERE ",
    LIVE,
    " AND owner = ?3 LIMIT ?4)"
);
sql!(
    swap,
    "UPDATE records SET owner = ?5, created = ?6, version = version + 1, fence = ?7, due = ?8,
     expires = ?9, body = ?10 WHERE ",
    LIVE,
    " AND id = ?3 AND version = ?4"
);
sql!(
    list,
    "SELECT ",
    COLUMNS,
    " FROM records WHERE ",
    LIVE,
    " AND owner = ?3 ORDER BY created, id LIMIT ?4"
);
sql!(
    list_after,
    "SELECT ",
    COLUMNS,
    " FROM records WHERE ",
    LIVE,
    " AND owner = ?3 AND (created, id) >
     (SELECT created, id FROM records WHERE space = ?1 AND id = ?5 AND owner = ?3)
     ORDER BY created, id LIMIT ?4"
);
sql!(due, "SELECT id FROM records WHERE ", LIVE, " AND due <= ?2 ORDER BY due, id LIMIT ?3");
sql!(
    kept,
    "SELECT name, value FROM kept WHERE record = (SELECT n FROM records WHERE ",
    LIVE,
    " AND id = ?3)"
);
const INSERT: &str = "INSERT OR IGNORE INTO records
    (space, id, owner, created, version, fence, due, expires, body)
    VALUES (?1, ?2, ?3, ?4, 1, ?5, ?6, ?7, ?8)";
/// Counts expired records as well until they are deleted.
const COUNT_OWNED: &str = "SELECT records FROM owners WHERE space = ?1 AND owner = ?2";
const DELETE_EXPIRED: &str = "DELETE FROM records WHERE space = ?1 AND expires <= ?2 AND id = ?3";
const REMOVE: &str = "DELETE FROM records WHERE space = ?1 AND id = ?2";
const SWEEP: &str = "DELETE FROM records WHERE n IN (SELECT n FROM records
    WHERE space = ?1 AND expires <= ?2 ORDER BY expires LIMIT ?3)";
const FIND_KEPT: &str = "SELECT value FROM kept WHERE record = ?1 AND name = ?2";
const INSERT_KEPT: &str = "INSERT INTO kept (record, name, value) VALUES (?1, ?2, ?3)";

/// Returns whether an owner has `most` records. Live records are counted only if the counter
/// reaches the limit, since counting takes time in proportion to their number.
fn is_full(
    db: &Connection,
    space: i64,
    now: i64,
    owner: &str,
    most: i64,
) -> rusqlite::Result<bool> {
    let mut owned = db.prepare_cached(COUNT_OWNED)?;
    let owned: Option<i64> = owned.query_row(params![space, owner], |row| row.get(0)).optional()?;
    if owned.unwrap_or(0) < most {
        return Ok(false);
    }
    let live: i64 = db
        .prepare_cached(count())?
        .query_row(params![space, now, owner, most], |row| row.get(0))?;
    Ok(live >= most)
}

impl RecordStore for SqliteRecords {
    fn now(&self) -> Stored<u64> {
        Box::pin(async { Ok(clock::machine_now()) })
    }

    fn insert(&self, record: Record, most: usize) -> Stored<bool> {
        let space = self.space;
        self.engine.write(move |db, now| {
            let now = ordered(now);
            let Record { id, owner, created, fence, due, expires, body, .. } = record;
            db.prepare_cached(DELETE_EXPIRED)?.execute(params![space, now, id])?;
            if is_full(db, space, now, &owner, limit(most))? {
                return Ok(false);
            }
            let (due, expires) = (due.map(ordered), expires.map(ordered));
            let values =
                params![space, id, owner, ordered(created), bits(fence), due, expires, body];
            Ok(db.prepare_cached(INSERT)?.execute(values)? == 1)
        })
    }

    fn load(&self, id: &str) -> Stored<Option<Record>> {
        let (space, id) = (self.space, id.to_owned());
        self.engine.read(move |db, now| {
            let mut statement = db.prepare_cached(load())?;
            statement.query_row(params![space, ordered(now), id], record).optional()
        })
    }

    fn swap(&self, record: Record) -> Stored<bool> {
        let space = self.space;
        self.engine.write(move |db, now| {
            let Record { id, owner, created, version, fence, due, expires, body, .. } = record;
            let (due, expires) = (due.map(ordered), expires.map(ordered));
            let key = (space, ordered(now), id, bits(version));
            let values = params![
                key.0,
                key.1,
                key.2,
                key.3,
                owner,
                ordered(created),
                bits(fence),
                due,
                expires,
                body
            ];
            Ok(db.prepare_cached(swap())?.execute(values)? == 1)
        })
    }

    fn remove(&self, id: &str) -> Stored<bool> {
        let (space, id) = (self.space, id.to_owned());
        self.engine.write(move |db, now| {
            let lived = find_row(db, space, now, &id)?.is_some();
            db.prepare_cached(REMOVE)?.execute(params![space, id])?;
            Ok(lived)
        })
    }

    fn list(&self, owner: &str, after: Option<&str>, most: usize) -> Stored<Vec<Record>> {
        let (space, owner, after) = (self.space, owner.to_owned(), after.map(str::to_owned));
        self.engine.read(move |db, now| {
            let (now, most) = (ordered(now), limit(most));
            match after {
                None => db
                    .prepare_cached(list())?
                    .query_map(params![space, now, owner, most], record)?
                    .collect(),
                Some(after) => db
                    .prepare_cached(list_after())?
                    .query_map(params![space, now, owner, most, after], record)?
                    .collect(),
            }
        })
    }

    fn due(&self, most: usize) -> Stored<Vec<String>> {
        let space = self.space;
        self.engine.read(move |db, now| {
            let mut statement = db.prepare_cached(due())?;
            let ids = params![space, ordered(now), limit(most)];
            statement.query_map(ids, |row| row.get(0))?.collect()
        })
    }

    fn attach(&self, id: &str, fence: u64, name: &str, value: Vec<u8>) -> Stored<AttachResult> {
        let (space, id, name) = (self.space, id.to_owned(), name.to_owned());
        self.engine.write(move |db, now| {
            let Some((record, _)) =
                find_row(db, space, now, &id)?.filter(|(_, find_row)| *find_row == bits(fence))
            else {
                return Ok(AttachResult::Lost);
            };
            let known = db
                .prepare_cached(FIND_KEPT)?
                .query_row(params![record, name], |row| row.get(0))
                .optional()?;
            if let Some(known) = known {
                return Ok(AttachResult::Exists(known));
            }
            db.prepare_cached(INSERT_KEPT)?.execute(params![record, name, value])?;
            Ok(AttachResult::Attached)
        })
    }

    fn attachments(&self, id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        let (space, id) = (self.space, id.to_owned());
        self.engine.read(move |db, now| {
            let mut statement = db.prepare_cached(kept())?;
            let found = params![space, ordered(now), id];
            statement.query_map(found, |row| Ok((row.get(0)?, row.get(1)?)))?.collect()
        })
    }

    fn sweep(&self, most: usize) -> Stored<usize> {
        let space = self.space;
        self.engine.write(move |db, now| {
            db.prepare_cached(SWEEP)?.execute(params![space, ordered(now), limit(most)])
        })
    }
}

/// Row number and fence of a record.
fn find_row(
    db: &Connection,
    space: i64,
    now: u64,
    id: &str,
) -> rusqlite::Result<Option<(i64, i64)>> {
    let mut statement = db.prepare_cached(row_and_fence())?;
    let found = params![space, ordered(now), id];
    statement.query_row(found, |row| Ok((row.get(0)?, row.get(1)?))).optional()
}

fn record(row: &Row<'_>) -> rusqlite::Result<Record> {
    let number = |column| row.get(column).map(i64::cast_unsigned);
    let time = |column| row.get::<_, Option<i64>>(column).map(|it| it.map(i64::cast_unsigned));
    Ok(Record::new(row.get::<_, String>(0)?)
        .owner(row.get::<_, String>(1)?)
        .created(number(2)?)
        .version(number(3)?)
        .fence(number(4)?)
        .due(time(5)?)
        .expires(time(6)?)
        .body(row.get::<_, Vec<u8>>(7)?))
}
