//! Problems of schemas that the application wrote by hand.

use serde_json::Value;
use wharf_schema::schema_problems::{self, SchemaLimits, SchemaProblem};

use crate::limits::CallLimits;

/// Returns the problems of a hand-written schema, each with advice.
pub(crate) fn problems(schema: &Value, limits: &CallLimits) -> Vec<String> {
    let limits = SchemaLimits::new(limits.schema_depth, limits.subschemas);
    let describe = |problem: SchemaProblem| match advice(&problem) {
        Some(advice) => format!("{problem}: {advice}"),
        None => problem.to_string(),
    };
    schema_problems::problems(schema, limits).into_iter().map(describe).collect()
}

fn advice(problem: &SchemaProblem) -> Option<&'static str> {
    Some(match problem {
        SchemaProblem::TooManySubschemas(_) => "make it smaller, or raise `CallLimits::subschemas`",
        SchemaProblem::TooDeep(_) => "reduce its nesting, or raise `CallLimits::schema_depth`",
        SchemaProblem::UnsupportedDialect(_) => {
            "use JSON Schema 2020-12, 2019-09, draft-07, draft-06 or draft-04"
        }
        SchemaProblem::RemoteReference(_) => "copy the referenced schema into `$defs`",
        SchemaProblem::UriTooLong(_) => "use shorter names",
        _ => return None,
    })
}
