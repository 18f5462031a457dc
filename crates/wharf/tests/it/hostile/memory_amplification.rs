//! Messages whose parsed form would take many times their size (audit 8).

use serde_json::{Value, json, value::RawValue};
use wharf::{
    Client, Era, Server,
    client::{ClientExtension, ClientHandlerBuilder},
    skills::{FrontMatter, Skill},
};

use crate::hostile::memory_growth::{MemoryGrowth, ran_alone};
use crate::hostile::scripted_server::{
    Action, ReceivedRequest, ScriptedServer, builder, default_http_reply, default_line_reply,
    in_time,
};

const SIZE: usize = 8 << 20;

/// Repeats `unit` up to the length of a large message.
fn many(unit: &str) -> String {
    format!("{}{unit}", format!("{unit},").repeat(SIZE / (unit.len() + 1)))
}

fn reply(asked: &ReceivedRequest, result: &str) -> Action {
    let id = &asked.message["id"];
    Action::Say(format!("{{\"jsonrpc\":\"2.0\",\"id\":{id},\"result\":{result}}}\n").into_bytes())
}

fn http_reply(asked: &ReceivedRequest, result: &str) -> Action {
    let Action::Say(body) = reply(asked, result) else { unreachable!("a reply is said") };
    let length = body.len();
    let head = format!(
        "HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: {length}\r\n\r\n"
    );
    Action::Say([head.into_bytes(), body].concat())
}

/// Calls a tool that returns `result`; true if the client could read it. The client and the server share the process,
/// so the memory of both counts.
async fn called(result: String) -> bool {
    let server = ScriptedServer::lines(move |asked| match asked.method() {
        "tools/call" => reply(asked, &result),
        _ => default_line_reply(asked),
    });
    called_at(server.await.lines_url()).await
}

/// The same over HTTP.
async fn called_over_http(result: String) -> bool {
    let server = ScriptedServer::http(move |asked| match asked.method() {
        "tools/call" => http_reply(asked, &result),
        _ => default_http_reply(asked),
    });
    called_at(server.await.url()).await
}

async fn called_at(url: String) -> bool {
    let client = in_time(builder().connect(url)).await.unwrap();
    let growth = MemoryGrowth::start();
    let end = in_time(client.call("t", ())).await;
    growth.assert_below(10 * SIZE);
    if let Err(error) = &end {
        assert!(error.kind().is_content_too_large(), "{error:?}");
    }
    end.is_ok()
}

fn result(member: &str) -> String {
    format!("{{\"resultType\":\"complete\",{member}}}")
}

