//! What to do with a server.

use std::env;

use serde::Deserialize;
use serde_json::{Map, Value};

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
#[derive(Debug, Deserialize, PartialEq)]
pub(crate) struct ToolCall {
    pub(crate) name: String,
    #[serde(default)]
    pub(crate) arguments: Map<String, Value>,
}

#[derive(Default, Deserialize)]
struct Situation {
    #[serde(rename = "toolCalls")]
    tool_calls: Option<Vec<ToolCall>>,
}

impl Plan {
    pub(crate) fn from_environment() -> wharf::Result<Plan> {
        let scenario = env::var("MCP_CONFORMANCE_SCENARIO").unwrap_or_default();
        let situation = match env::var("MCP_CONFORMANCE_CONTEXT") {
            Ok(json) => serde_json::from_str(&json)?,
            Err(_) => Situation::default(),
        };
        Ok(Plan::of(&scenario, situation))
    }

    fn of(scenario: &str, situation: Situation) -> Plan {
        match (scenario, situation.tool_calls) {
            (_, Some(calls)) => Plan::Make(calls),
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
        let situation = serde_json::from_str(json).unwrap_or_default();
        let Plan::Make(calls) = Plan::of("http-custom-headers", situation) else {
            panic!("no calls are planned")
        };
        assert_eq!(calls[0].arguments["b"], 1);
        assert_eq!(Plan::of("tools_call", Situation::default()), Plan::UseAll);
    }
}
