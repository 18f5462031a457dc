//! Skills.

use serde_json::{Value, json};

use crate::harness::Harness;

const SKILL: &str = "skill://refunds/SKILL.md";

pub async fn they_are_listed_and_read(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    let list = client.call("skills/list", json!({})).await;
    let got = client.call("skills/get", json!({"uri": SKILL})).await;
    assert_eq!(list["skills"], json!([got["skill"]]));
    let modern = client.is_modern();
    for result in [&list, &got] {
        assert_eq!(result["resultType"], if modern { json!("complete") } else { Value::Null });
        assert_eq!(result["ttlMs"], if modern { json!(0) } else { Value::Null });
        assert_eq!(result["cacheScope"], if modern { json!("public") } else { Value::Null });
    }
    for file in got["skill"]["resources"].as_array().unwrap() {
        let read = client.call("resources/read", json!({"uri": file["uri"]})).await;
        let text = read["contents"][0]["text"].as_str().unwrap();
        assert_eq!(file["size"], text.len());
        assert_eq!(read["contents"][0]["mimeType"], "text/markdown");
    }
    let directory = json!({"uri": "skill://refunds"});
    let children = client.call("resources/directory/read", directory).await;
    assert_eq!(children["resources"][1]["mimeType"], "inode/directory");
}

pub async fn unknown_ones_are_invalid_parameters(harness: Harness, revision: &'static str) {
    let mut client = harness.client(revision).await;
    for (method, uri) in [
        ("skills/get", "skill://none/SKILL.md"),
        ("resources/directory/read", "skill://none"),
        ("resources/directory/read", SKILL),
    ] {
        let error = client.fail(method, json!({"uri": uri})).await;
        assert_eq!(error["code"], -32602, "{method} {uri}");
    }
    let error = client.fail("skills/list", json!({"cursor": "made up"})).await;
    assert_eq!(error["code"], -32602);
    let error = client.fail("resources/read", json!({"uri": "skill://none/SKILL.md"})).await;
    assert_eq!(error["code"], if client.is_modern() { -32602 } else { -32002 });
}
