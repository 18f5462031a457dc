//! Tools, resources, prompts and completions.

use serde_json::{Value, json};

use crate::{client::only_text, harness::Harness};

pub async fn server_info_is_returned(harness: Harness, revision: &'static str) {
    let (reader, writer) = harness.connect(revision).await;
    let mut client = crate::client::Client::new(reader, writer, revision);
    let mut result = client.handshake().await;
    if client.is_modern() {
        result = client.call("server/discover", json!({})).await;
        assert_eq!(result["resultType"], "complete");
        assert!(result["supportedVersions"].as_array().unwrap().contains(&json!(revision)));
        assert_eq!(result["_meta"]["io.modelcontextprotocol/serverInfo"]["name"], "behaviour");
    } else {
        assert_eq!(result["serverInfo"]["name"], "behaviour");
        assert_eq!(result["serverInfo"]["version"], "1.0.0");
    }
    assert_eq!(result["instructions"], "Try everything.");
    for capability in ["tools", "resources", "prompts", "logging"] {
        assert!(result["capabilities"][capability].is_object(), "{capability}: {result}");
    }
    let titled = !matches!(revision, "2024-11-05" | "2025-03-26" | "2026-07-28");
    assert_eq!(result["serverInfo"]["title"] == "The server under test", titled, "{result}");
}

pub async fn a_tool_is_listed_and_called(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let list = client.call("tools/list", json!({})).await;
    let add = &list["tools"][0];
    assert_eq!(add["name"], "add");
    assert_eq!(add["description"], "Adds two numbers.");
    assert_eq!(add["inputSchema"]["required"], json!(["a", "b"]));
    assert_eq!(add["annotations"]["readOnlyHint"] == true, revision != "2024-11-05", "{add}");
    assert_eq!(client.text("add", json!({"a": 2, "b": 3})).await, "5");
    assert_eq!(client.text("add", json!({"a": 2.0, "b": 3})).await, "5");
}

pub async fn a_tool_gives_structure(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let knows_structure = revision >= "2025-06-18";
    let list = client.call("tools/list", json!({})).await;
    let weather = list["tools"].as_array().unwrap().iter().find(|t| t["name"] == "weather");
    assert_eq!(weather.unwrap()["outputSchema"]["type"] == "object", knows_structure);
    let result = client.tool("weather", json!({"city": "Bergen"})).await;
    let expected = json!({"city": "Bergen", "celsius": 21.5});
    assert_eq!(serde_json::from_str::<Value>(only_text(&result)).unwrap(), expected);
    assert_eq!(result["structuredContent"] == expected, knows_structure, "{result}");
}

pub async fn a_tool_gives_contents_of_every_kind(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let result = client.tool("gallery", json!({})).await;
    let types: Vec<&str> =
        result["content"].as_array().unwrap().iter().map(|c| c["type"].as_str().unwrap()).collect();
    let audio = if revision == "2024-11-05" { "resource" } else { "audio" };
    let link = if revision < "2025-06-18" { "text" } else { "resource_link" };
    assert_eq!(types, ["text", "image", audio, link, "resource"]);
    assert_eq!(result["content"][1]["data"], "aW1hZ2U=");
    assert_eq!(result["content"][4]["resource"]["text"], "Read me.");
}

