//! Redis client that reconnects with exponential backoff, by one background task.

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
use wharf_model::{Error, ErrorKind};

use crate::redis::connector::{RedisConnection, RedisConnector};

/// Timeout of one command and of connecting. It bounds the wait of callers until an outage is
/// detected. A disk flush that takes longer counts as an outage.
pub(super) const COMMAND_TIMEOUT: Duration = Duration::from_secs(1);
/// Commands in flight at the same time: enough to keep Redis busy.
const MAX_IN_FLIGHT: usize = 512;
/// Commands that wait in the queue in addition.
const MAX_QUEUED_COMMANDS: usize = 8192;
/// Interval of the heartbeat (`PING`), which is skipped after other replies.
const HEARTBEAT_INTERVAL: Duration = Duration::from_millis(500);
/// Retry delay sent to clients while Redis is out of memory.
const FULL_RETRY_AFTER: Duration = Duration::from_secs(60);
const MIN_BACKOFF: Duration = Duration::from_millis(50);
const MAX_BACKOFF: Duration = Duration::from_secs(2);

/// Callback for push messages.
pub(super) type PushListener = Arc<dyn Fn(PushInfo) + Send + Sync>;

/// Connection to Redis and the task that reconnects it.
pub(super) struct RedisClient {
    shared: Arc<ConnectionManager>,
    reconnect_task: AbortHandle,
}

struct ConnectionManager {
    connector: RedisConnector,
    listener: PushListener,
    /// Command that a new connection must complete.
    probe: Cmd,
    /// Connection of the current generation, if there is one.
    state: watch::Sender<ConnectionState>,
    /// Newest generation known to be broken.
    broken: watch::Sender<u64>,
    queue: Semaphore,
    in_flight: Semaphore,
    /// True if Redis replied since the last heartbeat.
    answered: AtomicBool,
    /// True while Redis is out of memory: it replies but stores nothing.
    full: AtomicBool,
}

#[derive(Clone, Default)]
struct ConnectionState {
    generation: u64,
    connection: Option<RedisConnection>,
}

impl RedisClient {
    /// Connects. Only this first attempt can fail; later ones are retried until one succeeds,
    /// including `probe`.
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

    /// Returns whether Redis is connected, as far as is known.
    pub(super) fn is_up(&self) -> bool {
        self.shared.is_up()
    }

    /// Returns whether Redis is out of memory, as far as is known.
    pub(super) fn is_full(&self) -> bool {
        self.shared.full.load(Ordering::Relaxed)
    }

    /// Waits for a connection with a generation other than `known` and returns that generation.
    pub(super) async fn wait_newer(&self, known: u64) -> u64 {
        let mut states = self.shared.state.subscribe();
        let newer =
            |state: &ConnectionState| state.generation > known && state.connection.is_some();
        // The channel never closes: this client owns the sender.
        states.wait_for(newer).await.map_or(known, |state| state.generation)
    }

    /// Completes when the connection of this generation is lost.
    pub(super) async fn wait_lost(&self, generation: u64) {
        let mut states = self.shared.state.subscribe();
        let is_lost =
            |state: &ConnectionState| state.generation != generation || state.connection.is_none();
        let _ = states.wait_for(is_lost).await;
    }

    /// Completes when the current connection is lost.
    pub(super) async fn wait_down(&self) {
        let generation = self.shared.state.borrow().generation;
        self.wait_lost(generation).await;
    }

    /// Marks this generation as broken, which requests a new connection.
    pub(super) fn mark_broken(&self, generation: u64) {
        self.shared.mark_broken(generation);
    }

