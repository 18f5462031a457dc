//! Callers of a real fleet, of both eras.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex, MutexGuard, PoisonError,
        atomic::{AtomicU64, AtomicUsize, Ordering},
    },
    time::{Duration, SystemTime},
};

use serde_json::json;
use tokio::{
    task::JoinSet,
    time::{Instant, sleep},
};
use wharf::{Answers, Client, ElicitResult, Era, Error, ErrorKind, TaskState, TaskStatus};

use crate::{
    chance::Chance,
    history::{Event, History, Sight},
    stream::{End, Session},
    work::Job,
};

/// How long everything may take to come to an end, once nobody is killed any more.
pub const AFTERWARDS: Duration = Duration::from_secs(60);

/// How many streams one caller has at a time, and how many calls belong to a session.
const STREAMS: usize = 64;
const CALLS_OF_SESSION: u64 = 10;

/// All callers together. Clones are the same.
#[derive(Clone)]
pub struct Load {
    url: String,
    address: SocketAddr,
    /// Until when something new is begun.
    end: Instant,
    pub history: History,
    known: Arc<Mutex<Vec<(String, String)>>>,
    pub counts: Arc<Counts>,
}

/// What there was besides tasks.
#[derive(Debug, Default)]
pub struct Counts {
    /// Calls that were answered.
    pub calls: AtomicUsize,
    /// Tasks that were refused, or nobody knows.
    pub refused: AtomicUsize,
    /// Streams that came to an end with a result, and with an error because their node was gone.
    pub streams: AtomicUsize,
    pub broken: AtomicUsize,
    /// How often a stream was taken up again, and how many events there were.
    pub resumed: AtomicUsize,
    pub events: AtomicUsize,
    number: AtomicU64,
}

impl Load {
    #[must_use]
    pub fn new(url: String, address: SocketAddr, end: Instant) -> Self {
        let (history, known) = (History::default(), Arc::default());
        Load { url, address, end, history, known, counts: Arc::default() }
    }

    /// All of it: tasks in both eras, streams, and calls that say who is calling.
    pub async fn run(&self) {
        let mut callers = JoinSet::new();
        for (who, era) in [("alice", Era::Modern), ("bob", Era::Legacy), ("carol", Era::Modern)] {
            callers.spawn(self.clone().tasks(who, era));
        }
        for who in ["dave", "erin"] {
            callers.spawn(self.clone().streams(who));
        }
        for (who, era) in [("frank", Era::Modern), ("grace", Era::Legacy)] {
            callers.spawn(self.clone().calls(who, era));
        }
        self.all(callers).await;
    }

    /// What survives a process that has nobody to take over: tasks, and calls without a session.
    pub async fn without_sessions(&self) {
        let mut callers = JoinSet::new();
        for who in ["alice", "bob", "carol"] {
            callers.spawn(self.clone().tasks(who, Era::Modern));
        }
        callers.spawn(self.clone().calls("frank", Era::Modern));
        self.all(callers).await;
    }

    async fn all(&self, mut callers: JoinSet<()>) {
        while let Some(ended) = callers.join_next().await {
            if let Err(error) = ended {
                self.wrong("load", &format!("a caller ended with {error}"));
            }
        }
    }

    async fn connect(&self, who: &str, era: Era) -> Option<Client> {
        loop {
            let word = format!("{who}:{}", self.counts.number.fetch_add(1, Ordering::Relaxed));
            let answers = Answers::new().elicit(move |_| {
                let word = word.clone();
                async move { Ok(ElicitResult::accept(json!({ "word": word }))) }
            });
            let client = Client::builder()
                .era(era)
                .header("authorization", format!("Bearer {who}"))
                .timeout(Duration::from_secs(20))
                .answers(answers);
            match client.connect(self.url.as_str()).await {
                Ok(client) => return Some(client),
                Err(error) if Instant::now() > self.end + AFTERWARDS => {
                    self.wrong(who, &format!("could not connect: {error}"));
                    return None;
                }
                Err(_) => sleep(Duration::from_millis(50)).await,
            }
        }
    }

