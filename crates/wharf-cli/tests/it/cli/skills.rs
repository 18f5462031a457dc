//! `wharf skills`.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use wharf::skills::FileDigest;

use crate::cli::{
    sandbox::{CommandOutput, Sandbox, WHARF},
    scripted_server::{Pauses, Script, http_reply, slow_server},
};

const SKILLS: &str = concat!(env!("CARGO_MANIFEST_DIR"), "/../../conformance/skills");
const PDF: &str = "skill://pdf-processing/SKILL.md";
const REFUNDS: &str = "skill://refunds/SKILL.md";

/// Runs `wharf skills` with a server that has the skills of the official suite's fixtures.
fn skills(sandbox: &Sandbox, words: &[&str]) -> CommandOutput {
    let server = ["--", WHARF, "serve", "--skills", SKILLS];
    sandbox.run(&[&["skills"], words, &server].concat())
}

#[test]
fn skills_are_listed_shown_read_and_verified() {
    let sandbox = Sandbox::new("skills");
    let listed = skills(&sandbox, &["list"]).json();
    let names: Vec<_> = listed["skills"].as_array().unwrap().iter().map(|it| &it["uri"]).collect();
    let expected = ["skill://acme/billing/refunds/SKILL.md", "skill://git-workflow/SKILL.md", PDF];
    assert_eq!(names, expected);
    assert_eq!(listed["refused"], json!([]));
    let shown = skills(&sandbox, &["get", PDF]).json();
    assert_eq!(shown["skill"]["frontmatter"]["name"], "pdf-processing");
    let read = skills(&sandbox, &["read", PDF]).json();
    assert!(read["contents"][0]["text"].as_str().unwrap().starts_with("---\n"));
    let read = skills(&sandbox, &["read", PDF, "references/FORMS.md"]).json();
    assert_eq!(read["contents"][0]["uri"], "skill://pdf-processing/references/FORMS.md");
    let verified = skills(&sandbox, &["verify", "--require-digests"]).json();
    for skill in verified["skills"].as_array().unwrap() {
        assert_eq!(skill["state"], "verified", "{skill}");
    }
    assert_eq!(verified["skills"].as_array().unwrap().len(), 3);
    let saved = skills(&sandbox, &["read", PDF, "--output", "saved.md"]).json();
    assert_eq!(saved["written"][0]["file"], "saved.md", "{saved}");
}

#[test]
fn wrong_uses_are_reported() {
    let sandbox = Sandbox::new("skills-usage");
    for words in [
        &["get"][..],
        &["read"],
        &["list", PDF],
        &["verify", PDF, "x"],
        &["list", "--require-digests"],
        &["get", PDF, "--output", "x"],
        &["frobnicate"],
    ] {
        let error = skills(&sandbox, words).error(1);
        assert_eq!(error["kind"], "usage", "{words:?}: {error}");
    }
    let unlisted = skills(&sandbox, &["read", PDF, "../git-workflow/SKILL.md"]).error(7);
    assert_eq!(unlisted["kind"], "unlisted");
    let unknown = skills(&sandbox, &["get", "skill://none/SKILL.md"]).error(5);
    assert!(unknown["hint"].as_str().unwrap().contains("wharf skills list"), "{unknown}");
    let without = sandbox.demo(&["skills", "list"]).error(5);
    assert_eq!(without["kind"], "capability_not_supported");
}

/// Starts a server with these entries; each file has this text.
fn scripted(entries: Value, text: &'static str) -> String {
    let script: Script = Arc::new(move |asked: &Value, _| {
        let uri = &asked["params"]["uri"];
        let mut result = match asked["method"].as_str().unwrap_or_default() {
            "server/discover" => json!({"supportedVersions": ["2026-07-28"], "capabilities":
                {"resources": {}, "extensions": {"io.modelcontextprotocol/skills": {}}}}),
            "skills/list" => json!({"skills": entries}),
            "skills/get" => json!({"skill":
                entries.as_array().unwrap().iter().find(|it| it["uri"] == *uri)}),
            _ => json!({"contents": [{"uri": uri, "text": text}]}),
        };
        result["resultType"] = "complete".into();
        (result["ttlMs"], result["cacheScope"]) = (0.into(), "private".into());
        Some(http_reply(&json!({"jsonrpc": "2.0", "id": asked["id"], "result": result})))
    });
    slow_server(script, Pauses::EachReply(Duration::ZERO))
}

