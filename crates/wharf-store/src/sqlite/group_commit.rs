//! Group commit: queued writes share one transaction and thus one `fsync`, and are answered after it.
//! One thread writes to the SQLite file, one reads.

use std::{
    fmt,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel},
    },
    thread,
    time::Duration,
};

use rusqlite::{Connection, params};
use tokio::sync::oneshot;
use wharf_model::{Error, ErrorKind, Health, Stored};

use super::open::{DatabaseFile, FileIdentity};
use crate::clock;

/// Jobs queued for each thread.
const MAX_QUEUED_JOBS: usize = 4096;
/// Jobs in one transaction.
const MAX_BATCH_JOBS: usize = 512;
/// Interval of the checks whether an idle file still exists and whether a failed file can be
/// written again.
const PROBE_INTERVAL: Duration = Duration::from_secs(1);
/// Retry delay sent to clients while the disk is full.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(60);

/// Handle of the two threads. They end when it is dropped and all queued jobs are done.
pub(super) struct SqliteEngine {
    writes: SyncSender<Box<dyn DatabaseJob>>,
    reads: SyncSender<Box<dyn DatabaseJob>>,
    ready: Arc<AtomicBool>,
}

impl SqliteEngine {
    pub(super) fn start(database: &DatabaseFile) -> Result<Self, Error> {
        let (writer, reader) = (database.writer()?, database.reader()?);
        let ready = Arc::new(AtomicBool::new(true));
        let (writes, to_write) = sync_channel(MAX_QUEUED_JOBS);
        let (reads, to_read) = sync_channel(MAX_QUEUED_JOBS);
        let is_ready = ready.clone();
        let monitor = FileMonitor::of(database)?;
        spawn("wharf-store-write", move || write_all(&writer, &to_write, &is_ready, &monitor))?;
        spawn("wharf-store-read", move || read_all(&reader, &to_read))?;
        Ok(SqliteEngine { writes, reads, ready })
    }

    /// Runs `work` in a transaction and completes when it is on the disk.
    pub(super) fn write<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, u64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Stored<T> {
        queue(self.writes.clone(), work)
    }

    /// Runs `work`, which only reads.
    pub(super) fn read<T: Send + 'static>(
        &self,
        work: impl FnOnce(&Connection, u64) -> rusqlite::Result<T> + Send + 'static,
    ) -> Stored<T> {
        queue(self.reads.clone(), work)
    }
}

impl Health for SqliteEngine {
    fn is_ready(&self) -> bool {
        self.ready.load(Ordering::Relaxed)
    }
}

impl fmt::Debug for SqliteEngine {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("SqliteEngine").field("ready", &self.ready).finish_non_exhaustive()
    }
}

/// Database operation with a caller that waits for its result.
trait DatabaseJob: Send {
    fn run(&mut self, db: &Connection, now: u64) -> rusqlite::Result<()>;
    fn end(self: Box<Self>, failure: Option<&Error>);
}

struct QueuedJob<F, T> {
    work: Option<F>,
    done: Option<T>,
    reply: oneshot::Sender<Result<T, Error>>,
}

impl<F, T> DatabaseJob for QueuedJob<F, T>
where
    F: FnOnce(&Connection, u64) -> rusqlite::Result<T> + Send,
    T: Send,
{
    fn run(&mut self, db: &Connection, now: u64) -> rusqlite::Result<()> {
        if let Some(work) = self.work.take() {
            self.done = Some(work(db, now)?);
        }
        Ok(())
    }

    fn end(self: Box<Self>, failure: Option<&Error>) {
        let answer = match (failure, self.done) {
            (None, Some(done)) => Ok(done),
            (failure, _) => Err(failure.cloned().unwrap_or_else(unavailable)),
        };
        // The caller may have gone; the job is done all the same.
        let _ = self.reply.send(answer);
    }
}

fn queue<T: Send + 'static>(
    jobs: SyncSender<Box<dyn DatabaseJob>>,
    work: impl FnOnce(&Connection, u64) -> rusqlite::Result<T> + Send + 'static,
) -> Stored<T> {
    Box::pin(async move {
        let (reply, answer) = oneshot::channel();
        let job = QueuedJob { work: Some(work), done: None, reply };
        jobs.try_send(Box::new(job)).map_err(|refused| match refused {
            TrySendError::Full(_) => Error::overloaded(Duration::from_secs(1))
                .with_message("the queue of the store is full: try again later"),
            TrySendError::Disconnected(_) => unavailable(),
        })?;
        answer.await.unwrap_or_else(|_| Err(unavailable()))
    })
}

/// Detects that the file was deleted or replaced. SQLite would continue to write to a file that no
/// later process finds.
struct FileMonitor {
    database: DatabaseFile,
    identity: FileIdentity,
}

impl FileMonitor {
    fn of(database: &DatabaseFile) -> Result<Self, Error> {
        let identity = database.identity().map_err(Error::internal)?;
        Ok(FileMonitor { database: database.clone(), identity })
    }

    fn check(&self) -> Result<(), Error> {
        if self.database.identity().is_ok_and(|now| now == self.identity) {
            return Ok(());
        }
        Err(Error::new(ErrorKind::TemporarilyUnavailable)
            .with_message("the store's file was deleted or replaced"))
    }
}

