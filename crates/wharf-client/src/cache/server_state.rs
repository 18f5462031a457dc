//! Cached state of the server: results, tools and completed elicitations, invalidated by
//! notifications.

use std::{
    collections::VecDeque,
    sync::{Arc, MutexGuard},
    task::Waker,
    time::Instant,
};

use wharf_model::{Error, HeaderParams, Lock, METHODS, Method, Reply, TaskSupport, ToolInfo};

use crate::{
    ClientHandler,
    cache::{
        results::ResultCache,
        tool_schemas::{KnownTool, ToolTable},
    },
};
/// Cached state of one server, updated by its notifications.
pub(crate) struct ServerState {
    pub(super) handler: Arc<dyn ClientHandler>,
    state: Lock<CachedState>,
}

pub(super) struct CachedState {
    pub(super) cache: ResultCache,
    pub(super) tools: ToolTable,
    /// Incremented when the results of a method are invalidated. A result that was requested before
    /// may be out of date, and is not cached.
    pub(super) generations: [u64; METHODS.len()],
    pub(super) completed: VecDeque<String>,
    pub(super) waiting: Vec<Waker>,
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
        Arc::new(ServerState { handler, state: Lock::new(state) })
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

    pub(super) fn lock(&self) -> MutexGuard<'_, CachedState> {
        self.state.lock()
    }
}