const TEXT: &str = "---\nname: refunds\ndescription: Refunds an order.\n---\n";

fn entry(uri: &str, resources: Value) -> Value {
    let front_matter = json!({"name": "refunds", "description": "Refunds an order."});
    json!({"uri": uri, "frontmatter": front_matter, "resources": resources})
}

fn listed(uri: &str, size: u64) -> Value {
    json!({"uri": uri, "digest": FileDigest::of(TEXT.as_bytes()).to_string(), "size": size})
}

#[test]
fn verify_has_an_exit_code_for_each_kind_of_result() {
    let sandbox = Sandbox::new("skills-verify");
    let size = TEXT.len() as u64;
    let good = || entry(REFUNDS, json!([listed(REFUNDS, size)]));
    let bad = entry("skill://b/refunds/SKILL.md", json!([listed("skill://b/refunds/SKILL.md", 7)]));
    let dynamic = || entry("skill://c/refunds/SKILL.md", json!("dynamic"));

    let url = scripted(json!([good(), dynamic()]), TEXT);
    let states = |out: &CommandOutput| -> Vec<String> {
        let shown: Value = serde_json::from_str(&out.out).unwrap();
        let skills = shown["skills"].as_array().unwrap().iter();
        skills.map(|it| it["state"].as_str().unwrap().to_owned()).collect()
    };
    let run = sandbox.run(&["skills", "verify", &url]);
    assert_eq!((run.code, states(&run)), (0, vec!["verified".into(), "dynamic".into()]), "{run:?}");
    let run = sandbox.run(&["skills", "verify", "--require-digests", &url]);
    assert_eq!(run.printed_error(9)["kind"], "skills_dynamic");
    let run = sandbox.run(&["skills", "verify", "--require-digests", &url, REFUNDS]);
    assert_eq!(run.code, 0, "{run:?}");

    let url = scripted(json!([good(), bad, {"uri": "skill://d/SKILL.md"}]), TEXT);
    let run = sandbox.run(&["skills", "verify", &url]);
    assert_eq!(states(&run), ["verified", "refused", "refused"]);
    assert_eq!(run.printed_error(7)["kind"], "skills_refused");

    let many: Vec<Value> = (0..257)
        .map(|n| {
            let uri = format!("skill://s{n}/refunds/SKILL.md");
            entry(&uri, json!([listed(&uri, size)]))
        })
        .collect();
    let run = sandbox.run(&["skills", "verify", &scripted(many.into(), TEXT)]);
    assert_eq!(run.printed_error(8)["kind"], "skills_unchecked");
    let states = states(&run);
    assert_eq!(states.iter().filter(|it| *it == "verified").count(), 256);
    assert_eq!(states[256], "unchecked");
}

#[test]
fn a_refused_skill_is_listed_with_its_reason() {
    let sandbox = Sandbox::new("skills-refused");
    let url = scripted(json!([{"uri": REFUNDS, "frontmatter": {}}]), TEXT);
    let listed = sandbox.run(&["skills", "list", &url]).json();
    assert_eq!(listed["skills"], json!([]));
    assert_eq!(listed["refused"][0]["kind"], "no_resources");
    assert_eq!(sandbox.run(&["skills", "get", &url, REFUNDS]).error(7)["kind"], "no_resources");
    let url = scripted(json!([entry(REFUNDS, json!([listed_wrong()]))]), TEXT);
    assert_eq!(sandbox.run(&["skills", "read", &url, REFUNDS]).error(7)["kind"], "digest");
}

fn listed_wrong() -> Value {
    let digest = FileDigest::of(b"another text").to_string();
    json!({"uri": REFUNDS, "digest": digest, "size": TEXT.len()})
}
