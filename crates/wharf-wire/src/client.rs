//! The client's direction: calls out, results and notifications in.

use std::sync::Arc;

use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Value, value::RawValue};
use wharf_model::{
    Ask, CacheHint, ClientCapabilities, Discovery, Error, ErrorKind, Implementation, InputRequired,
    LogLevel, Meta, Method, Notification, Outcome, Page, PageBody, PromptResult, ReadResult, Reply,
    Request, ToolResult,
};

use crate::{
    CallId, Revision,
    codec::SUBSCRIPTION_ID,
    encode::SERVER_INFO,
    members, scan,
    text::{self, Object},
};

const VERSION: &str = "io.modelcontextprotocol/protocolVersion";
const CAPABILITIES: &str = "io.modelcontextprotocol/clientCapabilities";
const CLIENT: &str = "io.modelcontextprotocol/clientInfo";
const LEVEL: &str = "io.modelcontextprotocol/logLevel";

/// What a client says about itself.
#[derive(Clone, Debug, Default)]
pub struct ClientSelf {
    /// Its name and version.
    pub info: Implementation,
    /// What it can do.
    pub capabilities: ClientCapabilities,
}

/// Writes a call; false if the revision has none such, and nothing is written.
///
/// ```
/// use wharf_model::{Method, RequestBuilder};
/// use wharf_wire::{CallId, ClientSelf, Revision, encode_call};
///
/// let request = RequestBuilder::new(Method::CallTool).target("add").build();
/// let mut out = Vec::new();
/// let id = CallId::from(7);
/// assert!(encode_call(&request, &id, Revision::NEWEST_LEGACY, &ClientSelf::default(), &mut out));
/// assert_eq!(out, br#"{"jsonrpc":"2.0","id":7,"method":"tools/call","params":{"name":"add"}}"#);
/// ```
pub fn encode_call(
    request: &Request,
    id: &CallId,
    revision: Revision,
    client: &ClientSelf,
    out: &mut Vec<u8>,
) -> bool {
    let modern = revision.is_modern();
    let method = match request.method {
        Method::Listen if !modern => return false,
        Method::Discover if !modern => "initialize",
        method => method.name(),
    };
    let mut message = Object::open(out);
    message.plain("jsonrpc", "\"2.0\"");
    message.plain("id", id.as_json());
    message.text("method", method);
    let mut params = message.object("params");
    let mut has_filter = false;
    let _ = scan::each_member(request.params(), |key, value| {
        let plain = members::unquote(key).unwrap_or_default();
        has_filter |= plain == "notifications";
        let unknown = !modern && matches!(&*plain, "inputResponses" | "requestState");
        if plain != "_meta" && !unknown {
            text::raw(params.any_key(&plain), value);
        }
    });
    if let Some(filter) = request.filter.as_ref().filter(|_| !has_filter) {
        filter.read(|filter| params.json("notifications", filter));
    }
    if method == "initialize" {
        params.text("protocolVersion", revision.as_str());
        params.json("capabilities", &client.capabilities);
        params.json("clientInfo", &client.info);
    }
    write_call_meta(&mut params, request, id, revision, client);
    params.close();
    message.close();
    true
}

fn write_call_meta(
    params: &mut Object<'_>,
    request: &Request,
    id: &CallId,
    revision: Revision,
    client: &ClientSelf,
) {
    let own = [VERSION, CAPABILITIES, CLIENT, LEVEL];
    let modern = revision.is_modern();
    if !modern && request.meta().is_none() && !request.progress {
        return;
    }
    let mut meta = params.object("_meta");
    let mut has_token = false;
    let _ = scan::each_member(request.meta().unwrap_or("{}"), |key, value| {
        let plain = members::unquote(key).unwrap_or_default();
        has_token |= plain == "progressToken";
        if !own.contains(&&*plain) {
            text::raw(meta.any_key(&plain), value);
        }
    });
    if request.progress && !has_token {
        meta.plain("progressToken", id.as_json());
    }
    if modern {
        meta.text(VERSION, revision.as_str());
        meta.json(CAPABILITIES, &client.capabilities);
        meta.json(CLIENT, &client.info);
        if let Some(level) = request.log_level {
            meta.text(LEVEL, level.as_str());
        }
    }
    meta.close();
}

