//! Scripted server with skills.

use std::{collections::BTreeMap, sync::Arc};

use serde_json::{Value, json};
use wharf::{
    Client,
    client::ClientBuilder,
    skills::{FileDigest, ListedSkill, SKILLS_EXTENSION},
};

use crate::hostile::scripted_server::{
    Action, ReceivedRequest, ScriptedServer, builder, default_http_reply, http_json, in_time,
};

pub(super) const SKILL: &str = "skill://shop/refunds/SKILL.md";
pub(super) const EMAIL: &str = "skill://shop/refunds/examples/e-mail.md";
pub(super) const SIZE: u64 = 63;
const INSTRUCTIONS: &str = "---\nname: refunds\ndescription: Refunds an order.\n---\n# Refunds\n";

/// Skills of a server, with one skill at first.
#[derive(Clone)]
pub(super) struct ScriptedSkills {
    pub(super) entries: Vec<Value>,
    pub(super) files: BTreeMap<String, Value>,
    pub(super) settings: Value,
    pub(super) directories: BTreeMap<String, Vec<Value>>,
}

/// Running server and its client.
pub(super) struct Connected {
    pub(super) client: Client,
    server: ScriptedServer,
}

impl ScriptedSkills {
    pub(super) fn new() -> Self {
        let texts = [(SKILL, INSTRUCTIONS), (EMAIL, "Dear customer\n")];
        let resources: Vec<Value> = texts.iter().map(|(uri, text)| listed(uri, text)).collect();
        let front_matter = json!({"name": "refunds", "description": "Refunds an order."});
        let entry = json!({"uri": SKILL, "frontmatter": front_matter, "resources": resources});
        let files = texts.map(|(uri, text)| (uri.to_owned(), json!({"text": text})));
        let (settings, directories) = (json!({}), BTreeMap::new());
        ScriptedSkills { entries: vec![entry], files: files.into(), settings, directories }
    }

    /// Changes the entry of the skill.
    pub(super) fn entry(mut self, change: impl FnOnce(&mut Value)) -> Self {
        change(&mut self.entries[0]);
        self
    }

    /// Sets the contents of a file.
    pub(super) fn contents(mut self, uri: &str, contents: Value) -> Self {
        self.files.insert(uri.to_owned(), contents);
        self
    }

    pub(super) async fn connect(self) -> Connected {
        serve(move |asked| self.reply(asked)).await
    }

    /// Result for a request, or an error code; `None` for the regular reply.
    fn reply(&self, asked: &ReceivedRequest) -> Option<Result<Value, i32>> {
        let params = &asked.message["params"];
        let uri = params["uri"].as_str().unwrap_or_default();
        Some(match asked.method() {
            "server/discover" => Ok(discovery(&self.settings)),
            "skills/list" => Ok(json!({"skills": self.entries})),
            "skills/get" => {
                let entry = self.entries.iter().find(|it| it["uri"] == uri);
                entry.map(|it| json!({"skill": it})).ok_or(-32602)
            }
            "resources/read" => {
                self.files.get(uri).map(|contents| self::contents(uri, contents)).ok_or(-32602)
            }
            "resources/directory/read" => {
                let children = self.directories.get(uri);
                children.map(|it| json!({"resources": it})).ok_or(-32602)
            }
            _ => return None,
        })
    }
}

impl Connected {
    pub(super) async fn skill(&self) -> ListedSkill {
        in_time(self.client.skill(SKILL)).await.unwrap()
    }

    /// Methods and URIs of the received requests after the handshake, in order.
    pub(super) fn requests(&self) -> Vec<String> {
        let asked = self.server.asked.lock().unwrap();
        let requests = asked.iter().filter(|it| it.method() != "server/discover");
        let line = |it: &ReceivedRequest| {
            let uri = it.message["params"]["uri"].as_str().unwrap_or_default();
            format!("{} {uri}", it.method()).trim_end().to_owned()
        };
        requests.map(line).collect()
    }
}

/// Starts a server with these replies, and connects.
pub(super) async fn serve(
    reply: impl Fn(&ReceivedRequest) -> Option<Result<Value, i32>> + Send + Sync + 'static,
) -> Connected {
    serve_to(builder(), reply).await
}

/// Starts a server with these replies, and connects this client.
pub(super) async fn serve_to(
    builder: ClientBuilder,
    reply: impl Fn(&ReceivedRequest) -> Option<Result<Value, i32>> + Send + Sync + 'static,
) -> Connected {
    let reply = Arc::new(reply);
    let play = move |asked: &ReceivedRequest| match reply(asked) {
        None => default_http_reply(asked),
        Some(Ok(mut result)) => {
            result["resultType"] = "complete".into();
            if result["ttlMs"].is_null() {
                (result["ttlMs"], result["cacheScope"]) = (0.into(), "private".into());
            }
            Action::Say(http_json(200, &asked.reply(result)))
        }
        Some(Err(code)) => {
            let error = json!({"code": code, "message": "no such thing"});
            let reply = json!({"jsonrpc": "2.0", "id": asked.message["id"], "error": error});
            Action::Say(http_json(200, &reply))
        }
    };
    let server = ScriptedServer::http(play).await;
    let client = in_time(builder.connect(server.url())).await.unwrap();
    Connected { client, server }
}

pub(super) fn discovery(settings: &Value) -> Value {
    let mut extensions = json!({});
    if !settings.is_null() {
        extensions[SKILLS_EXTENSION] = settings.clone();
    }
    json!({
        "supportedVersions": ["2026-07-28"],
        "capabilities": {"resources": {}, "extensions": extensions},
        "serverInfo": {"name": "played", "version": "1"},
    })
}

/// Result of reading a file.
pub(super) fn contents(uri: &str, contents: &Value) -> Value {
    let mut contents = contents.clone();
    if contents["uri"].is_null() {
        contents["uri"] = uri.into();
    }
    json!({"contents": [contents]})
}

/// Manifest entry of a file.
pub(super) fn listed(uri: &str, text: &str) -> Value {
    json!({"uri": uri, "digest": FileDigest::of(text.as_bytes()).to_string(), "size": text.len()})
}
