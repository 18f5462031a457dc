//! A connection to Redis that is mended when it breaks, by one task, with patience.

use std::{
    fmt,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use redis::{
    AsyncConnectionConfig, Cmd, PushInfo, PushKind, RedisError, RedisResult,
    aio::MultiplexedConnection,
};
use tokio::{
    sync::{Semaphore, watch},
    task::AbortHandle,
    time::{Instant, sleep, timeout},
};
use wharf_model::{Error, ErrorKind, LogThrottle};

use crate::redis::connector::{RedisConnection, RedisConnector};

/// How long Redis may take for one command, or to connect. Whoever asks waits for no longer while nobody
/// knows yet that it is gone; a disk that takes longer to be flushed is as good as gone.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// Commands that Redis works on for us at the same time: enough to keep it busy.
const MAX_IN_FLIGHT: usize = 512;
/// Commands that wait for their turn, beside those.
const MAX_QUEUED_COMMANDS: usize = 8192;
/// How often Redis is asked whether it is there, if nothing else tells.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// When a client may try again that found Redis out of memory.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(60);
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// What hears the messages that come without having been asked for.
pub(super) type PushListener = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// A connection, and the task that mends it.
pub(super) struct RedisClient {
    shared: Arc<ConnectionManager>,
    reconnect_task: AbortHandle,
}

struct ConnectionManager {
    connector: RedisConnector,
    listener: PushListener,
    /// What a new connection must be able to do.
    probe: Cmd,
    /// The connection of this generation, if there is one.
    state: watch::Sender<ConnectionState>,
    /// The newest generation that is known to be of no use.
    broken: watch::Sender<u64>,
    queue: Semaphore,
    in_flight: Semaphore,
    /// Whether Redis answered anything since the last beat.
    answered: AtomicBool,
    /// Whether Redis is out of memory: it answers, and stores nothing.
    full: AtomicBool,
}

#[derive(Clone, Default)]
struct ConnectionState {
    generation: u64,
    connection: Option<RedisConnection>,
}

impl RedisClient {
    /// Connects. Only this first attempt fails; later ones are made until one succeeds, and `probe` on it.
    pub(super) async fn open(
        connector: RedisConnector,
        probe: Cmd,
        listener: PushListener,
    ) -> RedisResult<Self> {
        let shared = Arc::new(ConnectionManager {
            connector,
            listener,
            probe,
            state: watch::Sender::default(),
            broken: watch::Sender::new(0),
            queue: Semaphore::new(MAX_IN_FLIGHT + MAX_QUEUED_COMMANDS),
            in_flight: Semaphore::new(MAX_IN_FLIGHT),
            answered: AtomicBool::new(true),
            full: AtomicBool::new(false),
        });
        let connection = ConnectionManager::connect(&shared, 1).await?;
        shared.state.send_replace(ConnectionState { generation: 1, connection: Some(connection) });
        let reconnect_task =
            tokio::spawn(ConnectionManager::reconnect_loop(shared.clone())).abort_handle();
        Ok(RedisClient { shared, reconnect_task })
    }

    /// Whether Redis is there, as far as anybody knows.
    pub(super) fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// Whether Redis has no memory left, as far as anybody knows.
    pub(super) fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Relaxed)
    }

    /// The generation of the connection, as soon as there is one that is not `known`.
    pub(super) async fn wait_newer(&self, known: u64) -> u64 {
        let mut states = self.shared.state.subscribe();
        let newer =
            |state: &ConnectionState| state.generation > known && state.connection.is_some();
        // It never closes: the sender is ours.
        states.wait_for(newer).await.map_or(known, |state| state.generation)
    }

    /// Completes when this generation is of no use any more.
    pub(super) async fn wait_lost(&self, generation: u64) {
        let mut states = self.shared.state.subscribe();
        let is_lost =
            |state: &ConnectionState| state.generation != generation || state.connection.is_none();
        let _ = states.wait_for(is_lost).await;
    }

    /// Completes when the connection that is there now is of no use any more.
    pub(super) async fn wait_down(&self) {
        let generation = self.shared.state.borrow().generation;
        self.wait_lost(generation).await;
    }

    /// Asks for a new connection in the place of this generation's.
    pub(super) fn mark_broken(&self, generation: u64) {
        self.shared.mark_broken(generation);
    }

    /// Does something with the connection. It is never tried again: nobody knows what became of it.
    pub(super) async fn execute<T>(
        &self,
        work: impl AsyncFnOnce(&mut MultiplexedConnection) -> RedisResult<T>,
    ) -> Result<T, Error> {
        let shared = &*self.shared;
        if !self.is_up() {
            return Err(unreachable());
        }
        let Ok(_place) = shared.queue.try_acquire() else { return Err(too_much()) };
        let Ok(Ok(_turn)) = timeout(COMMAND_TIMEOUT, shared.in_flight.acquire()).await else {
            return Err(too_much());
        };
        // Not before it is our turn: what we waited for may have been its end.
        let Some((generation, mut connection)) = shared.current() else {
            return Err(unreachable());
        };
        match timeout(COMMAND_TIMEOUT, work(&mut connection.redis)).await {
            Ok(Ok(answer)) => {
                shared.answered.store(true, Ordering::Relaxed);
                Ok(answer)
            }
            Ok(Err(why)) if is_full(&why) => {
                shared.set_out_of_memory(true);
                Err(full())
            }
            Ok(Err(why)) if !is_fatal(&why) => {
                static LINE: LogThrottle = LogThrottle::new();
                if LINE.is_due() {
                    tracing::warn!(%why, "redis refused a command");
                }
                Err(refused())
            }
            // What it still owes us would be held in memory until it comes: a new connection owes nothing.
            Ok(Err(_)) | Err(_) => {
                shared.mark_broken(generation);
                Err(unreachable())
            }
        }
    }
}

