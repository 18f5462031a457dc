//! Checks over stdio that `everything-server` has every fixture of the conformance suite.

use std::{
    io::{BufRead, BufReader, Write},
    process::{Child, ChildStdin, ChildStdout, Command, Stdio},
};

use serde_json::{Value, json};

struct Server {
    child: Child,
    stdin: ChildStdin,
    stdout: BufReader<ChildStdout>,
    next_id: u64,
}

impl Server {
    fn start() -> Server {
        let mut child = Command::new(env!("CARGO_BIN_EXE_everything-server"))
            .arg("--stdio")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("the server starts");
        let stdin = child.stdin.take().expect("piped");
        let stdout = BufReader::new(child.stdout.take().expect("piped"));
        Server { child, stdin, stdout, next_id: 0 }
    }

    /// Calls as a modern client with every capability; returns the result.
    fn call(&mut self, method: &str, params: Value) -> Value {
        let capabilities = json!({"elicitation": {}, "sampling": {}, "roots": {}});
        self.reply(method, params, capabilities)["result"].take()
    }

    fn reply(&mut self, method: &str, mut params: Value, capabilities: Value) -> Value {
        self.next_id += 1;
        let meta = &mut params["_meta"];
        meta["io.modelcontextprotocol/protocolVersion"] = json!("2026-07-28");
        meta["io.modelcontextprotocol/clientCapabilities"] = capabilities;
        let id = self.next_id;
        let request = json!({"jsonrpc": "2.0", "id": id, "method": method, "params": params});
        writeln!(self.stdin, "{request}").expect("the server reads");
        loop {
            let mut line = String::new();
            self.stdout.read_line(&mut line).expect("the server answers");
            let message: Value = serde_json::from_str(&line).expect("a message");
            if message["id"] == id {
                return message;
            }
        }
    }

    fn list(&mut self, method: &str, key: &str) -> Vec<Value> {
        self.call(method, json!({}))[key].as_array().expect("a list").clone()
    }

    fn tool(&mut self, name: &str, arguments: &Value) -> Value {
        self.call("tools/call", json!({"name": name, "arguments": arguments}))
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn texts<'v>(list: &'v [Value], key: &str) -> Vec<&'v str> {
    list.iter().map(|item| item[key].as_str().unwrap_or_default()).collect()
}

#[test]
fn every_tool_is_listed_with_its_schema() {
    let nothing = || json!({"type": "object", "additionalProperties": false});
    let text = |name: &str, says: Value| json!({"type": "object", "properties": {name: says}, "required": [name]});
    let expected = [
        ("test_simple_text", nothing()),
        ("test_image_content", nothing()),
        ("test_audio_content", nothing()),
        ("test_embedded_resource", nothing()),
        ("test_multiple_content_types", nothing()),
        ("test_error_handling", nothing()),
        ("test_tool_with_logging", nothing()),
        ("test_logging_tool", nothing()),
        ("test_tool_with_progress", nothing()),
        ("test_reconnection", nothing()),
        ("test_trigger_tool_change", nothing()),
        ("test_trigger_prompt_change", nothing()),
        (
            "test_sampling",
            text("prompt", json!({"type": "string", "description": "The prompt for the model."})),
        ),
        (
            "test_elicitation",
            text("message", json!({"type": "string", "description": "The message of the form."})),
        ),
        ("test_elicitation_sep1034_defaults", nothing()),
        ("test_elicitation_sep1330_enums", nothing()),
        ("test_missing_capability", nothing()),
        ("test_streaming_elicitation", nothing()),
        ("test_input_required_result_elicitation", nothing()),
        ("test_input_required_result_sampling", nothing()),
        ("test_input_required_result_list_roots", nothing()),
        ("test_input_required_result_request_state", nothing()),
        ("test_input_required_result_multiple_inputs", nothing()),
        ("test_input_required_result_multi_round", nothing()),
        ("test_input_required_result_tampered_state", nothing()),
        ("test_input_required_result_capabilities", nothing()),
        ("json_schema_2020_12_tool", contact_schema()),
        (
            "test_custom_header",
            text(
                "value",
                json!({"type": "string", "description": "The text to return.", "x-mcp-header": "Value"}),
            ),
        ),
        ("greet", text("name", json!({"type": "string"}))),
        (
            "slow_compute",
            json!({
                "type": "object",
                "properties": {
                    "seconds": {"type": "number"},
                    "label": {"type": ["string", "null"]},
                },
                "required": ["seconds"],
            }),
        ),
        ("failing_job", nothing()),
        ("protocol_error_job", nothing()),
        ("confirm_delete", text("filename", json!({"type": "string"}))),
        ("multi_input", nothing()),
        ("test_tool_with_task", nothing()),
    ];
    let tools = Server::start().list("tools/list", "tools");
    // The order matters: scenarios call the first tool, and the first tool with a header.
    assert_eq!(texts(&tools, "name"), expected.each_ref().map(|(name, _)| *name));
    for (tool, (name, schema)) in tools.iter().zip(expected) {
        assert_eq!(tool["inputSchema"], schema, "{name}");
        assert_ne!(tool["description"].as_str().unwrap_or_default(), "", "{name}");
    }
}

