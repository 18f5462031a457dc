//! Calls to make, from the suite's context.

use std::env;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::SuiteCredentials;

/// Calls to make in addition to listing everything.
#[derive(Debug, PartialEq)]
pub(crate) enum CallPlan {
    /// Use every listed tool, resource and prompt.
    Everything,
    /// Make only these calls.
    Calls(Vec<ToolCall>),
}

/// Tool call that the suite specifies.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

/// Context that the suite passes in an environment variable.
#[derive(Default, Deserialize)]
pub(crate) struct SuiteContext {
    #[serde(default, rename = "toolCalls")]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(flatten)]
    pub(crate) credentials: SuiteCredentials,
}

impl SuiteContext {
    pub(crate) fn from_environment() -> wharf::Result<SuiteContext> {
        match env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(json) => Ok(serde_json::from_str(&json)?),
            Err(_) => Ok(SuiteContext::default()),
        }
    }
}

impl CallPlan {
    pub(crate) fn of(suite_context: &SuiteContext) -> CallPlan {
        match &suite_context.tool_calls {
            Some(calls) => CallPlan::Calls(calls.clone()),
            None => CallPlan::Everything,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_of_the_suite_replace_the_default_plan() {
        let json = r#"{"name": "x", "toolCalls": [{"name": "a", "arguments": {"b": 1}}]}"#;
        let suite_context: SuiteContext = serde_json::from_str(json).unwrap_or_default();
        let CallPlan::Calls(calls) = CallPlan::of(&suite_context) else {
            panic!("no calls are planned")
        };
        assert_eq!(calls[0].arguments["b"], 1);
        assert_eq!(CallPlan::of(&SuiteContext::default()), CallPlan::Everything);
    }
}
