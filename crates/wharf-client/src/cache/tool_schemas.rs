//! The listed tools of a server: headers for their arguments, task support, output validation.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use wharf_model::{Error, ErrorKind, FailureOrigin, HeaderParams, TaskSupport, ToolInfo, excerpt};
use wharf_schema::{
    client_output_validator::OutputValidator, header_annotations, param_headers::ParamHeaders,
};

/// Maximum depth to which schemas are read.
const MAX_SCHEMA_DEPTH: usize = 64;

/// Maximum number of tools: as many as one paginated list reads.
const MAX_TOOLS: usize = 100_000;

/// Maximum size of all tools together, in bytes.
const MAX_TOOL_BYTES: usize = 64 << 20;

/// Table of a server's tools, by name.
#[derive(Default)]
pub(crate) struct ToolTable {
    known: HashMap<String, Arc<KnownTool>>,
    /// Total size of the tools in `known`, in bytes.
    text: usize,
    /// Task support of tools that were listed while the list changed. Everything else about them
    /// may be out of date.
    outdated: HashMap<String, TaskSupport>,
}

/// A listed tool.
pub(crate) struct KnownTool {
    pub(crate) info: Arc<ToolInfo>,
    /// Arguments that are sent as headers, or the reason why the tool cannot be used.
    headers: Result<ParamHeaders, String>,
    /// Compiled on first use; `None` if the schema cannot be checked.
    pub(crate) output: OnceLock<Option<OutputValidator>>,
}

impl ToolTable {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<KnownTool>> {
        self.known.get(name).cloned()
    }

    pub(crate) fn clear(&mut self) {
        *self = ToolTable::default();
    }

    pub(crate) fn insert(&mut self, known: Arc<KnownTool>) {
        let (name, text) = (&known.info.name, known.text());
        if text > MAX_TOOL_BYTES
            || (self.known.len() >= MAX_TOOLS && !self.known.contains_key(name))
        {
            return;
        }
        if self.text + text > MAX_TOOL_BYTES {
            // A server that lists other tools each time must not fill the client's memory.
            self.clear();
        }
        self.text += text;
        if let Some(before) = self.known.insert(name.clone(), known) {
            self.text -= before.text();
        }
    }

    /// Records the task support of a tool from a list that may be out of date.
    pub(crate) fn insert_outdated(&mut self, info: &ToolInfo) {
        if self.outdated.len() < MAX_TOOLS {
            self.outdated.insert(info.name.clone(), task_support(info));
        }
    }

    /// The tool's task support, from a current or an outdated list.
    pub(crate) fn task_support(&self, name: &str) -> Option<TaskSupport> {
        let known = self.known.get(name).map(|known| task_support(&known.info));
        known.or_else(|| self.outdated.get(name).cloned())
    }
}

/// Returns whether a schema's text may contain `x-mcp-header` annotations, escaped or not.
fn may_be_mirrored(schema: &str) -> bool {
    schema.contains(header_annotations::ANNOTATION) || schema.contains('\\')
}

/// Returns whether the tool's annotations declare it safe to call again.
pub(crate) fn is_repeatable(info: &ToolInfo) -> bool {
    info.annotations.as_ref().is_some_and(|hints| {
        hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)
    })
}

/// The task support that a tool declares.
pub(crate) fn task_support(info: &ToolInfo) -> TaskSupport {
    let declared = info.execution.as_ref().and_then(|it| it.task_support.clone());
    declared.unwrap_or(TaskSupport::Forbidden)
}

impl KnownTool {
    /// `mirrored`: the transport sends `Mcp-Param-*` headers, so annotations matter.
    pub(crate) fn new(info: Arc<ToolInfo>, mirrored: bool) -> Arc<Self> {
        let headers = match mirrored && may_be_mirrored(&info.input_schema.text()) {
            true => {
                // Parsed once and not stored: a list may have many schemas.
                let schema = info.input_schema.read();
                match header_annotations::problems(&schema, MAX_SCHEMA_DEPTH).into_iter().next() {
                    Some(problem) => Err(problem),
                    None => Ok(ParamHeaders::of(&schema, MAX_SCHEMA_DEPTH)),
                }
            }
            false => Ok(ParamHeaders::default()),
        };
        Arc::new(KnownTool { info, headers, output: OnceLock::new() })
    }

    pub(crate) fn is(&self, info: &Arc<ToolInfo>) -> bool {
        Arc::ptr_eq(&self.info, info)
    }

    /// The reason why the tool must not be used, if any.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.headers.as_ref().err().map(String::as_str)
    }

    pub(crate) fn mirrored(&self, arguments: &str) -> Result<HeaderParams, Error> {
        let refused = |problem: &String| {
            let name = excerpt(&self.info.name);
            let message = format!("The tool `{name}` cannot be called over HTTP: {problem}");
            Error::new(ErrorKind::ToolSchemaInvalid)
                .with_message(message)
                .from_client(FailureOrigin::Protocol)
        };
        let headers = self.headers.as_ref().map_err(refused)?;
        let invalid = |problem| {
            let error = Error::new(ErrorKind::InvalidParams).with_message(problem);
            error.from_client(FailureOrigin::Usage)
        };
        headers.values_for(arguments).map_err(invalid)
    }

    /// Returns whether the tool's annotations declare it safe to call again.
    pub(crate) fn is_repeatable(&self) -> bool {
        is_repeatable(&self.info)
    }

    /// The size of the tool's strings and JSON, in bytes.
    fn text(&self) -> usize {
        let info = &self.info;
        let output = info.output_schema.as_ref().map_or(0, |schema| schema.text().len());
        let meta = info.meta.as_ref().map_or(0, |meta| meta.text().len());
        let strings = [&info.title, &info.description].into_iter().flatten().map(String::len);
        let strings = strings.sum::<usize>() + info.name.len() + info.icons.text().len();
        info.input_schema.text().len() + output + meta + strings
    }
}