/// Copy of the schema in the suite, to detect changes of the fixture.
fn contact_schema() -> Value {
    let schema = r##"{
        "$schema": "https://json-schema.org/draft/2020-12/schema", "type": "object",
        "$defs": {"address": {"$anchor": "addressDef", "type": "object",
            "properties": {"street": {"type": "string"}, "city": {"type": "string"}}}},
        "properties": {
            "name": {"type": "string"}, "address": {"$ref": "#/$defs/address"},
            "contactMethod": {"type": "string", "enum": ["phone", "email"]},
            "phone": {"type": "string"}, "email": {"type": "string"}},
        "allOf": [{"anyOf": [{"required": ["phone"]}, {"required": ["email"]}]}],
        "if": {"properties": {"contactMethod": {"const": "phone"}}, "required": ["contactMethod"]},
        "then": {"required": ["phone"]}, "else": {"required": ["email"]},
        "additionalProperties": false
    }"##;
    serde_json::from_str(schema).expect("a schema")
}

#[test]
fn tools_show_every_kind_of_content() {
    let mut server = Server::start();
    let simple = "This is a simple text response for testing.";
    let failure = "This tool intentionally returns an error for testing";
    let embedded = json!({
        "uri": "test://embedded-resource",
        "mimeType": "text/plain",
        "text": "This is an embedded resource content.",
    });
    let mixed = json!({
        "uri": "test://mixed-content-resource",
        "mimeType": "application/json",
        "text": "{\"test\":\"data\",\"value\":123}",
    });
    for (tool, path, expected) in [
        ("test_simple_text", "/content/0/text", json!(simple)),
        ("test_image_content", "/content/0/mimeType", json!("image/png")),
        ("test_audio_content", "/content/0/mimeType", json!("audio/wav")),
        ("test_embedded_resource", "/content/0/resource", embedded),
        ("test_multiple_content_types", "/content/0/text", json!("Multiple content types test:")),
        ("test_multiple_content_types", "/content/1/type", json!("image")),
        ("test_multiple_content_types", "/content/2/resource", mixed),
        ("test_error_handling", "/isError", json!(true)),
        ("test_error_handling", "/content/0/text", json!(failure)),
    ] {
        assert_eq!(server.tool(tool, &json!({})).pointer(path), Some(&expected), "{tool}");
    }
}

#[test]
fn forms_have_the_fields_that_scenarios_expect() {
    let mut server = Server::start();
    let string = |says: &str| json!({"type": "string", "description": says});
    let choose = |values: [&str; 3]| json!({"type": "string", "enum": values});
    let titled = |noun: &str| {
        let title = |ordinal: &str| format!("{ordinal} {noun}");
        json!([
            {"const": "value1", "title": title("First")},
            {"const": "value2", "title": title("Second")},
            {"const": "value3", "title": title("Third")},
        ])
    };
    let options = ["option1", "option2", "option3"];
    let mut legacy = choose(["opt1", "opt2", "opt3"]);
    legacy["enumNames"] = json!(["Option One", "Option Two", "Option Three"]);
    for (tool, arguments, key, expected) in [
        (
            "test_elicitation",
            json!({"message": "Who?"}),
            "user",
            json!({"username": string("User's response"), "email": string("User's email address")}),
        ),
        (
            "test_elicitation_sep1034_defaults",
            json!({}),
            "profile",
            json!({
                "name": {"type": "string", "default": "John Doe", "description": "User name"},
                "age": {"type": "integer", "default": 30, "description": "User age"},
                "score": {"type": "number", "default": 95.5, "description": "User score"},
                "status": {
                    "type": "string",
                    "enum": ["active", "inactive", "pending"],
                    "default": "active",
                    "description": "User status",
                },
                "verified": {
                    "type": "boolean", "default": true, "description": "Verification status",
                },
            }),
        ),
        (
            "test_elicitation_sep1330_enums",
            json!({}),
            "choices",
            json!({
                "untitledSingle": choose(options),
                "titledSingle": {"type": "string", "oneOf": titled("Option")},
                "legacyEnum": legacy,
                "untitledMulti": {"type": "array", "items": choose(options)},
                "titledMulti": {"type": "array", "items": {"anyOf": titled("Choice")}},
            }),
        ),
    ] {
        let asked = &server.tool(tool, &arguments)["inputRequests"][key];
        assert_eq!(asked["params"]["requestedSchema"]["properties"], expected, "{tool}");
    }
}

