//! `wharf publish --check` and `wharf gen server-json`.

use serde_json::{Value, json};

use crate::cli::{
    pack::CARGO,
    sandbox::{CommandOutput, Sandbox},
};

pub(crate) const NAME: &str = "io.github.ann/harbour";

/// Package with a README that has the token.
pub(crate) fn package(sandbox: &Sandbox) {
    sandbox.write("Cargo.toml", CARGO);
    sandbox.write("README.md", &format!("# Harbour\n\nmcp-name: {NAME}\n"));
}

fn check(sandbox: &Sandbox, more: &[&str]) -> (CommandOutput, Vec<Value>) {
    let output = sandbox.run(&[&["publish", "--check"], more].concat());
    let report: Value = serde_json::from_str(&output.out).unwrap();
    (output, report["problems"].as_array().unwrap().clone())
}

/// True if there is a problem at `path` whose message or fix has `text`.
fn has(problems: &[Value], path: &str, text: &str) -> bool {
    problems.iter().any(|it| {
        let says = |key: &str| it[key].as_str().unwrap().contains(text);
        it["path"] == path && (says("message") || says("fix"))
    })
}

#[test]
fn a_generated_file_passes_the_check() {
    let sandbox = Sandbox::new("publish");
    package(&sandbox);
    sandbox.write("harbour.mcpb", "a bundle");
    let bundle = "https://github.com/ann/harbour/releases/download/v1.2.3/harbour.mcpb";
    let words = [
        "gen",
        "server-json",
        "--remote",
        "https://mcp.example.com/mcp",
        "--mcpb",
        bundle,
        "--sha256",
        "harbour.mcpb",
        "--title",
        "Harbour",
        "-o",
        "server.json",
    ];
    let output = sandbox.run(&words);
    assert_eq!((output.code, output.err.as_str()), (0, ""), "{output:?}");
    let text = std::fs::read_to_string(sandbox.dir.join("server.json")).unwrap();
    let mut document: Value = serde_json::from_str(&text).unwrap();
    let written = document["packages"][1]["fileSha256"].take();
    // `sha256sum` of the bundle.
    let hash = "cd98c950d629c66548537b4ecd68dab3e8cf59974ba6e40df5a1a7354b39db5f";
    assert_eq!(written, hash);
    let expected = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json",
        "name": NAME, "title": "Harbour", "description": "A harbour.", "version": "1.2.3",
        "repository": {"url": "https://github.com/ann/harbour", "source": "github"},
        "packages": [
            {"registryType": "cargo", "identifier": "harbour", "version": "1.2.3", "transport": {"type": "stdio"}},
            {"registryType": "mcpb", "identifier": bundle, "fileSha256": null, "transport": {"type": "stdio"}}],
        "remotes": [{"type": "streamable-http", "url": "https://mcp.example.com/mcp"}],
    });
    assert_eq!(document, expected);
    let (output, problems) = check(&sandbox, &["--mcpb", "harbour.mcpb"]);
    assert_eq!((output.code, problems.len()), (0, 0), "{output:?}");
    sandbox.write("harbour.mcpb", "another bundle");
    let (output, problems) = check(&sandbox, &["--mcpb", "harbour.mcpb"]);
    assert_eq!(output.printed_error(1)["kind"], "invalid_file");
    assert!(
        has(&problems, "packages[1].fileSha256", "not the SHA-256 of harbour.mcpb"),
        "{problems:?}"
    );
}

