//! What to do with a server.

use std::env;

use serde::Deserialize;
use serde_json::{Map, Value};

use crate::auth::Given;

/// What to do beyond listing everything.
#[derive(Debug, PartialEq)]
pub(crate) enum Plan {
    /// Call, read and get all that is listed.
    UseAll,
    /// Make these calls, and no others.
    Make(Vec<ToolCall>),
}

/// A call that the suite wants to be made exactly so.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

/// What the suite gives along.
#[derive(Default, Deserialize)]
pub(crate) struct Situation {
    #[serde(default, rename = "toolCalls")]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(flatten)]
    pub(crate) given: Given,
}

impl Situation {
    pub(crate) fn from_environment() -> wharf::Result<Situation> {
        match env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(json) => Ok(serde_json::from_str(&json)?),
            Err(_) => Ok(Situation::default()),
        }
    }
}

impl Plan {
    pub(crate) fn of(situation: &Situation) -> Plan {
        match &situation.tool_calls {
            Some(calls) => Plan::Make(calls.clone()),
            None => Plan::UseAll,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_that_are_asked_for_go_before_everything_else() {
        let json = r#"{"name": "x", "toolCalls": [{"name": "a", "arguments": {"b": 1}}]}"#;
        let situation: Situation = serde_json::from_str(json).unwrap_or_default();
        let Plan::Make(calls) = Plan::of(&situation) else { panic!("no calls are planned") };
        assert_eq!(calls[0].arguments["b"], 1);
        assert_eq!(Plan::of(&Situation::default()), Plan::UseAll);
    }
}