#[test]
fn each_round_ends_with_the_result_of_its_input() {
    let mut server = Server::start();
    let accept = |content: Value| json!({"action": "accept", "content": content});
    let said = |text: &str| json!({"role": "assistant", "model": "m", "content": {"type": "text", "text": text}});
    let name = || accept(json!({"name": "Alice"}));
    let roots = || json!({"roots": [{"uri": "file:///a"}]});
    let all = json!({"user_name": name(), "greeting": said("Hi,"), "client_roots": roots()});
    let confirm = || json!({"confirm": accept(json!({"ok": true}))});
    let steps = [json!({"step1": name()}), json!({"step2": accept(json!({"color": "red"}))})];
    for (tool, answers, expected) in [
        ("elicitation", vec![json!({"user_name": name()})], "Hello, Alice!"),
        ("sampling", vec![json!({"capital_question": said("Paris")})], "Paris"),
        ("list_roots", vec![json!({"client_roots": roots()})], "The client works in 1 places."),
        ("request_state", vec![confirm()], "state-ok: true"),
        ("multiple_inputs", vec![all], "Hi, Alice! I see 1 roots."),
        ("multi_round", steps.to_vec(), "Alice likes red."),
        ("tampered_state", vec![confirm()], "confirmed: true"),
        ("capabilities", vec![json!({"user_name": name()})], "The user is Alice."),
    ] {
        let params = json!({"name": format!("test_input_required_result_{tool}"), "arguments": {}});
        let mut result = server.call("tools/call", params.clone());
        for answer in answers {
            let keys = |object: &Value| {
                object.as_object().map(|it| it.keys().cloned().collect::<Vec<_>>())
            };
            assert_eq!(result["resultType"], "input_required", "{tool}");
            assert_eq!(keys(&result["inputRequests"]), keys(&answer), "{tool}");
            let mut again = params.clone();
            again["inputResponses"] = answer;
            again["requestState"] = result["requestState"].take();
            result = server.call("tools/call", again);
        }
        assert_eq!(result["content"][0]["text"], expected, "{tool}");
    }
}

#[test]
fn only_declared_capabilities_are_requested() {
    let mut server = Server::start();
    let call = |name: &str| json!({"name": name, "arguments": {}});
    let missing = server.reply("tools/call", call("test_missing_capability"), json!({}));
    assert_eq!(missing["error"]["code"], -32021);
    assert_eq!(missing["error"]["data"]["requiredCapabilities"], json!({"sampling": {}}));
    let capabilities = call("test_input_required_result_capabilities");
    let asked = server.reply("tools/call", capabilities, json!({"sampling": {}}));
    let questions = asked["result"]["inputRequests"].as_object().expect("questions");
    assert!(questions.values().all(|it| it["method"] == "sampling/createMessage"), "{asked}");
}

