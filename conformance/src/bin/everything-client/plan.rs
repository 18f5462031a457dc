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
    /// Nothing: the server of the scenario serves lists only.
    ListOnly,
    /// Give one tool the schema of another.
    EchoSchema { of: &'static str, to: &'static str },
}

/// A call that the suite wants to be made exactly so.
#[derive(Clone, Debug, Deserialize, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

/// What the suite says: the scenario's name, and what belongs to it.
#[derive(Default, Deserialize)]
pub(crate) struct Situation {
    #[serde(skip)]
    scenario: String,
    #[serde(default, rename = "toolCalls")]
    tool_calls: Option<Vec<ToolCall>>,
    #[serde(flatten)]
    pub(crate) given: Given,
}

impl Situation {
    pub(crate) fn from_environment() -> wharf::Result<Situation> {
        let situation = match env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(json) => serde_json::from_str(&json)?,
            Err(_) => Situation::default(),
        };
        let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
        Ok(Situation { scenario, ..situation })
    }
}

impl Plan {
    pub(crate) fn of(situation: &Situation) -> Plan {
        match (situation.scenario.as_str(), &situation.tool_calls) {
            (_, Some(calls)) => Plan::Make(calls.clone()),
            ("json-schema-ref-no-deref", _) => Plan::ListOnly,
            ("json-schema-2020-12-preservation", _) => {
                Plan::EchoSchema { of: "json_schema_2020_12_tool", to: "json_schema_echo" }
            }
            _ => Plan::UseAll,
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