#[tokio::test(flavor = "multi_thread")]
async fn content_of_an_unknown_type() {
    if ran_alone() {
        return;
    }
    assert!(!called(result(&format!(r#""content":[{}]"#, many(r#"{"type":"x"}"#)))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn results_over_http() {
    if ran_alone() {
        return;
    }
    let content = format!(r#""content":[{}]"#, many(r#"{"type":"x"}"#));
    assert!(!called_over_http(result(&content)).await);
    let metadata = format!(r#""content":[],"_meta":{{"a":[{}]}}"#, many("{}"));
    assert!(called_over_http(result(&metadata)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn icons() {
    if ran_alone() {
        return;
    }
    let icons = many(r#"{"src":""}"#);
    let tool = format!(r#"{{"name":"t","inputSchema":{{"type":"object"}},"icons":[{icons}]}}"#);
    let tools = result(&format!(r#""tools":[{tool}]"#));
    let over_lines = tools.clone();
    let lines = ScriptedServer::lines(move |asked| match asked.method() {
        "tools/list" => reply(asked, &over_lines),
        _ => default_line_reply(asked),
    });
    let http = ScriptedServer::http(move |asked| match asked.method() {
        "tools/list" => http_reply(asked, &tools),
        _ => default_http_reply(asked),
    });
    for url in [lines.await.lines_url(), http.await.url()] {
        let client = in_time(builder().connect(&*url)).await.unwrap();
        let growth = MemoryGrowth::start();
        let listed = in_time(client.tools().all()).await;
        growth.assert_below(10 * SIZE);
        match listed {
            Ok(tools) => assert_eq!(tools.len(), 1),
            Err(error) => assert!(error.kind().is_content_too_large(), "{error:?}"),
        }
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn unused_metadata() {
    if ran_alone() {
        return;
    }
    let metadata = format!(r#""content":[],"_meta":{{"a":[{}]}}"#, many("{}"));
    assert!(called(result(&metadata)).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn unknown_fields() {
    if ran_alone() {
        return;
    }
    assert!(called(result(&format!(r#""content":[],"x":[{}]"#, many(r#"{"":0}"#)))).await);
}

#[tokio::test(flavor = "multi_thread")]
async fn an_unused_schema() {
    if ran_alone() {
        return;
    }
    let schema = many(r#"{"type":"x"}"#);
    let tools = format!(r#""tools":[{{"name":"t","inputSchema":{{"oneOf":[{schema}]}}}}]"#);
    let tools = result(&tools);
    let server = ScriptedServer::lines(move |asked| match asked.method() {
        "tools/list" => reply(asked, &tools),
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let client = in_time(builder().connect(server.lines_url())).await.unwrap();
    let growth = MemoryGrowth::start();
    let tools = in_time(client.tools().all()).await.unwrap();
    growth.assert_below(10 * SIZE);
    assert!(tools[0].input_schema.text().len() > SIZE);
    assert!(tools[0].input_schema.is_null(), "no tree of so many values is built");
}

/// A notification of an extension that the client declares; its callback reads a tree.
#[tokio::test(flavor = "multi_thread")]
async fn notifications_of_an_extension() {
    if ran_alone() {
        return;
    }
    let notification = |method: &str, flood: &str| {
        format!("{{\"jsonrpc\":\"2.0\",\"method\":\"{method}\",\"params\":{{\"a\":[{flood}]}}}}\n")
    };
    // The second one is short, and is received.
    let sent = notification("tides/turned", &many("{}")) + &notification("tides/turned", "7");
    let server = ScriptedServer::lines(move |asked| match asked.method() {
        "tools/call" => {
            let Action::Say(reply) = default_line_reply(asked) else { unreachable!("a reply") };
            Action::Say([sent.as_bytes(), &reply].concat())
        }
        _ => default_line_reply(asked),
    });
    let server = server.await;
    let (log, received) = std::sync::mpsc::channel();
    let tides = ClientExtension::new("com.example/tides")
        .on_notification("tides/turned", move |it: Value| log.send(it).unwrap());
    let handler = ClientHandlerBuilder::new().extension(tides);
    let builder = builder().handler(handler);
    let client = in_time(builder.connect(server.lines_url())).await.unwrap();
    let growth = MemoryGrowth::start();
    in_time(client.call("t", ())).await.unwrap();
    growth.assert_below(10 * SIZE);
    assert_eq!(received.try_iter().collect::<Vec<_>>(), [json!({"a": [7]})]);
}

/// Parameters of the methods of skills: the segments of a URI.
#[tokio::test(flavor = "multi_thread")]
async fn uris_of_skills() {
    if ran_alone() {
        return;
    }
    let daily = Skill::dynamic(FrontMatter::new("daily", "Reports."), async || "# Today\n");
    let endpoint = Server::new("harbour", "1").skill(daily).build().unwrap();
    let client = Client::builder().era(Era::Modern).connect(endpoint).await.unwrap();
    for unit in ["a/", "\u{7f}"] {
        let uri = format!("skill://{}", unit.repeat(SIZE / unit.len()));
        for method in ["skills/get", "resources/directory/read"] {
            let growth = MemoryGrowth::start();
            let error = in_time(client.request(method, json!({"uri": uri}))).await.unwrap_err();
            growth.assert_below(10 * SIZE);
            assert!(error.to_string().len() < 10_000, "{method}");
        }
    }
}

/// Pages of a list of an extension.
#[tokio::test(flavor = "multi_thread")]
async fn lists_of_an_extension() {
    if ran_alone() {
        return;
    }
    let members = (0..SIZE / 12).map(|number| format!("\"{number:07}\":0"));
    let members = members.collect::<Vec<_>>().join(",");
    let unused = format!(r#""boats":[],{members}"#);
    for (page, fits) in [(format!(r#""boats":[{}]"#, many("0")), false), (unused, true)] {
        let page = result(&page);
        let server = ScriptedServer::lines(move |asked| match asked.method() {
            "harbour/boats" => reply(asked, &page),
            _ => default_line_reply(asked),
        });
        let client = in_time(builder().connect(server.await.lines_url())).await.unwrap();
        let growth = MemoryGrowth::start();
        let boats = client.request_list::<Box<RawValue>>("harbour/boats", (), "boats").all();
        let end = in_time(boats).await;
        growth.assert_below(10 * SIZE);
        match end {
            Ok(boats) => assert!(fits && boats.is_empty()),
            Err(error) => assert!(!fits && error.kind().is_content_too_large(), "{error:?}"),
        }
    }
}
