//! Opens the SQLite file: URL settings, permissions, pragmas and schema.

use std::{
    fs::OpenOptions,
    io,
    path::{Path, PathBuf},
    time::{Duration, Instant},
};

use rusqlite::{Connection, ErrorCode, TransactionBehavior};
use wharf_model::{Error, ErrorKind};

use crate::url::{StoreUrl, invalid_url};

/// SQLite `application_id` of a store file: "whrf".
const APPLICATION_ID: i32 = 0x7768_7266;
const SCHEMA_VERSION: i32 = 1;
/// Timeout of the wait for a database lock that another process holds.
const BUSY_TIMEOUT: Duration = Duration::from_secs(5);

const SCHEMA: &str = "
    CREATE TABLE records (
        n INTEGER PRIMARY KEY,
        space INTEGER NOT NULL,
        id TEXT NOT NULL,
        owner TEXT NOT NULL,
        created INTEGER NOT NULL,
        version INTEGER NOT NULL,
        fence INTEGER NOT NULL,
        due INTEGER,
        expires INTEGER,
        body BLOB NOT NULL
    ) STRICT;
    CREATE UNIQUE INDEX records_by_id ON records (space, id);
    CREATE INDEX records_by_owner ON records (space, owner, created, id, expires);
    CREATE INDEX records_by_due ON records (space, due, id) WHERE due IS NOT NULL;
    CREATE INDEX records_by_expiry ON records (space, expires) WHERE expires IS NOT NULL;
    CREATE TABLE owners (
        space INTEGER NOT NULL,
        owner TEXT NOT NULL,
        records INTEGER NOT NULL,
        PRIMARY KEY (space, owner)
    ) STRICT, WITHOUT ROWID;
    CREATE TRIGGER record_made AFTER INSERT ON records BEGIN
        INSERT OR IGNORE INTO owners VALUES (new.space, new.owner, 0);
        UPDATE owners SET records = records + 1 WHERE space = new.space AND owner = new.owner;
    END;
    CREATE TRIGGER record_gone AFTER DELETE ON records BEGIN
        UPDATE owners SET records = records - 1 WHERE space = old.space AND owner = old.owner;
        DELETE FROM owners WHERE space = old.space AND owner = old.owner AND records = 0;
    END;
    CREATE TRIGGER record_given AFTER UPDATE OF owner ON records WHEN old.owner <> new.owner BEGIN
        UPDATE owners SET records = records - 1 WHERE space = old.space AND owner = old.owner;
        DELETE FROM owners WHERE space = old.space AND owner = old.owner AND records = 0;
        INSERT OR IGNORE INTO owners VALUES (new.space, new.owner, 0);
        UPDATE owners SET records = records + 1 WHERE space = new.space AND owner = new.owner;
    END;
    CREATE TABLE kept (
        record INTEGER NOT NULL REFERENCES records (n) ON DELETE CASCADE,
        name TEXT NOT NULL,
        value BLOB NOT NULL,
        PRIMARY KEY (record, name)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE streams (
        n INTEGER PRIMARY KEY,
        name TEXT NOT NULL UNIQUE,
        newest INTEGER NOT NULL,
        oldest INTEGER NOT NULL,
        bytes INTEGER NOT NULL,
        expires INTEGER NOT NULL
    ) STRICT;
    CREATE INDEX streams_by_expiry ON streams (expires);
    CREATE TABLE events (
        stream INTEGER NOT NULL REFERENCES streams (n) ON DELETE CASCADE,
        number INTEGER NOT NULL,
        event BLOB NOT NULL,
        PRIMARY KEY (stream, number)
    ) STRICT, WITHOUT ROWID;
    CREATE TABLE nonces (nonce TEXT PRIMARY KEY, expires INTEGER NOT NULL) STRICT, WITHOUT ROWID;
    CREATE INDEX nonces_by_expiry ON nonces (expires);
    CREATE TABLE probe (at INTEGER NOT NULL) STRICT;
    INSERT INTO probe VALUES (0);
";

/// Path and settings of the file.
#[derive(Clone, Debug)]
pub(super) struct DatabaseFile {
    path: PathBuf,
    synchronous: &'static str,
    /// Maximum size of the file, without its write-ahead log.
    max_bytes: Option<u64>,
}

/// Device and inode number, which distinguish a file from another one with the same name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FileIdentity((u64, u64));

impl DatabaseFile {
    pub(super) fn parse(url: &StoreUrl<'_>) -> Result<Self, Error> {
        let path = url.rest.strip_prefix("//").unwrap_or(url.rest);
        if path.is_empty() {
            return Err(invalid_url(
                "the path is missing; write sqlite:PATH, such as sqlite:wharf.db",
            ));
        }
        if path == ":memory:" {
            return Err(invalid_url("write memory: for a store in memory"));
        }
        let mut database = DatabaseFile { path: path.into(), synchronous: "FULL", max_bytes: None };
        for (name, value) in &url.settings {
            match (name.as_str(), value.as_str()) {
                ("synchronous", "full") => database.synchronous = "FULL",
                ("synchronous", "normal") => database.synchronous = "NORMAL",
                ("synchronous", _) => {
                    return Err(invalid_url("synchronous must be full (the default) or normal"));
                }
                ("max_bytes", bytes) => {
                    let bytes =
                        bytes.parse().map_err(|_| invalid_url("max_bytes must be a number"))?;
                    database.max_bytes = Some(bytes);
                }
                _ => {
                    let known = "the settings are `synchronous` and `max_bytes`";
                    return Err(invalid_url(format!("unknown setting `{name}`; {known}")));
                }
            }
        }
        Ok(database)
    }

    /// Identifies the file, to detect later that it was replaced.
    pub(super) fn identity(&self) -> io::Result<FileIdentity> {
        let metadata = std::fs::metadata(&self.path)?;
        #[cfg(unix)]
        let numbers = {
            use std::os::unix::fs::MetadataExt as _;
            (metadata.dev(), metadata.ino())
        };
        #[cfg(not(unix))]
        let numbers = {
            let _ = metadata;
            (0, 0)
        };
        Ok(FileIdentity(numbers))
    }

    /// Opens a connection that writes, and creates the tables if necessary.
    pub(super) fn writer(&self) -> Result<Connection, Error> {
        create(&self.path).map_err(|e| self.cannot("create", e))?;
        self.prepared().map_err(|e| self.cannot("open", e))?
    }

    /// Opens a read-only connection.
    pub(super) fn reader(&self) -> Result<Connection, Error> {
        let connect = || {
            let db = self.connect()?;
            db.pragma_update(None, "query_only", true)?;
            Ok(db)
        };
        connect().map_err(|e: rusqlite::Error| self.cannot("open", e))
    }

    fn connect(&self) -> rusqlite::Result<Connection> {
        let db = Connection::open(&self.path)?;
        db.busy_timeout(BUSY_TIMEOUT)?;
        db.pragma_update(None, "foreign_keys", true)?;
        db.pragma_update(None, "synchronous", self.synchronous)?;
        db.set_prepared_statement_cache_capacity(64);
        Ok(db)
    }

    fn prepared(&self) -> rusqlite::Result<Result<Connection, Error>> {
        let mut db = self.connect()?;
        let tx = db.transaction_with_behavior(TransactionBehavior::Immediate)?;
        let number = |name| tx.pragma_query_value(None, name, |row| row.get::<_, i32>(0));
        let tables: i32 =
            tx.query_row("SELECT COUNT(*) FROM sqlite_schema", [], |row| row.get(0))?;
        match (number("application_id")?, number("user_version")?) {
            (APPLICATION_ID, SCHEMA_VERSION) => {}
            (0, 0) if tables == 0 => {
                tx.execute_batch(SCHEMA)?;
                tx.pragma_update(None, "application_id", APPLICATION_ID)?;
                tx.pragma_update(None, "user_version", SCHEMA_VERSION)?;
            }
            (APPLICATION_ID, _) => {
                return Ok(Err(self.foreign_file("a database of another version of Wharf")));
            }
            _ => return Ok(Err(self.foreign_file("a database of another program"))),
        }
        tx.commit()?;
        enable_wal(&db)?;
        db.pragma_update(None, "journal_size_limit", 64 * 1024 * 1024)?;
        if let Some(bytes) = self.max_bytes {
            let page: u32 = db.pragma_query_value(None, "page_size", |row| row.get(0))?;
            let pages = u32::try_from(bytes / u64::from(page.max(1))).unwrap_or(u32::MAX).max(1);
            // The statement returns the limit in effect: a file that is already larger keeps its
            // size.
            db.pragma_update_and_check(None, "max_page_count", pages, |_| Ok(()))?;
        }
        Ok(Ok(db))
    }

    fn cannot(&self, what: &str, why: impl std::error::Error + Send + Sync + 'static) -> Error {
        let message = format!("cannot {what} the store {}: {why}", self.path.display());
        Error::new(ErrorKind::TemporarilyUnavailable).with_message(message).with_source(why)
    }

    fn foreign_file(&self, content: &str) -> Error {
        let message = format!("{} is {content}: name another file", self.path.display());
        invalid_url(message)
    }
}

/// Switches to WAL mode. The switch itself does not honour the busy timeout, so it is retried.
fn enable_wal(db: &Connection) -> rusqlite::Result<()> {
    let deadline = Instant::now() + BUSY_TIMEOUT;
    loop {
        match db.pragma_update(None, "journal_mode", "WAL") {
            Err(e)
                if e.sqlite_error_code() == Some(ErrorCode::DatabaseBusy)
                    && Instant::now() < deadline =>
            {
                std::thread::sleep(Duration::from_millis(10));
            }
            done => return done,
        }
    }
}

/// Creates the file with access for its owner only; SQLite gives its companion files the same mode.
fn create(path: &Path) -> io::Result<()> {
    let mut options = OpenOptions::new();
    options.create(true).truncate(false).write(true).read(true);
    #[cfg(unix)]
    std::os::unix::fs::OpenOptionsExt::mode(&mut options, 0o600);
    options.open(path).map(drop)
}
