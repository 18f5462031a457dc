//! One session: who it belongs to, its streams, and whether anybody still uses it.

use std::{
    collections::{HashMap, VecDeque},
    ops::Deref,
    sync::{
        Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak,
        atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering},
    },
    time::Duration,
};

use foldhash::fast::RandomState;
use tokio::time::{Instant, timeout};
use wharf_model::{Caller, Principal, RequestExtensions};
use wharf_wire::Connection;

use crate::server::http::session::{
    cluster::{event_writer::Journal, record::Member},
    event_log::Log,
    replay_budget::Kept,
};
use crate::{
    ServerContext, Shutdown,
    server::{
        http::{HttpLimits, session::id},
        jsonl::in_flight::Flight,
        limits::fair_eviction::Use,
    },
};

/// How many streams that have ended a session keeps.
const FINISHED: usize = 16;
/// Added to the moments of sessions that somebody came back to: the others are given up first.
pub(crate) const USED: u64 = 1 << 63;
/// The stream of what concerns no call in particular.
pub(crate) const OWN: u64 = 0;

/// What all sessions of one endpoint share.
pub(crate) struct Common {
    pub(crate) host: Arc<ServerContext>,
    pub(crate) limits: HttpLimits,
    pub(crate) shutdown: Shutdown,
    pub(crate) kept: Kept,
    begun: Instant,
}

impl Common {
    pub(crate) fn new(
        host: Arc<ServerContext>,
        limits: HttpLimits,
        shutdown: Shutdown,
    ) -> Arc<Self> {
        let kept = Kept::new(limits.replay_total, limits.replay_time);
        Arc::new(Common { host, limits, shutdown, kept, begun: Instant::now() })
    }

    /// The time, in milliseconds since the endpoint began.
    pub(crate) fn now(&self) -> u64 {
        u64::try_from(self.begun.elapsed().as_millis()).unwrap_or(u64::MAX)
    }
}

/// One session. There may be very many that nobody uses, so it holds only what all of them need.
pub(crate) struct Session {
    pub(crate) common: Arc<Common>,
    /// Who opened it.
    pub(crate) caller: Caller,
    connection: Mutex<Connection>,
    /// What it is to other processes, if they serve it too.
    pub(crate) member: Option<Box<Member>>,
    /// Whether streams are primed, and may be closed before they end.
    pub(crate) polls: bool,
    /// Made with its first call that does not end at once, or its first stream.
    busy: OnceLock<Box<Busy>>,
    visits: AtomicU32,
    /// About how many bytes it keeps of what its client said about itself.
    kept: u32,
    /// When the last visit ended.
    left: AtomicU64,
    ended: AtomicBool,
    /// Whether the client has come back with the session's id.
    used: AtomicBool,
}

/// What only sessions in use need.
#[derive(Default)]
struct Busy {
    flight: Flight,
    streams: Mutex<Streams>,
}

/// The streams of a session.
#[derive(Default)]
struct Streams {
    /// Its own, once there is anything to hear, or anybody to hear it.
    own: Option<Arc<Log>>,
    /// Its listen, while that is on its way to the service.
    beginning: Option<Shutdown>,
    ended: bool,
    /// The number of the newest stream of a call, and the streams of calls.
    newest: u64,
    logs: HashMap<u64, Arc<Log>, RandomState>,
    /// Those that have ended, the first to end first.
    finished: VecDeque<u64>,
}

impl Session {
    pub(crate) fn new(
        common: Arc<Common>,
        mut connection: Connection,
        caller: Caller,
        member: Option<Member>,
    ) -> Arc<Self> {
        connection.count_as(&caller);
        Arc::new(Session {
            caller,
            kept: u32::try_from(connection.kept()).unwrap_or(u32::MAX),
            member: member.map(Box::new),
            polls: connection.polls(),
            connection: Mutex::new(connection),
            busy: OnceLock::new(),
            visits: AtomicU32::new(0),
            left: AtomicU64::new(common.now()),
            ended: AtomicBool::new(false),
            used: AtomicBool::new(false),
            common,
        })
    }

