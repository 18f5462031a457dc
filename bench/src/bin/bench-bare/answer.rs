//! Handles one message.

use bench::work::{NOTIFICATIONS, prime_factors};
use serde::Serialize;
use serde_json::value::RawValue;
use serde_json::{Value, json};

use crate::Fallible;
use crate::messages::{AddArgs, Call, EchoArgs, Message, Number, NumberArgs, Reply, ToolResult};

pub(crate) enum Answer {
    Reply(Vec<u8>),
    /// Reply to `initialize`, which starts a session.
    SessionStart(Vec<u8>),
    /// No reply: the message is a notification.
    Accepted,
    /// Progress notifications, then the reply.
    Progress(Progress, Vec<u8>),
    /// Reply after two delays.
    Waiting(Vec<u8>),
    Invalid,
}

/// Progress notifications of one call.
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

/// Creates the replies, with tool lists that are rendered in advance.
pub(crate) struct Responder {
    tools: String,
    modern_tools: String,
}

/// Constant results by method.
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

impl Responder {
    /// Renders the tool lists; `extra` is the number of generated tools.
    pub(crate) fn new(extra: usize) -> Fallible<Self> {
        let tools = tools(extra);
        let modern = json!({
            "resultType": "complete", "tools": tools, "ttlMs": 0, "cacheScope": "public",
        });
        Ok(Responder {
            tools: json!({ "tools": tools }).to_string(),
            modern_tools: modern.to_string(),
        })
    }

    pub(crate) fn answer(&self, message: &[u8]) -> Answer {
        let Ok(message) = serde_json::from_slice::<Message>(message) else {
            return Answer::Invalid;
        };
        let Some(id) = message.id else { return Answer::Accepted };
        let answer = match &*message.method {
            "tools/call" => call(id, message.params),
            "tools/list" => Some(Answer::Reply(wrap_result(id, self.list(message.params)))),
            "initialize" => Some(Answer::SessionStart(wrap_result(id, INITIALIZED))),
            method => {
                let known = RESULTS.iter().find(|(name, _)| *name == method);
                known.map(|(_, result)| Answer::Reply(wrap_result(id, result)))
            }
        };
        answer.unwrap_or_else(|| Answer::Reply(error_reply(id, &message.method)))
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
        serialize_reply(id, &ToolResult::new(&text, Some(number), modern), text.len())
    };
    let args = || serde_json::from_str::<NumberArgs>(arguments).ok().map(|args| args.n);
    Some(match &*call.name {
        "echo" => {
            let args: EchoArgs = serde_json::from_str(arguments).ok()?;
            Answer::Reply(serialize_reply(
                id,
                &ToolResult::new(&args.text, None, modern),
                args.text.len(),
            ))
        }
        "add" => {
            let args: AddArgs = serde_json::from_str(arguments).ok()?;
            Answer::Reply(structured(args.a + args.b))
        }
        "noop" => Answer::Reply(structured(args()?)),
        "compute" => Answer::Reply(structured(factors(args()?))),
        "io" => Answer::Waiting(structured(factors(args()?))),
        "progress" => {
            let token = call.meta.and_then(|meta| meta.progress_token).unwrap_or(id).to_owned();
            let reply = serialize_reply(id, &ToolResult::new("done", None, modern), 4);
            Answer::Progress(Progress { token }, reply)
        }
        _ => return None,
    })
}

fn factors(n: i64) -> i64 {
    prime_factors(n.unsigned_abs()).cast_signed()
}

/// Serializes a reply; `text` is the length of its variable part.
fn serialize_reply(id: &RawValue, result: &impl Serialize, text: usize) -> Vec<u8> {
    let mut reply = Vec::with_capacity(text + 160);
    // Writing into a vector cannot fail, nor can these types.
    let _ = serde_json::to_writer(&mut reply, &Reply::new(id, result));
    reply
}

/// Reply with an already serialized result.
fn wrap_result(id: &RawValue, result: &str) -> Vec<u8> {
    let parts = [r#"{"jsonrpc":"2.0","id":"#, id.get(), r#","result":"#, result, "}"];
    parts.concat().into_bytes()
}

fn error_reply(id: &RawValue, method: &str) -> Vec<u8> {
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
    let add_args = json!({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "integer"}}, "required": ["a", "b"]});
    let number_args =
        json!({"type": "object", "properties": {"n": {"type": "integer"}}, "required": ["n"]});
    let result = json!({"type": "object", "properties": {"result": {"type": "integer"}}, "required": ["result"]});
    let plain = |name: &str, about: &str, input: &Value| json!({"name": name, "description": about, "inputSchema": input});
    let structured = |name: &str, about: &str, input: &Value| json!({"name": name, "description": about, "inputSchema": input, "outputSchema": result});
    let mut tools = vec![
        plain("echo", "Returns its text.", &text),
        structured("add", "Adds two numbers.", &add_args),
        plain("progress", "Sends a hundred notifications.", &json!({"type": "object"})),
        structured("noop", "Returns the number.", &number_args),
        structured("compute", "Counts prime factors.", &number_args),
        structured("io", "Counts prime factors between two waits.", &number_args),
    ];
    tools.extend(
        (0..extra)
            .map(|i| plain(&format!("tool_{i}"), &format!("Generated tool number {i}"), &text)),
    );
    tools
}