fn write_all(
    db: &Connection,
    jobs: &Receiver<Box<dyn DatabaseJob>>,
    ready: &AtomicBool,
    monitor: &FileMonitor,
) {
    while let Some(first) = next(jobs) {
        let was_ready = ready.load(Ordering::Relaxed);
        let mut batch: Vec<_> = first.into_iter().collect();
        let is_idle = batch.is_empty();
        batch.extend(jobs.try_iter().take(MAX_BATCH_JOBS - batch.len()));
        let failure = match monitor.check() {
            Ok(()) if is_idle && was_ready && batch.is_empty() => continue,
            Ok(()) => attempt("write", || transact(db, &mut batch)).err(),
            Err(error) => {
                if was_ready {
                    tracing::debug!("cannot write, the store's file was deleted or replaced");
                }
                Some(error.with_source("put the file back, or restart the server"))
            }
        };
        if !db.is_autocommit() {
            // The failure is returned.
            let _ = db.execute_batch("ROLLBACK");
        }
        ready.store(failure.is_none(), Ordering::Relaxed);
        for job in batch {
            job.end(failure.as_ref());
        }
    }
}

/// Waits for the next job. Returns an empty one at each probe interval, since the file may
/// disappear or come back while it is idle. `None` when all senders are gone.
fn next(jobs: &Receiver<Box<dyn DatabaseJob>>) -> Option<Option<Box<dyn DatabaseJob>>> {
    match jobs.recv_timeout(PROBE_INTERVAL) {
        Ok(job) => Some(Some(job)),
        Err(RecvTimeoutError::Timeout) => Some(None),
        Err(RecvTimeoutError::Disconnected) => None,
    }
}

/// Runs all jobs or none: a failure here concerns the file, and so all of them.
fn transact(db: &Connection, batch: &mut [Box<dyn DatabaseJob>]) -> rusqlite::Result<()> {
    db.prepare_cached("BEGIN IMMEDIATE")?.execute([])?;
    let now = clock::machine_now();
    if batch.is_empty() {
        db.execute("UPDATE probe SET at = ?1", params![super::ordered(now)])?;
    }
    batch.iter_mut().try_for_each(|job| job.run(db, now))?;
    db.prepare_cached("COMMIT")?.execute([]).map(drop)
}

/// Runs `work`. The error has its cause as the source. A panic counts as a failure: the thread must survive it, or
/// nothing could be stored any more.
fn attempt(what: &str, work: impl FnOnce() -> rusqlite::Result<()>) -> Result<(), Error> {
    match catch_unwind(AssertUnwindSafe(work)) {
        Ok(Ok(())) => return Ok(()),
        Ok(Err(why)) if why.sqlite_error_code() == Some(rusqlite::ErrorCode::DiskFull) => {
            // The error names the cause, and the component that called the store logs it.
            return Err(Error::overloaded(FULL_RETRY_AFTER)
                .with_message("the store's disk is full: try again later"));
        }
        Ok(Err(why)) => {
            let problem = format!("cannot {what} the file: {why}");
            return Err(unavailable().with_source(problem));
        }
        Err(_) => tracing::error!("caught a panic in a store operation"),
    }
    Err(unavailable())
}

fn read_all(db: &Connection, jobs: &Receiver<Box<dyn DatabaseJob>>) {
    for mut job in jobs {
        let done = attempt("read", || job.run(db, clock::machine_now()));
        job.end(done.err().as_ref());
    }
}

fn spawn(name: &str, work: impl FnOnce() + Send + 'static) -> Result<(), Error> {
    let spawned = thread::Builder::new().name(name.to_owned()).spawn(work);
    spawned.map(drop).map_err(Error::internal)
}

fn unavailable() -> Error {
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("the store's file cannot be used: try again later")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_panic_fails_its_own_work_and_leaves_the_threads_alive() {
        let path = std::env::temp_dir().join(format!("wharf-panic-{}.db", std::process::id()));
        let url = format!("sqlite:{}", path.display());
        let database = DatabaseFile::parse(&crate::url::StoreUrl::parse(&url).unwrap()).unwrap();
        let engine = SqliteEngine::start(&database).unwrap();
        let inserted = |db: &Connection, _| db.execute("UPDATE probe SET at = 7", []);
        let panics = engine.write(move |db, now| {
            inserted(db, now)?;
            panic!("as a bug would");
            #[expect(unreachable_code, reason = "it determines the type of the result")]
            Ok(())
        });
        assert_eq!(panics.await, Err(unavailable()));
        let at = |db: &Connection, _| db.query_row("SELECT at FROM probe", [], |row| row.get(0));
        assert_ne!(engine.read::<i64>(at).await, Ok(7), "its write is rolled back");
        assert_eq!(engine.write(inserted).await, Ok(1), "other jobs still run");
        assert!(engine.is_ready());
        let panics = engine.read::<()>(|_, _| panic!("as a bug would"));
        assert_eq!(panics.await, Err(unavailable()));
        assert_eq!(engine.read::<i64>(at).await, Ok(7));
        drop(engine);
        for end in ["", "-wal", "-shm"] {
            let _ = std::fs::remove_file(format!("{}{end}", path.display()));
        }
    }
}