    /// Runs a command on the connection. It is never retried: after a failure its effect is
    /// unknown.
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
        // Read only now: the connection may have been lost while this command was queued.
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
                Err(full().with_source("Redis is out of memory: raise maxmemory or remove data"))
            }
            Ok(Err(why)) if !is_fatal(&why) => Err(refused().with_source(why)),
            // Replies still outstanding would occupy memory until they arrive; a new connection has
            // none.
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
        // The reconnect task may not have handled a broken generation yet.
        state.connection.is_some() && *self.broken.borrow() < state.generation
    }

    /// Returns the connection and its generation, unless it is known to be broken.
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
        // A Redis that is loading its data, or is a read-only replica, accepts connections as well.
        match run_probe(&shared.probe, &mut connection.redis).await {
            Err(why) if is_full(&why) => shared.set_out_of_memory(true),
            done => done?,
        }
        Ok(connection)
    }

    /// Records whether Redis is out of memory, and logs the change.
    fn set_out_of_memory(&self, is_full: bool) {
        match (self.full.swap(is_full, Ordering::Relaxed), is_full) {
            (false, true) => tracing::debug!("cannot write to Redis, it is out of memory"),
            (true, false) => tracing::debug!("resumed writing to Redis, it has memory again"),
            _ => {}
        }
    }

    /// Tests whether a Redis that was out of memory accepts writes again.
    async fn probe_memory(&self, connection: &mut MultiplexedConnection) {
        if self.full.load(Ordering::Relaxed) && run_probe(&self.probe, connection).await.is_ok() {
            self.set_out_of_memory(false);
        }
    }

    /// Reconnects for as long as the client exists.
    async fn reconnect_loop(shared: Arc<Self>) {
        let mut attempts = 0;
        loop {
            let generation = shared.state.borrow().generation;
            let since = Instant::now();
            shared.monitor(generation).await;
            shared.state.send_modify(|state| state.connection = None);
            // The first operation that fails is reported, with the error that it returns.
            tracing::debug!("lost the connection to Redis");
            // A connection that breaks at once counts as a failed attempt.
            attempts = if since.elapsed() > MAX_BACKOFF { 0 } else { attempts + 1 };
            let connection = loop {
                sleep(backoff(attempts)).await;
                match ConnectionManager::connect(&shared, generation + 1).await {
                    Ok(connection) => break connection,
                    Err(why) => tracing::debug!(%why, attempts, "cannot connect to Redis"),
                }
                attempts += 1;
            };
            tracing::debug!("reconnected to Redis");
            let state =
                ConnectionState { generation: generation + 1, connection: Some(connection) };
            shared.state.send_replace(state);
        }
    }

    /// Completes when the connection is lost; sends heartbeats meanwhile.
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

/// Exponential backoff with jitter, so that processes do not reconnect at the same moment.
fn backoff(attempts: u32) -> Duration {
    let longest = MIN_BACKOFF.saturating_mul(1 << attempts.min(10)).min(MAX_BACKOFF);
    // Every `RandomState` has a new seed.
    let share = RandomState::new().hash_one(attempts) % 1_000;
    longest.mul_f64(0.5 + share as f64 / 2_000.0)
}

/// Returns whether a new connection may help: this one is lost, or its Redis does not accept
/// writes.
fn is_fatal(why: &RedisError) -> bool {
    let elsewhere = matches!(why.code(), Some("READONLY" | "MASTERDOWN" | "LOADING"));
    elsewhere || why.is_io_error() || why.is_connection_dropped() || why.is_unrecoverable_error()
}

/// Returns whether Redis rejected a write because it is out of memory. Old versions report it
/// inside the error of a script.
fn is_full(why: &RedisError) -> bool {
    why.code() == Some("OOM")
        || why.detail().is_some_and(|it| it.contains("OOM command not allowed"))
}

fn full() -> Error {
    Error::overloaded(FULL_RETRY_AFTER).with_message("the server's store is full: try again later")
}

fn unreachable() -> Error {
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("the server's store cannot be reached: try again later")
}

fn refused() -> Error {
    Error::new(ErrorKind::TemporarilyUnavailable)
        .with_message("the server's store rejected the command")
}

fn too_much() -> Error {
    Error::overloaded(Duration::from_secs(1))
        .with_message("the queue of the server's store is full: try again later")
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
            assert!(pauses.iter().any(|it| *it != pauses[0]), "no jitter");
        }
    }
}
