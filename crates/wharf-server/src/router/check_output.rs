//! Validates the results of tools against their output schemas.

use std::sync::Arc;

use wharf_model::{BoxFuture, Error, ErrorKind, Outcome, Reply, ToolInfo, printable};

use crate::router::catalog::CatalogEntry;

/// Validates results against a hand-written output schema.
pub(crate) fn check_output(
    call: BoxFuture<Outcome>,
    tool: Arc<CatalogEntry<ToolInfo>>,
) -> BoxFuture<Outcome> {
    Box::pin(async move {
        let outcome = call.await;
        let (Outcome::Complete(Reply::Tool(result)), Some(validator)) =
            (&outcome, &tool.extra.results)
        else {
            return outcome;
        };
        if result.is_error {
            return outcome;
        }
        let problem = match &result.structured {
            None => Some("there is no structured content".into()),
            Some(json) => validator.check_json(json.get(), usize::MAX).err(),
        };
        let Some(problem) = problem else { return outcome };
        let (tool, problem) = (&tool.info.name, printable(&problem));
        tracing::error!(tool, problem, "rejected a result that does not match its output schema");
        Error::new(ErrorKind::OutputSchemaMismatch).into()
    })
}