    /// Begins one task after the other, and follows all of them.
    async fn tasks(self, who: &'static str, era: Era) {
        let Some(mut client) = self.connect(who, era).await else { return };
        let mut chance = Chance::of(u64::from(std::process::id()), who);
        let mut followed = JoinSet::new();
        for number in 0.. {
            if Instant::now() >= self.end {
                break;
            }
            let key = format!("{who}-{number}");
            let steps = 1 + u32::try_from(chance.below(5)).unwrap_or(0);
            let (pause, ask) = (chance.below(300) as u64, chance.percent(30));
            let job = Job { key: key.clone(), steps, pause, ask };
            match client.call_task("work", &job).await {
                Ok(handle) => match handle.id() {
                    Some(id) => {
                        self.add(&key, Event::Acknowledged);
                        self.known().push((key.clone(), id.to_owned()));
                        let spawned = self.clone().follow(client.clone(), era, key, id.to_owned());
                        followed.spawn(spawned);
                    }
                    None => self.wrong(&key, "it was no task"),
                },
                Err(error) => {
                    self.counts.refused.fetch_add(1, Ordering::Relaxed);
                    if is_final(&error) {
                        self.wrong(&key, &format!("it was refused: {error:?}"));
                    }
                    if error.kind == ErrorKind::SessionNotFound {
                        let Some(again) = self.connect(who, era).await else { return };
                        client = again;
                    }
                }
            }
            self.spy(&client, who, &mut chance).await;
            sleep(chance.millis(50..250)).await;
        }
        while followed.join_next().await.is_some() {}
    }

    /// Looks at a task until it is over, and once more.
    async fn follow(self, client: Client, era: Era, key: String, id: String) {
        let mut chance = Chance::of(1, &key);
        let impatient = chance.percent(15);
        let mut seen = 0;
        while seen < 2 && Instant::now() < self.end + AFTERWARDS {
            sleep(chance.millis(100..500)).await;
            let since = self.history.len();
            // A new handle each time: an old one remembers how its task ended.
            let task = match client.task(&id).get().await {
                Ok(task) => task,
                Err(error) if is_final(&error) => {
                    self.wrong(&key, &format!("its owner was told {error:?}"));
                    return;
                }
                Err(_) => continue,
            };
            let text = match &task.state {
                TaskState::Completed(result) => {
                    result.structured.as_ref().map(|it| it.get().to_owned()).unwrap_or_default()
                }
                TaskState::Failed(error) => error.message.to_string(),
                _ => String::new(),
            };
            let status = task.status();
            self.add(&key, Event::Seen(Sight { since, status: status.as_str().into(), text }));
            match (status, era) {
                (TaskStatus::InputRequired, Era::Modern) => {
                    let word = format!("{key}:{}", chance.below(1000));
                    let go = json!({"go": {"action": "accept", "content": {"word": word}}});
                    let _ = client.task(&id).update(go).await;
                }
                // The other dialect asks whoever waits for the end.
                (TaskStatus::InputRequired, Era::Legacy) => {
                    let wait = client.task(&id).wait().timeout(Duration::from_secs(5));
                    let _ = wait.await;
                }
                (TaskStatus::Working, Era::Legacy) if impatient => {
                    self.cancel(&client, &key, &id).await;
                }
                _ => {}
            }
            seen += usize::from(status.is_terminal());
        }
    }

    /// Only the other dialect tells a task that is cancelled from one that was over.
    async fn cancel(&self, client: &Client, key: &str, id: &str) {
        if client.task(id).cancel().await.is_ok() {
            self.add(key, Event::Cancelled { too_late: false });
        }
    }

    /// Asks for somebody else's task.
    async fn spy(&self, client: &Client, who: &str, chance: &mut Chance) {
        let other = {
            let known = self.known();
            let others: Vec<_> = known.iter().filter(|it| !it.0.starts_with(who)).collect();
            if others.is_empty() {
                return;
            }
            (*chance.pick(&others)).clone()
        };
        match client.task(&other.1).get().await {
            Err(error) if error.kind == ErrorKind::TaskNotFound || !is_final(&error) => {}
            told => self.wrong(&other.0, &format!("{who} was told {told:?}")),
        }
    }

