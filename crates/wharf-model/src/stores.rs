//! [`Stores`]: all stores of a server.

use std::{any::Any, collections::BTreeMap, fmt, sync::Arc, time::Duration};

use crate::{
    AttachResult, Bus, BusSubscriber, Error, ErrorKind, EventStore, Events, Health, NonceStore,
    Rate, RateDecision, RateStore, Record, RecordStore, Retention, Stored,
};

/// Durability and sharing of a store.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[non_exhaustive]
pub enum Sharing {
    /// Used by one process, and lost when it ends.
    Process,
    /// Survives a restart of the process.
    Machine,
    /// Shared by any number of processes.
    Cluster,
}

/// All stores of a server, on one storage engine.
///
/// The author of an engine sets each store. One that is not set, because it is newer than the engine, fails with an
/// error that names it, and the others work:
///
/// ```
/// # mod wharf { pub mod store { pub use wharf_model::*; } }
/// use std::time::Duration;
/// use wharf::store::{NonceStore, Sharing, Stored, Stores};
///
/// struct Nonces;
///
/// impl NonceStore for Nonces {
///     fn claim(&self, nonce: &str, ttl: Duration) -> Stored<bool> {
///         # let _ = (nonce, ttl);
///         // …
///         Box::pin(async { Ok(true) })
///     }
/// }
///
/// let stores = Stores::new(Sharing::Machine).nonces(Nonces);
/// ```
#[derive(Clone)]
#[non_exhaustive]
pub struct Stores {
    /// Tasks.
    pub tasks: Arc<dyn RecordStore>,
    /// Legacy sessions over HTTP.
    pub sessions: Arc<dyn RecordStore>,
    /// Records of an authorization server: clients, grants and tokens.
    pub grants: Arc<dyn RecordStore>,
    /// Event streams of legacy clients, for resumability.
    pub events: Arc<dyn EventStore>,
    /// Messages between the processes of one server.
    pub bus: Arc<dyn Bus>,
    /// Rate limits.
    pub rates: Arc<dyn RateStore>,
    /// Nonces.
    pub nonces: Arc<dyn NonceStore>,
    /// Availability of the stores. A store that does not set it is always available.
    pub health: Arc<dyn Health>,
    /// Durability and sharing of the stores.
    pub sharing: Sharing,
    /// Name of the storage engine in logs and metrics.
    pub name: &'static str,
}

impl Stores {
    /// Creates stores of which none is set.
    #[must_use]
    pub fn new(sharing: Sharing) -> Self {
        Stores {
            tasks: Arc::new(UnsetStore("tasks")),
            sessions: Arc::new(UnsetStore("sessions")),
            grants: Arc::new(UnsetStore("grants")),
            events: Arc::new(UnsetStore("events")),
            bus: Arc::new(UnsetStore("bus")),
            rates: Arc::new(UnsetStore("rates")),
            nonces: Arc::new(UnsetStore("nonces")),
            health: Arc::new(UnsetStore("health")),
            sharing,
            name: "custom",
        }
    }
}

macro_rules! port_setters {
    ($($port:ident: $interface:ident),* $(,)?) => {
        impl Stores {
            $(#[doc = concat!("Sets [`", stringify!($port), "`](Stores#structfield.", stringify!($port), ").")]
            #[must_use]
            pub fn $port(mut self, store: impl $interface) -> Self {
                self.$port = Arc::new(store);
                self
            })*
        }
    };
}

port_setters! {
    tasks: RecordStore,
    sessions: RecordStore,
    grants: RecordStore,
    events: EventStore,
    bus: Bus,
    rates: RateStore,
    nonces: NonceStore,
    health: Health,
}

crate::setters!(Stores { sharing: Sharing, name: &'static str });

impl fmt::Debug for Stores {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Stores").field("sharing", &self.sharing).finish_non_exhaustive()
    }
}

/// Store that the engine does not have: its operations fail.
struct UnsetStore(&'static str);

impl UnsetStore {
    fn fail<T: Send + 'static>(&self) -> Stored<T> {
        let name = self.0;
        Box::pin(async move {
            let message = format!("the server's storage engine has no store for {name}");
            Err(Error::new(ErrorKind::InternalError).with_message(message))
        })
    }
}

impl RecordStore for UnsetStore {
    fn now(&self) -> Stored<u64> {
        self.fail()
    }

    fn insert(&self, _record: Record, _most: usize) -> Stored<bool> {
        self.fail()
    }

    fn load(&self, _id: &str) -> Stored<Option<Record>> {
        self.fail()
    }

    fn swap(&self, _record: Record) -> Stored<bool> {
        self.fail()
    }

    fn remove(&self, _id: &str) -> Stored<bool> {
        self.fail()
    }

    fn list(&self, _owner: &str, _after: Option<&str>, _limit: usize) -> Stored<Vec<Record>> {
        self.fail()
    }

    fn due(&self, _limit: usize) -> Stored<Vec<String>> {
        self.fail()
    }

    fn attach(&self, _id: &str, _fence: u64, _name: &str, _value: Vec<u8>) -> Stored<AttachResult> {
        self.fail()
    }

    fn attachments(&self, _id: &str) -> Stored<BTreeMap<String, Vec<u8>>> {
        self.fail()
    }

    fn sweep(&self, _limit: usize) -> Stored<usize> {
        self.fail()
    }
}

impl EventStore for UnsetStore {
    fn append(&self, _stream: &str, _event: Vec<u8>, _keep: Retention) -> Stored<u64> {
        self.fail()
    }

    fn read(&self, _stream: &str, _after: u64, _limit: usize) -> Stored<Events> {
        self.fail()
    }

    fn remove(&self, _stream: &str) -> Stored<()> {
        self.fail()
    }
}

impl Bus for UnsetStore {
    fn publish(&self, _topic: &str, _message: Vec<u8>) -> Stored<()> {
        self.fail()
    }

    fn subscribe(
        &self,
        _topic: &str,
        subscriber: Arc<dyn BusSubscriber>,
    ) -> Box<dyn Any + Send + Sync> {
        subscriber.missed();
        Box::new(())
    }
}

impl RateStore for UnsetStore {
    /// Rejects: a limit that cannot be counted must not be unlimited.
    fn take(&self, _key: &str, _rate: Rate) -> RateDecision {
        RateDecision::Now(Err(Duration::from_secs(60)))
    }
}

impl NonceStore for UnsetStore {
    fn claim(&self, _nonce: &str, _ttl: Duration) -> Stored<bool> {
        self.fail()
    }
}

impl Health for UnsetStore {
    fn is_ready(&self) -> bool {
        true
    }
}
