//! What is known of a server's tools.

use std::{
    collections::HashMap,
    sync::{Arc, OnceLock},
};

use wharf_model::{Error, ErrorKind, Mirrored, TaskSupport, ToolInfo, ToolResult, excerpt};
use wharf_schema::{
    header,
    mirror::Mirrors,
    output::{Checker, Verdict},
};

/// How deep schemas are looked into.
const DEPTH: usize = 64;

/// How many tools are remembered: as many as a listing reads.
const MOST: usize = 100_000;

/// What is known of a server's tools, by name.
#[derive(Default)]
pub(crate) struct Tools(HashMap<String, Arc<Known>>);

/// One tool that was listed.
pub(crate) struct Known {
    info: Arc<ToolInfo>,
    /// What must stand in headers too; why the tool cannot be used if nobody can tell.
    mirrors: Result<Mirrors, String>,
    /// Compiled when first needed; `None` if it cannot be checked.
    output: OnceLock<Option<Checker>>,
}

impl Tools {
    pub(crate) fn get(&self, name: &str) -> Option<Arc<Known>> {
        self.0.get(name).cloned()
    }

    pub(crate) fn clear(&mut self) {
        self.0.clear();
    }

    pub(crate) fn insert(&mut self, known: Arc<Known>) {
        let name = &known.info.name;
        if self.0.len() < MOST || self.0.contains_key(name) {
            self.0.insert(name.clone(), known);
        }
    }
}

/// Whether a tool runs as a task, by its own account.
pub(crate) fn task_support(info: &ToolInfo) -> TaskSupport {
    let said = info.execution.as_ref().and_then(|it| it.task_support.clone());
    said.unwrap_or(TaskSupport::Forbidden)
}

impl Known {
    /// `mirrored`: whether the link mirrors arguments, so that annotations matter.
    pub(crate) fn new(info: Arc<ToolInfo>, mirrored: bool) -> Arc<Self> {
        let mirrors = match mirrored {
            true => match header::problems(&info.input_schema, DEPTH).into_iter().next() {
                Some(problem) => Err(problem),
                None => Ok(Mirrors::of(&info.input_schema, DEPTH)),
            },
            false => Ok(Mirrors::default()),
        };
        Arc::new(Known { info, mirrors, output: OnceLock::new() })
    }

    pub(crate) fn is(&self, info: &Arc<ToolInfo>) -> bool {
        Arc::ptr_eq(&self.info, info)
    }

    /// Why it must not be used, if so.
    pub(crate) fn problem(&self) -> Option<&str> {
        self.mirrors.as_ref().err().map(String::as_str)
    }

    pub(crate) fn mirrored(&self, arguments: &str) -> Result<Mirrored, Error> {
        let refused = |problem: &String| {
            let name = excerpt(&self.info.name);
            let message = format!("The tool `{name}` cannot be called over HTTP: {problem}");
            Error::new(ErrorKind::ToolSchemaInvalid).with_message(message)
        };
        let mirrors = self.mirrors.as_ref().map_err(refused)?;
        let invalid = |problem| Error::new(ErrorKind::InvalidParams).with_message(problem);
        mirrors.read(arguments).map_err(invalid)
    }

    /// Whether calling it again does no harm, by its own account.
    pub(crate) fn is_repeatable(&self) -> bool {
        self.info.annotations.as_ref().is_some_and(|hints| {
            hints.read_only_hint == Some(true) || hints.idempotent_hint == Some(true)
        })
    }

    /// Whether it runs as a task, by its own account.
    pub(crate) fn task_support(&self) -> TaskSupport {
        task_support(&self.info)
    }

    pub(crate) fn check_output(&self, result: &ToolResult) -> Result<(), Error> {
        let (Some(schema), false) = (&self.info.output_schema, result.is_error) else {
            return Ok(());
        };
        let tool = &*self.info.name;
        let compile = || match Checker::new(schema) {
            Ok(checker) => Some(checker),
            Err(reason) => {
                tracing::warn!(tool, reason, "results are not checked against the output schema");
                None
            }
        };
        let Some(checker) = self.output.get_or_init(compile) else { return Ok(()) };
        let problem = match &result.structured {
            None => "- there is no structured content".into(),
            Some(structured) => match checker.check(structured.get()) {
                Verdict::Fits => return Ok(()),
                Verdict::Unchecked(reason) => {
                    tracing::warn!(tool, reason, "a result was not checked");
                    return Ok(());
                }
                Verdict::Misfit(problem) => problem,
            },
        };
        let message = format!(
            "The result of `{}` does not match its own output schema:\n{problem}",
            excerpt(tool)
        );
        Err(Error::new(ErrorKind::OutputSchemaMismatch).with_message(message))
    }
}