    /// One stream after the other, several of them at a time. One whose node is gone ends when
    /// everybody knows that; others go on meanwhile.
    async fn streams(self, who: &'static str) {
        let mut chance = Chance::of(2, who);
        let (mut session, mut under_way) = (None, JoinSet::new());
        for number in 1.. {
            if Instant::now() >= self.end {
                break;
            }
            if number % CALLS_OF_SESSION == 1 {
                session = None;
            }
            let open = match session.take() {
                Some(open) => open,
                None => match Session::open(self.address, who, AFTERWARDS).await {
                    Ok(opened) => opened,
                    Err(error) => {
                        return self.wrong(who, &format!("no session could be opened: {error}"));
                    }
                },
            };
            session = Some(open.clone());
            let to = 5 + u32::try_from(chance.below(30)).unwrap_or(0);
            under_way.spawn(self.clone().stream(open, who, number, to, chance.below(60)));
            if under_way.len() >= STREAMS {
                under_way.join_next().await;
            }
            sleep(chance.millis(50..150)).await;
        }
        while under_way.join_next().await.is_some() {}
    }

    /// One stream, checked event by event.
    async fn stream(self, open: Session, who: &'static str, number: u64, to: u32, pause: usize) {
        let arguments = json!({"to": to, "pause": pause});
        // A process tells that another is gone only once it has seen the store for a while: where
        // processes live for seconds only, that is when the killing is over.
        let patience = (self.end + AFTERWARDS).saturating_duration_since(Instant::now());
        let heard = open.call(number, "count", &arguments, patience).await;
        if let Some(problem) = heard.problem(who, to) {
            self.wrong(who, &problem);
        }
        let ended = match &heard.end {
            End::Answer(answer) if answer.get("error").is_none() => &self.counts.streams,
            _ => &self.counts.broken,
        };
        ended.fetch_add(1, Ordering::Relaxed);
        self.counts.resumed.fetch_add(heard.resumed, Ordering::Relaxed);
        self.counts.events.fetch_add(heard.ids.len(), Ordering::Relaxed);
    }

    /// One call after the other, each of which says who is calling.
    async fn calls(self, who: &'static str, era: Era) {
        let Some(mut client) = self.connect(who, era).await else { return };
        while Instant::now() < self.end {
            match client.call_as::<String>("whoami", json!({})).await {
                Ok(name) if name == who => {
                    self.counts.calls.fetch_add(1, Ordering::Relaxed);
                }
                Ok(name) => self.wrong(who, &format!("was taken for {name}")),
                Err(error) if error.kind == ErrorKind::SessionNotFound => {
                    self.wrong(who, &format!("its session was lost: {error:?}"));
                    let Some(again) = self.connect(who, era).await else { return };
                    client = again;
                }
                Err(error) if is_final(&error) => {
                    self.wrong(who, &format!("a call was refused: {error:?}"));
                }
                Err(_) => {}
            }
            sleep(Duration::from_millis(20)).await;
        }
    }

    fn known(&self) -> MutexGuard<'_, Vec<(String, String)>> {
        self.known.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, key: &str, event: Event) {
        self.history.add(now(), key, event);
    }

    fn wrong(&self, key: &str, what: &str) {
        self.add(key, Event::Wrong(what.into()));
    }
}

/// Milliseconds since 1970, as the nodes' journal has them.
fn now() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH).unwrap_or_default();
    u64::try_from(since.as_millis()).unwrap_or(0)
}

/// Whether an error says more than that a node is gone, or cannot for now.
fn is_final(error: &Error) -> bool {
    let passing = [
        ErrorKind::ConnectionClosed,
        ErrorKind::TransportError,
        ErrorKind::RequestTimeout,
        ErrorKind::TemporarilyUnavailable,
        ErrorKind::Overloaded,
    ];
    !passing.contains(&error.kind)
}
