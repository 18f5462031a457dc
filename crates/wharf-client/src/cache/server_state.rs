//! What a caller remembers of its server, and how it hears that it is no longer so.

use std::{
    collections::{BTreeSet, VecDeque},
    future::poll_fn,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Instant,
};

use wharf_model::{Error, METHODS, Method, Mirrored, Notification, Reply, TaskSupport, ToolInfo};

use crate::{
    ClientHandler, NotificationListener,
    cache::{
        ResultCache,
        tool_schemas::{KnownTool, ToolTable},
    },
};

/// How many visited pages are remembered: the oldest gives way.
const MAX_COMPLETED_IDS: usize = 1024;
/// How long the id of a page may be: a server must not fill the memory with them.
const MAX_ELICITATION_ID_BYTES: usize = 4096;

/// What a caller remembers of its server.
pub(crate) struct ServerState {
    handler: Arc<dyn ClientHandler>,
    state: Mutex<CachedState>,
}

struct CachedState {
    cache: ResultCache,
    tools: ToolTable,
    /// Rises when what was known of a method's results no longer holds: what is under way then
    /// may be old already, and is not kept.
    generations: [u64; METHODS.len()],
    completed: VecDeque<String>,
    waiting: Vec<Waker>,
}

impl ServerState {
    pub(crate) fn new(cache: usize, handler: Arc<dyn ClientHandler>) -> Arc<Self> {
        let state = CachedState {
            cache: ResultCache::new(cache),
            tools: ToolTable::default(),
            generations: [0; METHODS.len()],
            completed: VecDeque::new(),
            waiting: Vec::new(),
        };
        Arc::new(ServerState { handler, state: Mutex::new(state) })
    }

    pub(crate) fn generation(&self, method: Method) -> u64 {
        self.lock().generations[method as usize]
    }

    pub(crate) fn get(&self, method: Method, key: &str, now: Instant) -> Option<Reply> {
        self.lock().cache.get(method, key, now)
    }

    pub(crate) fn insert(
        &self,
        method: Method,
        key: String,
        reply: &Reply,
        generation: u64,
        now: Instant,
    ) {
        let mut state = self.lock();
        if state.generations[method as usize] == generation {
            state.cache.insert(method, key, reply, now);
        }
    }

    /// Takes in a page of tools, and gives back those that may be used.
    pub(crate) fn add_tools(
        &self,
        mut items: Vec<Arc<ToolInfo>>,
        mirrored: bool,
        generation: u64,
    ) -> Vec<Arc<ToolInfo>> {
        items.retain(|info| {
            let earlier = self.lock().tools.get(&info.name).filter(|tool| tool.is(info));
            let tool = earlier.unwrap_or_else(|| KnownTool::new(info.clone(), mirrored));
            let reason = tool.problem();
            if let Some(reason) = reason {
                tracing::warn!(tool = info.name, reason, "a tool cannot be used and is left out");
            }
            let usable = reason.is_none();
            let mut state = self.lock();
            match state.generations[Method::ListTools as usize] == generation {
                true => state.tools.insert(tool),
                false => state.tools.insert_outdated(info),
            }
            usable
        });
        items
    }

    /// What headers must say about these arguments; `None` if there are no headers.
    pub(crate) fn mirrored(
        &self,
        tool: &str,
        arguments: &str,
        mirrors: bool,
    ) -> Result<Option<Mirrored>, Error> {
        if !mirrors {
            return Ok(None);
        }
        let tool = self.lock().tools.get(tool);
        tool.map_or_else(|| Ok(Mirrored::default()), |tool| tool.mirrored(arguments)).map(Some)
    }

    /// Whether the tool runs as a task, by its own account; `None` if nobody listed it.
    pub(crate) fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        self.lock().tools.task_support(tool)
    }

    /// What is known of a tool that was listed.
    pub(crate) fn tool(&self, tool: &str) -> Option<Arc<KnownTool>> {
        self.lock().tools.get(tool)
    }

    /// Completes when the server has said that all of these pages were visited.
    pub(crate) fn completed(
        self: &Arc<Self>,
        names: BTreeSet<String>,
    ) -> impl Future<Output = Result<(), Error>> + Send + use<> {
        let server_state = self.clone();
        poll_fn(move |cx| {
            let mut state = server_state.lock();
            if names.iter().all(|name| state.completed.contains(name)) {
                return Poll::Ready(Ok(()));
            }
            if !state.waiting.iter().any(|waker| waker.will_wake(cx.waker())) {
                state.waiting.push(cx.waker().clone());
            }
            Poll::Pending
        })
    }

    /// Takes note of what the server says, wherever it says it.
    pub(crate) fn on_notification(&self, notification: &Notification) {
        match notification {
            Notification::ToolsChanged => {
                let mut state = self.lock();
                state.invalidate(&[Method::ListTools]);
                state.tools.clear();
            }
            Notification::PromptsChanged => self.lock().invalidate(&[Method::ListPrompts]),
            Notification::ResourcesChanged => {
                self.lock().invalidate(&[Method::ListResources, Method::ListTemplates]);
            }
            // It may be a part of the resource that was read.
            Notification::ResourceUpdated { .. } => self.lock().invalidate(&[Method::ReadResource]),
            Notification::ElicitationComplete { id } => self.elicitation_completed(id),
            _ => {}
        }
    }

    fn elicitation_completed(&self, id: &str) {
        if id.len() > MAX_ELICITATION_ID_BYTES {
            return;
        }
        let mut state = self.lock();
        // The same word may come by more than one way.
        if state.completed.iter().any(|it| it == id) {
            return;
        }
        if state.completed.len() >= MAX_COMPLETED_IDS {
            state.completed.pop_front();
        }
        state.completed.push_back(id.to_owned());
        let waiting = mem::take(&mut state.waiting);
        drop(state);
        waiting.into_iter().for_each(Waker::wake);
        // It is the user's own code, and the link must go on whatever it does.
        if catch_unwind(AssertUnwindSafe(|| self.handler.elicitation_complete(id))).is_err() {
            tracing::error!(id, "hearing that an elicitation is complete panicked");
        }
    }

    fn lock(&self) -> MutexGuard<'_, CachedState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl CachedState {
    fn invalidate(&mut self, methods: &[Method]) {
        for method in methods {
            self.generations[*method as usize] += 1;
            self.cache.invalidate(*method);
        }
    }
}

impl NotificationListener for ServerState {
    fn on_notification(&self, notification: &Notification) {
        self.on_notification(notification);
    }
}
