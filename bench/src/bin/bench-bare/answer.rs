//! From one message to its answer.

use bench::work::{NOTIFICATIONS, prime_factors};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Fallible;
use crate::messages::{Call, Given, Message, Number, Reply, Said, Terms, ToolResult};

pub(crate) enum Answer {
    Reply(Vec<u8>),
    /// The reply to `initialize`: a session begins.
    Negotiation(Vec<u8>),
    /// For notifications.
    Nothing,
    /// Notifications, then the reply.
    Progress(Progress, Vec<u8>),
    /// The reply, between two waits.
    Waiting(Vec<u8>),
    Unreadable,
}

/// The notifications of one call.
pub(crate) struct Progress {
    token: Box<RawValue>,
}

impl Progress {
    pub(crate) fn notifications(&self) -> impl Iterator<Item = String> {
        (1..=NOTIFICATIONS).map(|done| {
            let token = self.token.get();
            format!(
                r#"{{"jsonrpc":"2.0","method":"notifications/progress","params":{{"progressToken":{token},"progress":{done},"total":{NOTIFICATIONS}}}}}"#
            )
        })
    }
}

/// What is known before the first message comes.
pub(crate) struct Answers {
    tools: String,
    modern_tools: String,
}

/// Results that are always the same.
const RESULTS: [(&str, &str); 6] = [
    ("ping", "{}"),
    (
        "server/discover",
        r#"{"resultType":"complete","supportedVersions":["2026-07-28","2025-11-25"],"capabilities":{"tools":{},"resources":{},"prompts":{}},"ttlMs":0,"cacheScope":"public","_meta":{"io.modelcontextprotocol/serverInfo":{"name":"bare","version":"0.1.0"}}}"#,
    ),
    (
        "resources/list",
        r#"{"resources":[{"uri":"mem://static","name":"static","mimeType":"text/plain"}]}"#,
    ),
    (
        "resources/read",
        r#"{"contents":[{"uri":"mem://static","mimeType":"text/plain","text":"static"}]}"#,
    ),
    ("prompts/list", r#"{"prompts":[{"name":"hello"}]}"#),
    ("prompts/get", r#"{"messages":[{"role":"user","content":{"type":"text","text":"hello"}}]}"#),
];

const INITIALIZED: &str = r#"{"protocolVersion":"2025-11-25","capabilities":{"tools":{},"resources":{},"prompts":{}},"serverInfo":{"name":"bare","version":"0.1.0"}}"#;

impl Answers {
    /// `extra` tools beside the usual ones.
    pub(crate) fn new(extra: usize) -> Fallible<Self> {
        let tools = tools(extra);
        let modern = json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public",
        });
        Ok(Answers {
            tools: json!({ "tools": tools }).to_string(),
            modern_tools: modern.to_string(),
        })
    }

    pub(crate) fn answer(&self, message: &[u8]) -> Answer {
        let Ok(message) = serde_json::from_slice::<Message>(message) else {
            return Answer::Unreadable;
        };
        let Some(id) = message.id else { return Answer::Nothing };
        let answer = match &*message.method {
            "tools/call" => call(id, message.params),
            "tools/list" => Some(Answer::Reply(around(id, self.list(message.params)))),
            "initialize" => Some(Answer::Negotiation(around(id, INITIALIZED))),
            method => {
                let known = RESULTS.iter().find(|(name, _)| *name == method);
                known.map(|(_, result)| Answer::Reply(around(id, result)))
            }
        };
        answer.unwrap_or_else(|| Answer::Reply(refusal(id, &message.method)))
    }

    fn list(&self, params: Option<&RawValue>) -> &str {
        #[derive(serde::Deserialize)]
        struct Params<'a> {
            #[serde(borrow, rename = "_meta")]
            meta: Option<crate::messages::Meta<'a>>,
        }
        let params = params.and_then(|params| serde_json::from_str::<Params>(params.get()).ok());
        let modern =
            params.and_then(|params| params.meta).is_some_and(|meta| meta.version.is_some());
        if modern { &self.modern_tools } else { &self.tools }
    }
}

fn call(id: &RawValue, params: Option<&RawValue>) -> Option<Answer> {
    let call: Call = serde_json::from_str(params?.get()).ok()?;
    let arguments = call.arguments.map_or("{}", RawValue::get);
    let modern = call.meta.as_ref().is_some_and(|meta| meta.version.is_some());
    let structured = |result: i64| {
        let number = Number { result };
        let text = serde_json::to_string(&number).unwrap_or_default();
        written(id, &ToolResult::new(&text, Some(number), modern), text.len())
    };
    let given = || serde_json::from_str::<Given>(arguments).ok().map(|given| given.n);
    Some(match &*call.name {
        "echo" => {
            let said: Said = serde_json::from_str(arguments).ok()?;
            Answer::Reply(written(id, &ToolResult::new(&said.text, None, modern), said.text.len()))
        }
        "add" => {
            let terms: Terms = serde_json::from_str(arguments).ok()?;
            Answer::Reply(structured(terms.a + terms.b))
        }
        "noop" => Answer::Reply(structured(given()?)),
        "compute" => Answer::Reply(structured(factors(given()?))),
        "io" => Answer::Waiting(structured(factors(given()?))),
        "progress" => {
            let token = call.meta.and_then(|meta| meta.progress_token).unwrap_or(id).to_owned();
            let reply = written(id, &ToolResult::new("done", None, modern), 4);
            Answer::Progress(Progress { token }, reply)
        }
        _ => return None,
    })
}

fn factors(n: i64) -> i64 {
    prime_factors(n.unsigned_abs()).cast_signed()
}

/// A reply, serialized; `text` is the length of what is not always there.
fn written(id: &RawValue, result: &impl Serialize, text: usize) -> Vec<u8> {
    let mut reply = Vec::with_capacity(text + 160);
    // Writing into a vector cannot fail, nor can these types.
    let _ = serde_json::to_writer(&mut reply, &Reply::new(id, result));
    reply
}

/// A reply around a result that is ready.
fn around(id: &RawValue, result: &str) -> Vec<u8> {
    let parts = [r#"{"jsonrpc":"2.0","id":"#, id.get(), r#","result":"#, result, "}"];
    parts.concat().into_bytes()
}

fn refusal(id: &RawValue, method: &str) -> Vec<u8> {
    let (code, message) = match method {
        "tools/call" => (-32602, "unknown tool or wrong arguments"),
        _ => (-32601, "unknown method"),
    };
    let error = json!({"jsonrpc": "2.0", "id": id, "error": {"code": code, "message": message}});
    error.to_string().into_bytes()
}

fn tools(extra: usize) -> Vec<Value> {
    let text =
        json!({"type": "object", "properties": {"text": {"type": "string"}}, "required": ["text"]});
    let terms = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]});
    let given =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let result = json!({"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]});
    let plain = |name: &str, about: &str, input: &Value| json!({"name": name, "description": about, "inputSchema": input});
    let structured = |name: &str, about: &str, input: &Value| json!({"name": name, "description": about, "inputSchema": input, "outputSchema": result});
    let mut tools = vec![
        plain("echo", "Says what it hears.", &text),
        structured("add", "Adds two numbers.", &terms),
        plain("progress", "Sends a hundred notifications.", &json!({"type": "object"})),
        structured("noop", "Gives the number back.", &given),
        structured("compute", "Counts prime factors.", &given),
        structured("io", "Counts prime factors between two waits.", &given),
    ];
    tools.extend(
        (0..extra)
            .map(|i| plain(&format!("tool_{i}"), &format!("Generated tool number {i}"), &text)),
    );
    tools
}
