//! Validates the structured content of a tool result against the output schema of the tool.

use std::sync::Arc;

use serde_json::Value;
use wharf_model::{Error, ErrorKind, FailureOrigin, JsonText, LazyJson, ToolResult, excerpt};
use wharf_schema::client_output_validator::{OutputValidator, Validity};

use crate::{ClientHandle, cache::tool_schemas::KnownTool, call::total_timeout::IdleTimeout};

/// A schema and a result of at most this many bytes together are checked where the call is polled;
/// larger ones on a blocking thread.
const INLINE_CHECK_BYTES: usize = 4 << 10;

/// Maximum length of an output schema: results are not validated against longer ones.
const MAX_SCHEMA_BYTES: usize = 256 << 10;

/// Validates structured content against the tool's output schema, if the tool was listed, within the rest of the call's idle
/// timeout.
pub(crate) async fn check_output(
    caller: &ClientHandle,
    tool: Option<&str>,
    result: &ToolResult,
    idle: IdleTimeout,
) -> Result<(), Error> {
    let tool = tool.filter(|_| caller.options().validate_output && !result.is_error);
    let Some(known) = tool.and_then(|tool| caller.server_state().tool(tool)) else { return Ok(()) };
    let unchecked = match known.is_checked_inline(result) {
        true => known.check_output(result.structured.as_ref())?,
        false => {
            let structured = result.structured.clone();
            let checked = run_blocking(move || known.check_output(structured.as_ref()));
            idle.within(caller.timer(), checked).await?
        }
    };
    if let (Some(unchecked), Some(tool)) = (unchecked, tool) {
        unchecked.warn(tool);
    }
    Ok(())
}

impl KnownTool {
    /// Returns whether the check of this result is cheap enough to run where the call is polled.
    fn is_checked_inline(&self, result: &ToolResult) -> bool {
        let schema = self.info.output_schema.as_ref().map_or(0, |schema| schema.text().len());
        let result = result.structured.as_ref().map_or(0, |json| json.get().len());
        result == 0 || schema == 0 || schema + result <= INLINE_CHECK_BYTES
    }

    /// Validates a successful result against the tool's output schema. Returns the reason if it was
    /// not checked and that is not yet logged; the caller logs it, because this may run on any
    /// thread.
    fn check_output(
        &self,
        structured: Option<&JsonText>,
    ) -> Result<Option<UncheckedOutput>, Error> {
        let Some(schema) = &self.info.output_schema else { return Ok(None) };
        let mut warning = None;
        let compile = || match compile(schema) {
            Ok(validator) => Some(validator),
            Err(reason) => {
                warning = Some(UncheckedOutput::Results(reason));
                None
            }
        };
        let Some(validator) = self.output.get_or_init(compile) else { return Ok(warning) };
        let problem = match structured {
            None => "- there is no structured content".into(),
            Some(structured) => match validator.validate(structured.get()) {
                Validity::Valid => return Ok(None),
                Validity::Unchecked(reason) => return Ok(Some(UncheckedOutput::Result(reason))),
                Validity::Invalid(problem) => problem,
            },
        };
        let message = format!(
            "The result of `{}` does not match its own output schema:\n{problem}",
            excerpt(&self.info.name)
        );
        let error = Error::new(ErrorKind::OutputSchemaMismatch).with_message(message);
        Err(error.from_client(FailureOrigin::Protocol))
    }
}

/// The reason why a result was not validated against its schema.
enum UncheckedOutput {
    /// No result of the tool can be validated.
    Results(String),
    /// This result cannot be validated.
    Result(String),
}

impl UncheckedOutput {
    fn warn(self, tool: &str) {
        match self {
            UncheckedOutput::Results(reason) => {
                tracing::warn!(tool, reason, "cannot validate results against the output schema");
            }
            UncheckedOutput::Result(reason) => {
                tracing::warn!(tool, reason, "cannot validate a result against the output schema")
            }
        }
    }
}

/// Compiles the schema. Its tree is not built if the text is too long.
fn compile(schema: &LazyJson<Arc<Value>>) -> Result<OutputValidator, String> {
    match schema.text().len() > MAX_SCHEMA_BYTES {
        true => Err(format!("the schema is longer than {MAX_SCHEMA_BYTES} bytes")),
        false => OutputValidator::new(&schema.read()),
    }
}

/// Runs CPU-bound work on a blocking thread, so that timeouts and cancellation of calls still work.
/// If the future is dropped, the work continues until its end, so it must be bounded.
async fn run_blocking<T: Send + 'static>(
    work: impl FnOnce() -> Result<T, Error> + Send + 'static,
) -> Result<T, Error> {
    match tokio::runtime::Handle::try_current() {
        Ok(runtime) => {
            let done = runtime.spawn_blocking(work).await;
            done.unwrap_or_else(|_| {
                Err(Error::new(ErrorKind::InternalError).from_client(FailureOrigin::Protocol))
            })
        }
        Err(_) => work(),
    }
}