/// Reads the result of a call of `method`: by the method that was asked, never by its looks.
///
/// # Errors
/// If the text is no result of this method, or of a kind that nobody knows.
pub fn decode_result(method: Method, revision: Revision, result: &str) -> Result<Outcome, Error> {
    #[derive(Deserialize)]
    struct Head {
        #[serde(rename = "resultType")]
        kind: Option<String>,
    }
    let kind = match revision.is_modern() {
        true => read::<Head>(method, result)?.kind,
        false => None,
    };
    match kind.as_deref() {
        None | Some("complete") => complete(method, revision, result).map(Outcome::Complete),
        Some("input_required") if method.info().may_suspend => {
            input_required(method, result).map(|it| Outcome::InputRequired(Box::new(it)))
        }
        Some(kind) => Err(invalid(method, format!("unknown resultType {kind:?}"))),
    }
}

fn complete(method: Method, revision: Revision, result: &str) -> Result<Reply, Error> {
    Ok(match method {
        Method::CallTool => {
            let mut it: ToolResult = read(method, result)?;
            it.meta = user_meta(it.meta, revision);
            Reply::Tool(it)
        }
        Method::GetPrompt => {
            let mut it: PromptResult = read(method, result)?;
            it.meta = user_meta(it.meta, revision);
            Reply::Prompt(it)
        }
        Method::ReadResource => {
            let mut it: ReadResult = read(method, result)?;
            it.meta = user_meta(it.meta, revision);
            it.cache = cache_hint(result);
            Reply::Read(it)
        }
        Method::ListTools => Reply::Tools(page(method, revision, result, "tools")?),
        Method::ListPrompts => Reply::Prompts(page(method, revision, result, "prompts")?),
        Method::ListResources => Reply::Resources(page(method, revision, result, "resources")?),
        Method::ListTemplates => {
            Reply::Templates(page(method, revision, result, "resourceTemplates")?)
        }
        Method::Complete => {
            #[derive(Deserialize)]
            struct Fields {
                completion: wharf_model::Completion,
                #[serde(rename = "_meta")]
                meta: Option<Box<Meta>>,
            }
            let Fields { mut completion, meta } = read(method, result)?;
            completion.meta = user_meta(meta, revision);
            Reply::Completion(completion)
        }
        Method::Discover => Reply::Discover(Box::new(discovery(method, result)?)),
        Method::Listen => Reply::Listened,
        _ => return Err(invalid(method, "the client answers this method")),
    })
}

fn discovery(method: Method, result: &str) -> Result<Discovery, Error> {
    #[derive(Deserialize)]
    struct Fields {
        #[serde(default)]
        capabilities: wharf_model::ServerCapabilities,
        instructions: Option<String>,
    }
    let Fields { capabilities, instructions } = read(method, result)?;
    let cache = cache_hint(result).unwrap_or_default();
    Ok(Discovery { capabilities, instructions, cache })
}

fn page<T: DeserializeOwned>(
    method: Method,
    revision: Revision,
    result: &str,
    key: &str,
) -> Result<Page<T>, Error> {
    let mut fields: Meta = read(method, result)?;
    let mut take = |key: &str| fields.remove(key).unwrap_or_default();
    let (items, next, meta) = (take(key), take("nextCursor"), take("_meta"));
    let items: Vec<T> =
        serde_json::from_value(items).map_err(|error| invalid(method, error.to_string()))?;
    let meta = match meta {
        Value::Object(meta) => user_meta(Some(Box::new(meta)), revision),
        _ => None,
    };
    Ok(Page {
        body: Arc::new(PageBody::new(items.into_iter().map(Arc::new).collect())),
        next: next.as_str().map(str::to_owned),
        cache: cache_hint(result).unwrap_or_default(),
        meta,
    })
}

fn cache_hint(result: &str) -> Option<CacheHint> {
    serde_json::from_str(result).ok()
}

/// What is left of a result's metadata without what the protocol put there.
fn user_meta(meta: Option<Box<Meta>>, revision: Revision) -> Option<Box<Meta>> {
    let mut meta = meta?;
    if revision.is_modern() {
        meta.remove(SERVER_INFO);
        meta.remove(SUBSCRIPTION_ID);
    }
    (!meta.is_empty() || !revision.is_modern()).then_some(meta)
}

fn input_required(method: Method, result: &str) -> Result<InputRequired, Error> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        #[serde(borrow)]
        input_requests: Option<&'a RawValue>,
        request_state: Option<String>,
    }
    let fields: Fields<'_> =
        serde_json::from_str(result).map_err(|error| invalid(method, error.to_string()))?;
    let mut requests = Vec::new();
    let mut problem = None;
    let asked = fields.input_requests.map_or("{}", RawValue::get);
    let walked = scan::each_member(asked, |key, value| match decode_ask(method, value) {
        Ok(ask) => requests.push((members::unquote(key).unwrap_or_default().into_owned(), ask)),
        Err(error) => problem = Some(error),
    });
    match problem {
        Some(error) => Err(error),
        None if walked.is_err() => Err(invalid(method, "inputRequests must be an object")),
        None => Ok(InputRequired { requests, state: fields.request_state }),
    }
}