    /// Whether whoever sent this request opened the session.
    pub(crate) fn belongs_to(&self, scope: &RequestExtensions) -> bool {
        let opener = match &self.caller {
            Caller::Principal(id) => Some(&**id),
            Caller::Address(_) | Caller::Local => None,
        };
        opener == principal(scope)
    }

    /// How many units of the whole table it is worth.
    pub(crate) fn units(&self) -> usize {
        self.common.limits.session_unit().max(self.kept as usize)
    }

    /// What its place in the table is used for.
    pub(crate) fn used_for(&self) -> Use {
        match self.is_in_use() {
            true => Use::Busy,
            false => {
                let later = if self.used.load(Ordering::Acquire) { USED } else { 0 };
                Use::Idle(later | self.left.load(Ordering::Acquire))
            }
        }
    }

    /// Lets the session hear what whoever sent this request may hear: a new token may be good for less.
    pub(crate) fn set_principal(&self, scope: &RequestExtensions) {
        if let Some(caller) = scope.get() {
            self.connection().set_principal(caller);
        }
    }

    pub(crate) fn connection(&self) -> MutexGuard<'_, Connection> {
        lock(&self.connection)
    }

    /// Notes that the client has the session's id.
    pub(crate) fn touch(&self) {
        self.used.store(true, Ordering::Release);
        if let Some(member) = &self.member {
            member.note_use();
        }
    }

    /// Whether somebody uses the session right now.
    pub(crate) fn is_in_use(&self) -> bool {
        self.visits.load(Ordering::Acquire) > 0
    }

    /// For how long nobody has used the session.
    pub(crate) fn idle(&self) -> Duration {
        if self.visits.load(Ordering::Acquire) > 0 {
            return Duration::ZERO;
        }
        let left = self.left.load(Ordering::Acquire);
        Duration::from_millis(self.common.now().saturating_sub(left))
    }

    pub(crate) fn is_expired(&self) -> bool {
        self.idle() >= self.common.limits.session_idle
    }

    pub(crate) fn is_ended(&self) -> bool {
        self.ended.load(Ordering::Acquire)
    }

    /// Ends the session, its calls and its streams.
    pub(crate) fn end(&self) {
        self.ended.store(true, Ordering::Release);
        let mut streams = self.streams();
        streams.ended = true;
        let own = streams.own.take();
        let logs = std::mem::take(&mut streams.logs);
        drop(streams);
        // Before the calls, which would take their questions back.
        own.iter().chain(logs.values()).for_each(|log| log.close());
        self.flight().abort_all();
        if let Some(member) = &self.member {
            member.look();
        }
    }

    /// Ends what would never end by itself: the server stops.
    pub(crate) fn wind_up(&self) {
        self.own_stream().end(None);
        self.flight().close();
    }

    /// The calls under way, if there ever were any.
    pub(crate) fn under_way(&self) -> Option<&Flight> {
        self.busy.get().map(|busy| &busy.flight)
    }

    /// Where calls go that do not end at once.
    pub(crate) fn flight(&self) -> &Flight {
        &self.busy().flight
    }

    /// A new stream, for a call.
    pub(crate) fn open_stream(self: &Arc<Self>) -> Arc<Log> {
        let mut streams = self.streams();
        streams.newest += 1;
        // Where others open streams too, no two may have the same number.
        let number = match &self.member {
            Some(_) => id::random().unwrap_or(streams.newest),
            None => streams.newest,
        };
        let journal = self.member.as_ref().map(|member| Journal::new(self, member, number));
        let log = Log::new(number, self.common.clone(), journal, Arc::downgrade(self));
        streams.logs.insert(log.number, log.clone());
        log
    }

    pub(crate) fn stream(&self, number: u64) -> Option<Arc<Log>> {
        match number {
            OWN => self.streams().own.clone(),
            _ => self.streams().logs.get(&number).cloned(),
        }
    }

    /// The session's own stream.
    pub(crate) fn own_stream(&self) -> Arc<Log> {
        let mut streams = self.streams();
        let own = streams
            .own
            .get_or_insert_with(|| Log::new(OWN, self.common.clone(), None, Weak::new()))
            .clone();
        if streams.ended {
            drop(streams);
            own.close();
        }
        own
    }

    /// Whether what the session's listen says goes to a stream already.
    pub(crate) fn is_heard(&self) -> bool {
        self.busy.get().is_some_and(|busy| lock(&busy.streams).own.is_some())
    }

    /// Notes that the session's listen is on its way to the service, until what this gives is gone.
    pub(crate) fn begin_listen(&self) -> Beginning {
        let beginning = Shutdown::new();
        self.streams().beginning = Some(beginning.clone());
        Beginning(beginning)
    }

    /// Completes when the session's listen has begun, if it is on its way.
    pub(crate) fn beginning(&self) -> Option<impl Future<Output = ()> + Send + use<>> {
        let mut streams = lock(&self.busy.get()?.streams);
        streams.beginning.take_if(|it| it.is_stopped());
        let (beginning, patience) = (streams.beginning.clone()?, self.common.limits.keep_alive);
        Some(async move {
            if timeout(patience, beginning.stopped()).await.is_err() {
                // Nobody else need wait for one that may never say that it has begun.
                beginning.stop();
            }
        })
    }

    /// Forgets a stream that nobody can come back to.
    pub(crate) fn forget_stream(&self, number: u64) {
        let mut streams = self.streams();
        streams.logs.remove(&number);
        streams.finished.retain(|it| *it != number);
    }

    /// Forgets a stream of which nothing is kept any more, and with the last one the memory that streams needed.
    pub(crate) fn release_stream(&self, number: u64) {
        self.forget_stream(number);
        let mut streams = self.streams();
        if streams.logs.is_empty() {
            streams.logs.shrink_to_fit();
            streams.finished.shrink_to_fit();
            drop(streams);
            self.flight().shrink();
        }
    }

    /// Keeps a stream that has ended, and forgets one that ended long ago.
    pub(crate) fn finish_stream(&self, number: u64) {
        let mut streams = self.streams();
        if !streams.logs.contains_key(&number) {
            return;
        }
        streams.finished.push_back(number);
        let full = streams.finished.len() > FINISHED;
        let first = if full { streams.finished.pop_front() } else { None };
        let gone = first.and_then(|first| streams.logs.remove(&first));
        drop(streams);
        // Whoever reads it there, or still writes it, leaves it to time.
        let gone = gone.filter(|log| log.is_spare());
        if let Some(journal) = gone.as_ref().and_then(|log| log.journal()) {
            journal.forget();
        }
    }

    /// Forgets what the store has of the streams that this process wrote: the session is over.
    pub(crate) fn forget_stored(&self) {
        let logs: Vec<_> = self.streams().logs.values().cloned().collect();
        logs.iter().filter_map(|log| log.journal()).for_each(Journal::forget);
    }

    fn streams(&self) -> MutexGuard<'_, Streams> {
        lock(&self.busy().streams)
    }

    fn busy(&self) -> &Busy {
        self.busy.get_or_init(|| {
            let first = self.member.as_ref().map_or(0, |it| it.fleet.first_question());
            Box::new(Busy { flight: Flight::asking_from(first), ..Busy::default() })
        })
    }
}

/// A listen on its way to its service.
pub(crate) struct Beginning(Shutdown);

impl Drop for Beginning {
    fn drop(&mut self) {
        self.0.stop();
    }
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

/// Somebody uses the session: it does not expire meanwhile.
pub(crate) struct Visit(Arc<Session>);

impl Visit {
    pub(crate) fn new(session: Arc<Session>) -> Self {
        session.visits.fetch_add(1, Ordering::AcqRel);
        Visit(session)
    }

    pub(crate) fn session(&self) -> &Arc<Session> {
        &self.0
    }
}

impl Clone for Visit {
    fn clone(&self) -> Self {
        Visit::new(self.0.clone())
    }
}

impl Deref for Visit {
    type Target = Session;

    fn deref(&self) -> &Session {
        &self.0
    }
}

impl Drop for Visit {
    fn drop(&mut self) {
        self.left.store(self.common.now(), Ordering::Release);
        self.visits.fetch_sub(1, Ordering::AcqRel);
    }
}

/// Who sent a request, if anybody authenticated them.
pub(crate) fn principal(scope: &RequestExtensions) -> Option<&str> {
    scope.get::<Principal>().map(Principal::id)
}