pub async fn a_tool_that_fails_says_so_and_the_next_call_works(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let result = client.tool("fail", json!({"reason": "no fish"})).await;
    assert_eq!(result["isError"], true);
    assert_eq!(only_text(&result), "no fish");
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

pub async fn a_tool_that_panics_says_so_and_the_next_call_works(
    harness: Harness,
    revision: &'static str,
) {
    let mut client = harness.client(revision).await;
    let result = client.tool("crash", json!({})).await;
    assert_eq!(result["isError"], true);
    assert!(!only_text(&result).contains("secret"), "{result}");
    assert_eq!(client.text("echo", json!({"text": "on"})).await, "on");
}

pub async fn a_tool_that_blocks_works(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let hash = client.text("hash", json!({"text": "wharf"})).await;
    assert_eq!(client.text("hash", json!({"text": "wharf"})).await, hash);
}

pub async fn an_unknown_tool_is_an_error(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let error = client.fail("tools/call", json!({"name": "subtract", "arguments": {}})).await;
    assert_eq!(error["code"], -32602);
    assert_eq!(error["message"], "Unknown tool: subtract");
}

pub async fn arguments_of_the_wrong_type_are_told(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let call = json!({"name": "add", "arguments": {"a": "two", "b": 3}});
    let text = if revision < "2025-11-25" {
        let error = client.fail("tools/call", call).await;
        assert_eq!(error["code"], -32602);
        error["message"].as_str().unwrap().to_owned()
    } else {
        let result = client.call("tools/call", call).await;
        assert_eq!(result["isError"], true);
        only_text(&result).to_owned()
    };
    assert!(text.contains("integer") || text.contains("i64"), "{text}");
    assert_eq!(client.text("add", json!({"a": 2, "b": 3})).await, "5");
}

pub async fn resources_are_listed_and_read(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let list = client.call("resources/list", json!({})).await;
    let resources = list["resources"].as_array().unwrap();
    let is_own = |it: &&Value| it["uri"].as_str().unwrap().starts_with("test:");
    let own: Vec<&Value> = resources.iter().filter(is_own).collect();
    let uris: Vec<_> = own.iter().map(|it| it["uri"].as_str().unwrap()).collect();
    assert_eq!(uris, ["test://readme", "test://logo", "test://secret"]);
    assert_eq!(own[0]["mimeType"], "text/markdown");
    let readme = client.call("resources/read", json!({"uri": "test://readme"})).await;
    let expected = json!({"uri": "test://readme", "mimeType": "text/markdown", "text": "Read me."});
    assert_eq!(readme["contents"][0], expected);
    let logo = client.call("resources/read", json!({"uri": "test://logo"})).await;
    let expected = json!({"uri": "test://logo", "mimeType": "image/png", "blob": "bG9nbw=="});
    assert_eq!(logo["contents"][0], expected);
}

pub async fn templates_are_listed_and_read(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let list = client.call("resources/templates/list", json!({})).await;
    assert_eq!(list["resourceTemplates"][0]["uriTemplate"], "test://notes/{name}");
    assert_eq!(list["resourceTemplates"][1]["uriTemplate"], "test://files/{+path}");
    for (uri, text) in
        [("test://notes/a%20b", "Note a b"), ("test://files/a/b.txt", "File a/b.txt")]
    {
        let read = client.call("resources/read", json!({"uri": uri})).await;
        assert_eq!(read["contents"][0]["text"], text);
        assert_eq!(read["contents"][0]["uri"], uri);
    }
}

pub async fn an_unknown_resource_is_an_error(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let error = client.fail("resources/read", json!({"uri": "test://nowhere"})).await;
    assert_eq!(error["code"], if client.is_modern() { -32602 } else { -32002 });
    assert_eq!(error["data"]["uri"], "test://nowhere");
    assert!(error["message"].as_str().unwrap().contains("test://nowhere"), "{error}");
}

pub async fn prompts_are_listed_and_got(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let list = client.call("prompts/list", json!({})).await;
    assert_eq!(list["prompts"][0]["name"], "greet");
    assert_eq!(list["prompts"][0]["arguments"], json!([{"name": "name", "required": true}]));
    let get = json!({"name": "greet", "arguments": {"name": "Ann"}});
    let prompt = client.call("prompts/get", get).await;
    let content = json!({"type": "text", "text": "Say hello to Ann."});
    assert_eq!(prompt["messages"], json!([{"role": "user", "content": content}]));
    let get = json!({"name": "review", "arguments": {"code": "x"}});
    let prompt = client.call("prompts/get", get).await;
    assert_eq!(prompt["messages"][0]["content"]["text"], "Review x in ?.");
}

pub async fn a_prompt_without_its_argument_is_an_error(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let error = client.fail("prompts/get", json!({"name": "greet"})).await;
    assert_eq!(error["code"], -32602);
    assert_eq!(error["data"], json!(["name"]));
    let error = client.fail("prompts/get", json!({"name": "grumble"})).await;
    assert_eq!(error["code"], -32602);
    assert_eq!(error["message"], "Invalid prompt name: grumble");
}

pub async fn arguments_are_completed(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    for (reference, name, value, expected) in [
        (
            json!({"type": "ref/prompt", "name": "review"}),
            "language",
            "p",
            vec!["python", "pascal", "perl"],
        ),
        (
            json!({"type": "ref/resource", "uri": "test://notes/{name}"}),
            "name",
            "st",
            vec!["standup", "story"],
        ),
    ] {
        let params = json!({"ref": reference, "argument": {"name": name, "value": value}});
        let result = client.call("completion/complete", params).await;
        assert_eq!(result["completion"]["values"], json!(expected));
    }
}

pub async fn lists_come_in_pages(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let whole = client.call("tools/list", json!({})).await;
    assert!(whole.get("nextCursor").is_none());
    let (mut tools, mut params, mut pages) = (Vec::new(), json!({"limit": 4}), 0);
    loop {
        let page = client.call("tools/list", params).await;
        let items = page["tools"].as_array().unwrap();
        assert!(items.len() <= 4);
        tools.extend(items.iter().cloned());
        pages += 1;
        let Some(cursor) = page.get("nextCursor") else { break };
        params = json!({"limit": 4, "cursor": cursor});
    }
    assert_eq!(Value::from(tools), whole["tools"]);
    assert!(pages > 1);
    let error = client.fail("tools/list", json!({"cursor": "made up"})).await;
    assert_eq!(error["code"], -32602);
}

pub async fn methods_of_another_era_are_unknown(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let others = match client.is_modern() {
        true => &["ping", "logging/setLevel", "resources/subscribe", "tools/guess"][..],
        false => &["tools/guess"],
    };
    for method in others {
        let error = client.fail(method, json!({})).await;
        assert_eq!(error["code"], -32601, "{method}: {error}");
    }
}

pub async fn ping_is_answered(harness: Harness, revision: &'static str) {
    let (reader, writer) = harness.connect(revision).await;
    let mut client = crate::client::Client::new(reader, writer, revision);
    // Streamable HTTP requires a session before any other request.
    if !harness.transport.is_streamable() {
        assert_eq!(client.call("ping", json!({})).await, json!({}));
    }
    client.handshake().await;
    assert_eq!(client.call("ping", json!({})).await, json!({}));
}