/// Reads a question: an object with a method and its parameters.
fn decode_ask(method: Method, json: &str) -> Result<Ask, Error> {
    #[derive(Deserialize)]
    struct Fields<'a> {
        method: String,
        #[serde(borrow)]
        params: Option<&'a RawValue>,
    }
    #[derive(Deserialize)]
    struct Mode {
        mode: Option<String>,
    }
    let fields: Fields<'_> =
        serde_json::from_str(json).map_err(|error| invalid(method, error.to_string()))?;
    let params = fields.params.map_or("{}", RawValue::get);
    Ok(match Method::from_name(&fields.method) {
        Some(Method::ListRoots) => Ask::Roots,
        Some(Method::Sample) => Ask::Sample(Box::new(read(method, params)?)),
        Some(Method::Elicit) => match read::<Mode>(method, params)?.mode.as_deref() {
            None | Some("form") => Ask::Elicit(Box::new(read(method, params)?)),
            Some("url") => Ask::ElicitUrl(Box::new(read(method, params)?)),
            Some(mode) => return Err(invalid(method, format!("unknown mode {mode:?}"))),
        },
        _ => return Err(invalid(method, format!("unknown request {:?}", fields.method))),
    })
}

/// A notification from the server, and what it belongs to.
#[derive(Clone, Debug)]
pub struct Heard {
    /// What the server says.
    pub notification: Notification,
    /// The token of the call whose progress this is.
    pub token: Option<CallId>,
    /// The listen that this belongs to.
    pub subscription: Option<CallId>,
}

/// Reads a notification of the server: its method and the text of its parameters. None if nobody
/// knows it or it is malformed, for a notification cannot be answered.
#[must_use]
pub fn decode_notification(method: &str, params: &str) -> Option<Heard> {
    #[derive(Deserialize)]
    #[serde(rename_all = "camelCase")]
    struct Fields<'a> {
        #[serde(borrow)]
        progress_token: Option<&'a RawValue>,
        progress: Option<f64>,
        total: Option<f64>,
        message: Option<String>,
        level: Option<LogLevel>,
        logger: Option<String>,
        data: Option<Box<RawValue>>,
        notifications: Option<wharf_model::Filter>,
        uri: Option<String>,
        elicitation_id: Option<String>,
        #[serde(rename = "_meta", borrow)]
        meta: Option<MetaFields<'a>>,
    }
    #[derive(Deserialize)]
    struct MetaFields<'a> {
        #[serde(rename = "io.modelcontextprotocol/subscriptionId", borrow)]
        subscription: Option<&'a RawValue>,
    }
    let it: Fields<'_> = serde_json::from_str(params).ok()?;
    let id = |raw: &RawValue| CallId::canonical(raw.get().into());
    let (token, subscription) =
        (it.progress_token.map(id), it.meta.and_then(|meta| meta.subscription).map(id));
    let notification = match method {
        "notifications/progress" => {
            Notification::Progress { progress: it.progress?, total: it.total, message: it.message }
        }
        "notifications/message" => {
            Notification::Log { level: it.level?, logger: it.logger, data: it.data? }
        }
        "notifications/subscriptions/acknowledged" => Notification::Acknowledged(it.notifications?),
        "notifications/tools/list_changed" => Notification::ToolsChanged,
        "notifications/prompts/list_changed" => Notification::PromptsChanged,
        "notifications/resources/list_changed" => Notification::ResourcesChanged,
        "notifications/resources/updated" => Notification::ResourceUpdated { uri: it.uri?.into() },
        "notifications/elicitation/complete" => {
            Notification::ElicitationComplete { id: it.elicitation_id? }
        }
        _ => return None,
    };
    Some(Heard { notification, token, subscription })
}

fn read<T: DeserializeOwned>(method: Method, json: &str) -> Result<T, Error> {
    serde_json::from_str(json).map_err(|error| invalid(method, error.to_string()))
}

fn invalid(method: Method, problem: impl std::fmt::Display) -> Error {
    Error::new(ErrorKind::ValidationFailed)
        .with_message(format!("Invalid result of {}: {problem}", method.name()))
}