#[test]
fn resources_are_listed_and_read() {
    let mut server = Server::start();
    let resources = server.list("resources/list", "resources");
    let uris = ["test://static-text", "test://static-binary", "test://watched-resource"];
    let is_own = |uri: &&str| !uri.starts_with("skill:");
    let listed = texts(&resources, "uri").into_iter();
    assert_eq!(listed.filter(is_own).collect::<Vec<_>>(), uris);
    let templates = server.list("resources/templates/list", "resourceTemplates");
    let listed = texts(&templates, "uriTemplate").into_iter();
    assert_eq!(listed.filter(is_own).collect::<Vec<_>>(), ["test://template/{id}/data"]);
    let data = "{\"id\":\"123\",\"templateTest\":true,\"data\":\"Data for ID: 123\"}";
    for (uri, mime, text) in [
        (uris[0], "text/plain", Some("This is the content of the static text resource.")),
        (uris[1], "image/png", None),
        (uris[2], "text/plain", Some("This resource is being watched.")),
        ("test://template/123/data", "application/json", Some(data)),
    ] {
        let read = server.call("resources/read", json!({"uri": uri}));
        let contents = &read["contents"][0];
        assert_eq!(
            (contents["uri"].as_str(), contents["mimeType"].as_str()),
            (Some(uri), Some(mime))
        );
        assert_eq!(contents["text"].as_str(), text, "{uri}");
        assert_eq!(contents["blob"].is_string(), text.is_none(), "{uri}");
    }
}

#[test]
fn prompts_are_listed_and_returned() {
    let mut server = Server::start();
    let prompts = server.list("prompts/list", "prompts");
    let listed: Vec<_> = prompts
        .iter()
        .map(|prompt| {
            assert_ne!(prompt["description"].as_str().unwrap_or_default(), "", "{prompt}");
            let arguments = prompt["arguments"].as_array().map_or(&[][..], |it| it);
            assert!(arguments.iter().all(|argument| argument["required"] == true), "{prompt}");
            (prompt["name"].as_str().unwrap_or_default(), texts(arguments, "name"))
        })
        .collect();
    let expected = [
        ("test_simple_prompt", vec![]),
        ("test_prompt_with_arguments", vec!["arg1", "arg2"]),
        ("test_prompt_with_embedded_resource", vec!["resourceUri"]),
        ("test_prompt_with_image", vec![]),
        ("test_input_required_result_prompt", vec![]),
    ];
    assert_eq!(listed, expected);
    let resource = json!({
        "uri": "test://r",
        "mimeType": "text/plain",
        "text": "Embedded resource content for testing.",
    });
    for (name, arguments, path, value) in [
        (
            "test_simple_prompt",
            json!({}),
            "/messages/0/content/text",
            json!("This is a simple prompt for testing."),
        ),
        (
            "test_prompt_with_arguments",
            json!({"arg1": "a", "arg2": "b"}),
            "/messages/0/content/text",
            json!("Prompt with arguments: arg1='a', arg2='b'"),
        ),
        (
            "test_prompt_with_embedded_resource",
            json!({"resourceUri": "test://r"}),
            "/messages/0/content/resource",
            resource,
        ),
        ("test_prompt_with_image", json!({}), "/messages/0/content/mimeType", json!("image/png")),
        (
            "test_input_required_result_prompt",
            json!({}),
            "/inputRequests/user_context/method",
            json!("elicitation/create"),
        ),
    ] {
        let prompt = server.call("prompts/get", json!({"name": name, "arguments": arguments}));
        assert_eq!(prompt.pointer(path), Some(&value), "{name}");
    }
    let completion = server.call(
        "completion/complete",
        json!({
            "ref": {"type": "ref/prompt", "name": "test_prompt_with_arguments"},
            "argument": {"name": "arg1", "value": "test"},
        }),
    );
    assert_eq!(completion["completion"]["values"], json!(["test", "testing", "tested"]));
}

#[test]
fn capabilities_that_scenarios_require_are_declared() {
    let discovery = Server::start().call("server/discover", json!({}));
    let expected = json!({
        "tools": {"listChanged": true},
        "prompts": {"listChanged": true},
        "resources": {"subscribe": true, "listChanged": true},
        "completions": {},
        "logging": {},
        "extensions": {
            "io.modelcontextprotocol/skills": {"directoryRead": true},
            "io.modelcontextprotocol/tasks": {},
        },
    });
    assert_eq!(discovery["capabilities"], expected);
}

#[test]
fn the_first_skill_has_a_directory() {
    let mut server = Server::start();
    let skills = server.list("skills/list", "skills");
    let names: Vec<_> = skills.iter().map(|it| it["frontmatter"]["name"].as_str()).collect();
    let expected = ["refunds", "git-workflow", "pdf-processing", "uptime"];
    assert_eq!(names, expected.map(Some));
    let uri = "skill://acme/billing/refunds";
    let children = server.call("resources/directory/read", json!({"uri": uri}));
    assert_eq!(children["resources"][1]["mimeType"], "inode/directory");
}