impl Drop for RedisClient {
    fn drop(&mut self) {
        self.reconnect_task.abort();
    }
}

impl fmt::Debug for RedisClient {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("RedisClient").field("is_up", &self.is_up()).finish_non_exhaustive()
    }
}

impl ConnectionManager {
    fn is_up(&self) -> bool {
        let state = self.state.borrow();
        // Who mends it may not have come to it yet.
        state.connection.is_some() && *self.broken.borrow() < state.generation
    }

    /// The connection and its generation, unless it is known to be of no use.
    fn current(&self) -> Option<(u64, RedisConnection)> {
        let ConnectionState { generation, connection } = self.state.borrow().clone();
        connection.filter(|_| self.is_up()).map(|connection| (generation, connection))
    }

    async fn connect(shared: &Arc<Self>, generation: u64) -> RedisResult<RedisConnection> {
        let weak = Arc::downgrade(shared);
        let listener = shared.listener.clone();
        let push = move |message: PushInfo| {
            match (&message.kind, weak.upgrade()) {
                (PushKind::Disconnection, Some(shared)) => shared.mark_broken(generation),
                _ => listener(message),
            }
            Ok::<_, RedisError>(())
        };
        let config = AsyncConnectionConfig::new()
            .set_connection_timeout(Some(COMMAND_TIMEOUT))
            .set_response_timeout(Some(COMMAND_TIMEOUT))
            .set_pipeline_buffer_size(MAX_IN_FLIGHT)
            .set_push_sender(push);
        let mut connection = shared.connector.connect(&config).await?;
        // One that still loads its data, or only copies another's, connects as well.
        match run_probe(&shared.probe, &mut connection.redis).await {
            Err(why) if is_full(&why) => shared.set_out_of_memory(true),
            done => done?,
        }
        Ok(connection)
    }

    /// Notes whether Redis is out of memory, and tells the operator when that changes.
    fn set_out_of_memory(&self, is_full: bool) {
        match (self.full.swap(is_full, Ordering::Relaxed), is_full) {
            (false, true) => tracing::error!(
                "redis is out of memory and stores nothing: raise maxmemory, or remove what it need not keep"
            ),
            (true, false) => tracing::info!("redis has memory again"),
            _ => {}
        }
    }

    /// Looks whether a Redis that was out of memory can be written to again.
    async fn probe_memory(&self, connection: &mut MultiplexedConnection) {
        if self.full.load(Ordering::Relaxed) && run_probe(&self.probe, connection).await.is_ok() {
            self.set_out_of_memory(false);
        }
    }