#[test]
fn all_problems_are_found_at_once() {
    let sandbox = Sandbox::new("publish-problems");
    let long = "x".repeat(101);
    let document = json!({
        "$schema": "https://static.modelcontextprotocol.io/schemas/draft/server.schema.json",
        "name": "io.github.Ann/a/b", "version": "^1.0", "description": long, "title": "  ",
        "websiteUrl": "http://example.com", "homepage": "x",
        "repository": {"url": "https://github.com/ann", "source": "github", "subfolder": "../x"},
        "icons": [{"src": "data:x", "mimeType": "image/gif", "sizes": ["48"], "theme": "blue"}],
        "packages": [
            {"registryType": "cargo", "identifier": "har bour", "version": "latest", "runtimeHint": "x",
             "fileSha256": "X", "registryBaseUrl": "https://example.com", "transport": {"type": "stdio", "url": "http://x"}},
            {"registryType": "mcpb", "identifier": "http://example.com/x.zip", "transport": {"type": "pipe"}},
            {"registryType": "oci", "identifier": "docker.io/a/b:1", "version": "1.0.0",
             "transport": {"type": "sse", "url": "http://localhost:{port}/sse"},
             "environmentVariables": [{"name": "A"}, {"name": "A", "format": "text", "isSecret": true, "value": "s"}],
             "packageArguments": [{"type": "named", "name": "--a <b>"}, {"type": "positional"},
                {"type": "named", "name": "--p", "value": "--p=1", "choices": "a", "isRequired": "yes"}]},
            {"registryType": "gems", "transport": {}}],
        "remotes": [{"type": "stdio", "url": "http://localhost/mcp"}, {"type": "sse", "url": "https://{t}.a.example/"},
            {"type": "sse", "url": "https://{t}.a.example/", "headers": [{}]}],
        "_meta": {"com.example/x": {}, "io.modelcontextprotocol.registry/publisher-provided": {"a": "x".repeat(4096)}},
    });
    sandbox.write("server.json", &document.to_string());
    let (output, problems) = check(&sandbox, &[]);
    assert_eq!(output.printed_error(1)["kind"], "invalid_file");
    for (path, text) in [
        ("$schema", "is not the current schema"),
        ("name", "is not allowed"),
        ("version", "not an exact version"),
        ("description", "101 characters"),
        ("title", "blank"),
        ("websiteUrl", "not an https URL"),
        ("homepage", "no such member"),
        ("repository.url", "not a repository of github"),
        ("repository.subfolder", "clean relative path"),
        ("icons[0].src", "not an https URL"),
        ("icons[0].mimeType", "image/gif"),
        ("icons[0].sizes", "48"),
        ("icons[0].theme", "blue"),
        ("packages[0].identifier", "has spaces"),
        ("packages[0].version", "latest"),
        ("packages[0].runtimeHint", "must not have it"),
        ("packages[0].fileSha256", "must not have it"),
        ("packages[0].registryBaseUrl", "not that of cargo"),
        ("packages[0].transport.url", "stdio has no URL"),
        ("packages[1].identifier", "not an https URL"),
        ("packages[1].identifier", "does not contain `mcp`"),
        ("packages[1].identifier", "a file of a release"),
        ("packages[1].fileSha256", "needs it"),
        ("packages[1].transport.type", "\"pipe\""),
        ("packages[2].version", "must not have it"),
        ("packages[2].transport.url", "{port}"),
        ("packages[2].environmentVariables[1].name", "twice"),
        ("packages[2].environmentVariables[1].format", "text"),
        ("packages[2].environmentVariables[1].value", "secret"),
        ("packages[2].packageArguments[0].name", "not a name"),
        ("packages[2].packageArguments[1]", "needs a value"),
        ("packages[2].packageArguments[2].value", "begins with the name"),
        ("packages[2].packageArguments[2].choices", "array of strings"),
        ("packages[2].packageArguments[2].isRequired", "true or false"),
        ("packages[3].registryType", "gems"),
        ("packages[3].identifier", "missing"),
        ("packages[3].transport.type", "missing"),
        ("remotes[0].type", "stdio"),
        ("remotes[0].url", "not a public https URL"),
        ("remotes[1].url", "{t}"),
        ("remotes[2].url", "twice"),
        ("remotes[2].headers[0].name", "missing"),
        ("_meta[\"com.example/x\"]", "does not keep it"),
        ("_meta[\"io.modelcontextprotocol.registry/publisher-provided\"]", "bytes"),
    ] {
        assert!(has(&problems, path, text), "{path} {text}: {problems:#?}");
    }
    for problem in &problems {
        assert!(!problem["fix"].as_str().unwrap().is_empty(), "{problem}");
    }
}

#[test]
fn a_cargo_package_is_compared_with_cargo_toml_and_readme() {
    let sandbox = Sandbox::new("publish-cargo");
    package(&sandbox);
    sandbox.run(&["gen", "server-json", "-o", "server.json"]);
    let (output, problems) = check(&sandbox, &[]);
    assert_eq!((output.code, problems.len()), (0, 0), "{output:?}");
    for (readme, text) in [
        (format!("<!-- mcp-name: {NAME} -->"), "is in a comment"),
        (format!("mcp-name: {NAME}."), "is followed by '.'"),
        ("mcp-name: io.github.ann/other".to_owned(), "does not have `mcp-name"),
    ] {
        sandbox.write("README.md", &readme);
        let (output, problems) = check(&sandbox, &[]);
        output.printed_error(1);
        assert!(has(&problems, "packages[0]", text), "{text}: {problems:?}");
    }
    sandbox
        .write("Cargo.toml", &CARGO.replace("1.2.3", "1.2.4").replace("\"harbour\"", "\"harbor\""));
    let (_, problems) = check(&sandbox, &[]);
    assert!(has(&problems, "packages[0].version", "write \"1.2.4\""), "{problems:?}");
    assert!(has(&problems, "packages[0].identifier", "write \"harbor\""), "{problems:?}");
    sandbox.write("Cargo.toml", &format!("{CARGO}publish = false\n"));
    assert!(has(&check(&sandbox, &[]).1, "packages[0]", "publish = false"));
}

#[test]
fn the_case_of_an_owner_matters() {
    let sandbox = Sandbox::new("publish-owner");
    sandbox.write("Cargo.toml", &CARGO.replace("github.com/ann", "github.com/Ann"));
    sandbox.write("README.md", &format!("mcp-name: {NAME}\n"));
    sandbox.run(&["gen", "server-json", "-o", "server.json"]);
    let (output, problems) = check(&sandbox, &[]);
    assert_eq!(output.code, 0, "a warning: {output:?}");
    assert!(has(&problems, "name", "write io.github.Ann"), "{problems:?}");
}

#[test]
fn gen_says_what_is_missing() {
    let sandbox = Sandbox::new("gen");
    let error = sandbox.run(&["gen", "server-json"]).error(1);
    assert!(error["hint"].as_str().unwrap().contains("--name"), "{error}");
    sandbox.write("Cargo.toml", CARGO);
    let output = sandbox.run(&["gen", "server-json"]);
    assert_eq!(output.code, 0, "{output:?}");
    assert!(output.err.contains(&format!("mcp-name: {NAME}")), "{output:?}");
    let long = "x".repeat(101);
    let error = sandbox.run(&["gen", "server-json", "--description", &long]).error(1);
    assert!(error["message"].as_str().unwrap().contains("101 characters"), "{error}");
    assert_eq!(sandbox.run(&["publish", "--check"]).error(1)["kind"], "usage");
    assert_eq!(sandbox.run(&["publish"]).error(1)["kind"], "usage");
}
