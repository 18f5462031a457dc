//! Cached state of the server: results, tools and completed elicitations, invalidated by
//! notifications.

use std::{
    collections::{BTreeSet, VecDeque},
    future::poll_fn,
    mem,
    panic::{AssertUnwindSafe, catch_unwind},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Poll, Waker},
    time::Instant,
};

use wharf_model::{
    CustomNotification, Error, HeaderParams, METHODS, Method, Notification, Reply, TaskSupport,
    ToolInfo,
};

use crate::{
    ClientHandler, NotificationListener,
    cache::{
        ResultCache,
        tool_schemas::{KnownTool, ToolTable},
    },
};

/// Number of completed elicitation ids that are remembered: the oldest is dropped.
const MAX_COMPLETED_IDS: usize = 1024;
/// Maximum length of an elicitation id: a server must not fill the client's memory with them.
const MAX_ELICITATION_ID_BYTES: usize = 4096;

/// Cached state of one server, updated by its notifications.
pub(crate) struct ServerState {
    handler: Arc<dyn ClientHandler>,
    state: Mutex<CachedState>,
}

struct CachedState {
    cache: ResultCache,
    tools: ToolTable,
    /// Incremented when the results of a method are invalidated. A result that was requested before
    /// may be out of date, and is not cached.
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

    /// Adds a page of tools, and returns the usable ones.
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
                tracing::warn!(tool = info.name, reason, "ignored a tool that cannot be used");
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

    /// The `Mcp-Param-*` headers for these arguments; `None` if the transport sends none.
    pub(crate) fn mirrored(
        &self,
        tool: &str,
        arguments: &str,
        mirrors: bool,
    ) -> Result<Option<HeaderParams>, Error> {
        if !mirrors {
            return Ok(None);
        }
        let tool = self.lock().tools.get(tool);
        tool.map_or_else(|| Ok(HeaderParams::default()), |tool| tool.mirrored(arguments)).map(Some)
    }

    /// The tool's declared task support; `None` if the tool was not listed.
    pub(crate) fn task_support(&self, tool: &str) -> Option<TaskSupport> {
        self.lock().tools.task_support(tool)
    }

    /// The tool's entry, if the tool was listed.
    pub(crate) fn tool(&self, tool: &str) -> Option<Arc<KnownTool>> {
        self.lock().tools.get(tool)
    }

    /// Completes when the server has sent `notifications/elicitation/complete` for all of these
    /// ids.
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

    /// Handles a notification, on any stream.
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
            // The updated resource may be a part of the one that was read.
            Notification::ResourceUpdated { .. } => self.lock().invalidate(&[Method::ReadResource]),
            Notification::ElicitationComplete { id } => self.elicitation_completed(id),
            Notification::Custom(it) => self.custom(it),
            Notification::Progress { .. }
            | Notification::Log { .. }
            | Notification::Acknowledged(_)
            | Notification::Task(_)
            | Notification::TaskProgress { .. } => {}
        }
    }

    fn custom(&self, it: &CustomNotification) {
        if catch_unwind(AssertUnwindSafe(|| self.handler.notification(it))).is_err() {
            tracing::error!(method = it.method, "the handler of a notification panicked");
        }
    }

    fn elicitation_completed(&self, id: &str) {
        if id.len() > MAX_ELICITATION_ID_BYTES {
            return;
        }
        let mut state = self.lock();
        // The same notification may arrive on more than one stream.
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
        // The handler is user code: its panics must not stop the transport.
        if catch_unwind(AssertUnwindSafe(|| self.handler.elicitation_complete(id))).is_err() {
            tracing::error!(id, "the handler panicked in `elicitation_complete`");
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