    /// Mends the connection for as long as the link is there.
    async fn reconnect_loop(shared: Arc<Self>) {
        let mut attempts = 0;
        loop {
            let generation = shared.state.borrow().generation;
            let since = Instant::now();
            shared.monitor(generation).await;
            shared.state.send_modify(|state| state.connection = None);
            tracing::warn!("redis cannot be reached");
            // One that breaks as soon as it is there is as bad as none.
            attempts = if since.elapsed() > MAX_BACKOFF { 0 } else { attempts + 1 };
            let connection = loop {
                sleep(backoff(attempts)).await;
                match ConnectionManager::connect(&shared, generation + 1).await {
                    Ok(connection) => break connection,
                    Err(why) => tracing::debug!(%why, attempts, "redis cannot be reached"),
                }
                attempts += 1;
            };
            tracing::info!("redis can be reached again");
            let state =
                ConnectionState { generation: generation + 1, connection: Some(connection) };
            shared.state.send_replace(state);
        }
    }

    /// Completes when the connection is of no use any more.
    async fn monitor(&self, generation: u64) {
        let mut broken = self.broken.subscribe();
        loop {
            let is_broken = broken.wait_for(|broken| *broken >= generation);
            if timeout(HEARTBEAT_INTERVAL, is_broken).await.is_ok() {
                return;
            }
            let Some((_, mut connection)) = self.current() else { return };
            self.probe_memory(&mut connection.redis).await;
            let ping = redis::cmd("PING");
            if !self.answered.swap(false, Ordering::Relaxed)
                && run_probe(&ping, &mut connection.redis).await.is_err()
            {
                return;
            }
        }
    }

    fn mark_broken(&self, generation: u64) {
        self.broken.send_if_modified(|broken| {
            let is_newer = *broken < generation;
            *broken = generation.max(*broken);
            is_newer
        });
    }
}

async fn run_probe(probe: &Cmd, connection: &mut MultiplexedConnection) -> RedisResult<()> {
    let answer = timeout(COMMAND_TIMEOUT, probe.query_async(connection)).await;
    answer.unwrap_or_else(|_| Err(std::io::Error::from(std::io::ErrorKind::TimedOut).into()))
}

/// How long to wait before another attempt: longer each time, and not the same for all processes.
fn backoff(attempts: u32) -> Duration {
    let longest = MIN_BACKOFF.saturating_mul(1 << attempts.min(10)).min(MAX_BACKOFF);
    // Every `RandomState` is seeded anew.
    let share = RandomState::new().hash_one(attempts) % 1_000;
    longest.mul_f64(0.5 + share as f64 / 2_000.0)
}

/// Whether another connection may be better off: this one is gone, or leads to a Redis that must not
/// be written to.
fn is_fatal(why: &RedisError) -> bool {
    let elsewhere = matches!(why.code(), Some("READONLY" | "MASTERDOWN" | "LOADING"));
    elsewhere || why.is_io_error() || why.is_connection_dropped() || why.is_unrecoverable_error()
}

/// Whether Redis refused to write because it has no memory left. An old one says it within the error of a script.
fn is_full(why: &RedisError) -> bool {
    why.code() == Some("OOM")
        || why.detail().is_some_and(|it| it.contains("OOM command not allowed"))
}

fn full() -> Error {
    Error::overloaded(FULL_RETRY_AFTER).with_message("The server's store is full")
}

fn unreachable() -> Error {
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("The server's store cannot be reached")
}

fn refused() -> Error {
    Error::new(ErrorKind::TemporarilyUnavailable).with_message("The server's store refused")
}

fn too_much() -> Error {
    Error::overloaded(Duration::from_secs(1)).with_message("Too much waits to be stored")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_grow_to_a_limit_and_differ() {
        for attempts in 0..100 {
            let longest = MAX_BACKOFF.min(MIN_BACKOFF * (1 << attempts.min(10)));
            let pauses: Vec<_> = (0..50).map(|_| backoff(attempts)).collect();
            assert!(pauses.iter().all(|it| *it >= longest / 2 && *it <= longest));
            assert!(pauses.iter().any(|it| *it != pauses[0]), "all alike");
        }
    }
}
