//! One legacy session: its owner, its streams, its calls in flight and its last use.

use std::{
    collections::{HashMap, VecDeque},
    sync::{
        Arc, MutexGuard, OnceLock, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
};

use foldhash::fast::RandomState;
use tokio::time::{Instant, timeout};
use wharf_model::{Caller, Lock, RequestExtensions};
use wharf_wire::Connection;

use crate::server::http::session::{
    event_log::EventLog, kinds::SessionKind, replay_budget::ReplayBudget,
};
use crate::{
    ServerContext, Shutdown,
    server::{http::HttpLimits, jsonl::in_flight::InFlight},
    task_set::TaskSet,
};

/// Number of ended streams that a session keeps for replay.
const MAX_ENDED_STREAMS: usize = 16;
/// Number of the stream for messages that belong to no call (the stream of GET).
pub(crate) const SESSION_STREAM: u64 = 0;

/// State that all sessions of one endpoint share.
pub(crate) struct SessionContext {
    pub(crate) context: Arc<ServerContext>,
    pub(crate) limits: HttpLimits,
    /// Weak, because the tasks hold their sessions.
    pub(crate) tasks: Weak<TaskSet>,
    pub(crate) shutdown: Shutdown,
    pub(crate) replay_budget: Arc<ReplayBudget>,
    started: Instant,
}

impl SessionContext {
    pub(crate) fn new(
        context: Arc<ServerContext>,
        limits: HttpLimits,
        tasks: &Arc<TaskSet>,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let replay_budget = ReplayBudget::new(limits.replay_total, limits.replay_time);
        Arc::new(SessionContext {
            context,
            limits,
            tasks: Arc::downgrade(tasks),
            shutdown,
            replay_budget,
            started: Instant::now(),
        })
    }

    /// Milliseconds since the endpoint was created.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.started.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// One session. There may be very many idle ones, so it holds only what all of them need.
pub(crate) struct Session {
    pub(crate) common: Arc<SessionContext>,
    /// The caller that opened the session.
    pub(crate) caller: Caller,
    connection: Lock<Connection>,
    pub(crate) kind: Box<dyn SessionKind>,
    /// True if the client's revision allows priming events, and closing a stream before its end.
    pub(crate) polls: bool,
    /// Allocated with the first call that does not end at once, or with the first stream.
    active: OnceLock<Box<ActiveState>>,
    pub(super) guards: AtomicU32,
    /// Approximate number of bytes of the client's info and capabilities.
    client_info_bytes: u32,
    /// Time at which the last guard was dropped.
    pub(super) last_used: AtomicU64,
    /// Time at which the session began in this process, if observers know of it; zero otherwise.
    pub(super) started: AtomicU64,
    pub(super) ended: AtomicBool,
    /// True once the client has sent a request with the session id, which ends the handshake. Only the session
    /// table sets it.
    established: AtomicBool,
}

/// State that only sessions in use need.
#[derive(Default)]
struct ActiveState {
    in_flight: InFlight,
    streams: Lock<SessionStreams>,
}

/// Streams of a session.
#[derive(Default)]
pub(super) struct SessionStreams {
    /// The session's stream, created with the first message for it or its first reader.
    pub(super) session_stream: Option<Arc<EventLog>>,
    /// Set while the session's subscription is being started.
    listen_starting: Option<Shutdown>,
    pub(super) ended: bool,
    /// Number of the newest call stream, and the call streams by number.
    newest: u64,
    pub(super) call_streams: HashMap<u64, Arc<EventLog>, RandomState>,
    /// Call streams that have ended, oldest first.
    ended_streams: VecDeque<u64>,
}

impl Session {
    pub(crate) fn new(
        common: Arc<SessionContext>,
        mut connection: Connection,
        caller: Caller,
        kind: Box<dyn SessionKind>,
    ) -> Arc<Self> {
        connection.count_as(&caller);
        Arc::new(Session {
            caller,
            client_info_bytes: u32::try_from(connection.client_info_bytes()).unwrap_or(u32::MAX),
            kind,
            polls: connection.polls(),
            connection: Lock::new(connection),
            active: OnceLock::new(),
            guards: AtomicU32::new(0),
            last_used: AtomicU64::new(common.now()),
            started: AtomicU64::new(0),
            ended: AtomicBool::new(false),
            established: AtomicBool::new(false),
            common,
        })
    }

    /// Returns the session's size in units of the table.
    pub(crate) fn units(&self) -> usize {
        self.common.limits.session_unit().max(self.client_info_bytes as usize)
    }

    /// Limits the session's notifications to what this request's principal may see: a new token may grant less.
    pub(crate) fn set_principal(&self, scope: &RequestExtensions) {
        if let Some(caller) = scope.get() {
            self.connection().set_principal(caller);
        }
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        self.connection.lock()
    }

    /// Returns true once the handshake has ended.
    pub(crate) fn is_established(&self) -> bool {
        self.established.load(Ordering::Acquire)
    }

    /// Records that the handshake has ended.
    pub(crate) fn set_established(&self) {
        self.established.store(true, Ordering::Release);
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Returns the calls in flight, if there was ever one.
    pub(crate) fn calls_if_any(&self) -> Option<&InFlight> {
        self.active.get().map(|active| &active.in_flight)
    }

    /// Returns the table of calls in flight, and creates it if needed.
    pub(crate) fn calls(&self) -> &InFlight {
        &self.active().in_flight
    }

    /// Opens a stream for a call.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Arc<EventLog> {
        let mut streams = self.streams();
        streams.newest += 1;
        let number = self.kind.stream_number(streams.newest);
        let writer = self.kind.event_writer(self, number);
        let session = Arc::downgrade(self);
        let log = EventLog::new(number, self.common.clone(), &self.caller, writer, session);
        streams.call_streams.insert(log.number, log.clone());
        log
    }

    pub(crate) fn stream(&self, number: u64) -> Option<Arc<EventLog>> {
        match number {
            SESSION_STREAM => self.streams().session_stream.clone(),
            _ => self.streams().call_streams.get(&number).cloned(),
        }
    }

    /// Returns the session's stream, and creates it if needed.
    pub(crate) fn session_stream(&self) -> Arc<EventLog> {
        let mut streams = self.streams();
        let session_stream = streams
            .session_stream
            .get_or_insert_with(|| {
                let common = self.common.clone();
                EventLog::new(SESSION_STREAM, common, &self.caller, None, Weak::new())
            })
            .clone();
        if streams.ended {
            drop(streams);
            session_stream.close();
        }
        session_stream
    }

    /// Returns true if the session's stream exists.
    pub(crate) fn has_session_stream(&self) -> bool {
        self.active.get().is_some_and(|active| active.streams.lock().session_stream.is_some())
    }

    /// Marks the session's subscription as being started until the guard is dropped.
    pub(crate) fn mark_listen_starting(&self) -> ListenStartGuard {
        let listen_starting = Shutdown::new();
        self.streams().listen_starting = Some(listen_starting.clone());
        ListenStartGuard(listen_starting)
    }

    /// Completes when the session's subscription has started. None if it is not being started.
    pub(crate) fn listen_starting(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut streams = self.active.get()?.streams.lock();
        streams.listen_starting.take_if(|it| it.is_stopped());
        let (listen_starting, patience) =
            (streams.listen_starting.clone()?, self.common.limits.keep_alive);
        Some(async move {
            if timeout(patience, listen_starting.stopped()).await.is_err() {
                // Other requests do not wait for a subscription that may never report its start.
                listen_starting.stop();
            }
        })
    }

    /// Removes a stream that cannot be resumed.
    pub(crate) fn remove_stream(&self, number: u64) {
        let mut streams = self.streams();
        streams.call_streams.remove(&number);
        streams.ended_streams.retain(|it| *it != number);
    }

    /// Removes a stream without events. With the last one, the memory of the tables is released.
    pub(crate) fn release_stream(&self, number: u64) {
        self.remove_stream(number);
        let mut streams = self.streams();
        if streams.call_streams.is_empty() {
            streams.call_streams.shrink_to_fit();
            streams.ended_streams.shrink_to_fit();
            drop(streams);
            self.calls().shrink();
        }
    }

    /// Keeps an ended stream for replay, and removes the oldest one beyond the limit.
    pub(crate) fn finish_stream(&self, number: u64) {
        let mut streams = self.streams();
        if !streams.call_streams.contains_key(&number) {
            return;
        }
        streams.ended_streams.push_back(number);
        let full = streams.ended_streams.len() > MAX_ENDED_STREAMS;
        let first = if full { streams.ended_streams.pop_front() } else { None };
        let gone = first.and_then(|first| streams.call_streams.remove(&first));
        drop(streams);
        // A stream that is being read from the store or written to it expires there by its TTL.
        let gone = gone.filter(|log| log.is_disposable());
        if let Some(writer) = gone.as_ref().and_then(|log| log.writer()) {
            writer.delete_stored();
        }
    }

    /// Deletes the stored events of the streams that this process wrote, because the session has ended.
    pub(crate) fn delete_stored_streams(&self) {
        let call_streams: Vec<_> = self.streams().call_streams.values().cloned().collect();
        call_streams
            .iter()
            .filter_map(|log| log.writer())
            .for_each(|writer| writer.delete_stored());
    }

    pub(super) fn streams(&self) -> MutexGuard<'_, SessionStreams> {
        self.active().streams.lock()
    }

    fn active(&self) -> &ActiveState {
        self.active.get_or_init(|| {
            let first = self.kind.first_request_number();
            Box::new(ActiveState {
                in_flight: InFlight::with_first_request(first),
                ..ActiveState::default()
            })
        })
    }
}

/// Exists while a subscription is being started. Dropping it wakes the requests that wait for the start.
pub(crate) struct ListenStartGuard(Shutdown);

impl Drop for ListenStartGuard {
    fn drop(&mut self) {
        self.0.stop();
    }
}
