//! `wharf pack`: bundles of programs, and their check.

use std::{fs, io::Write as _, os::unix::fs::PermissionsExt as _};

use serde_json::{Value, json};
use zip::{ZipWriter, write::SimpleFileOptions};

use crate::cli::sandbox::{CommandOutput, Sandbox, WHARF};

/// Program that is the demo server: a script, because the binary is large.
pub(crate) fn program(sandbox: &Sandbox) -> String {
    let file = sandbox.write("harbour", &format!("#!/bin/sh\nexec '{WHARF}' serve \"$@\"\n"));
    fs::set_permissions(&file, fs::Permissions::from_mode(0o755)).unwrap();
    file
}

pub(crate) const CARGO: &str = r#"[package]
name = "harbour"
version = "1.2.3"
description = "A harbour."
authors = ["Ann <ann@example.com>"]
license = "MIT"
repository = "https://github.com/ann/harbour"
"#;

fn check(sandbox: &Sandbox, file: &str) -> (CommandOutput, Value) {
    let output = sandbox.run(&["pack", "--check", file]);
    let report = serde_json::from_str(&output.out).unwrap_or_default();
    (output, report)
}

#[test]
fn a_bundle_has_the_metadata_of_the_package() {
    let sandbox = Sandbox::new("pack");
    sandbox.write("Cargo.toml", CARGO);
    let binary = program(&sandbox);
    let config = "key,type=string,title=API key,required,sensitive";
    let words = [
        "pack",
        "--binary",
        &binary,
        "--user-config",
        config,
        "--env",
        "KEY=${user_config.key}",
        "--arg",
        "--stdio",
        "-o",
        "h.mcpb",
    ];
    let report = sandbox.run(&words).json();
    let manifest = json!({
        "manifest_version": "0.4", "name": "harbour", "version": "1.2.3", "description": "A harbour.",
        "author": {"name": "Ann", "email": "ann@example.com"}, "license": "MIT",
        "repository": {"type": "git", "url": "https://github.com/ann/harbour"},
        "server": {"type": "binary", "entry_point": "server/harbour", "mcp_config": {
            "command": "${__dirname}/server/harbour", "args": ["--stdio"],
            "env": {"KEY": "${user_config.key}"}}},
        "compatibility": {"platforms": ["darwin", "linux"]},
        "user_config": {"key": {"type": "string", "title": "API key", "description": "API key",
            "required": true, "sensitive": true}},
    });
    assert_eq!(report["manifest"], manifest);
    let (output, checked) = check(&sandbox, "h.mcpb");
    assert_eq!((output.code, &checked["problems"]), (0, &json!([])), "{output:?}");
    assert_eq!(checked["files"][1]["executable"], true);
    assert_eq!((&checked["sha256"], &checked["bytes"]), (&report["sha256"], &report["bytes"]));
    // The same input makes the same bytes.
    let first = fs::read(sandbox.dir.join("h.mcpb")).unwrap();
    sandbox.run(&words).json();
    assert_eq!(first, fs::read(sandbox.dir.join("h.mcpb")).unwrap());
}

#[test]
fn programs_of_other_systems_are_overrides() {
    let sandbox = Sandbox::new("pack-platforms");
    sandbox.write("Cargo.toml", CARGO);
    let binary = program(&sandbox);
    let windows = sandbox.write("harbour.exe", "MZ and so on");
    let report = sandbox.run(&["pack", "--binary", &binary, "--binary", &windows]).json();
    let server = &report["manifest"]["server"];
    let overrides = json!({"win32": {"command": "${__dirname}/server/win32/harbour.exe"}});
    assert_eq!(server["mcp_config"]["platform_overrides"], overrides);
    let platforms = &report["manifest"]["compatibility"]["platforms"];
    assert_eq!(*platforms, json!(["darwin", "linux", "win32"]));
    let error = sandbox.run(&["pack", "--binary", &binary, "--binary", &binary]).error(1);
    assert!(
        error["message"].as_str().unwrap().contains("are both for darwin and linux"),
        "{error}"
    );
    let text = sandbox.write("notes.txt", "notes");
    let error = sandbox.run(&["pack", "--binary", &text]).error(1);
    assert!(error["message"].as_str().unwrap().contains("not a program"), "{error}");
}

#[test]
fn tools_and_prompts_are_listed_by_the_program() {
    let sandbox = Sandbox::new("pack-tools");
    sandbox.write("Cargo.toml", CARGO);
    let report = sandbox.run(&["pack", "--binary", &program(&sandbox), "--tools"]).json();
    let manifest = &report["manifest"];
    assert_eq!(manifest["tools"][0], json!({"name": "add", "description": "Adds two numbers."}));
    let review = json!({"name": "review", "description": "Requests a code review.",
        "arguments": ["code", "language"], "text": "Review this ${arguments.language} code:\n${arguments.code}"});
    assert_eq!(manifest["prompts"][1], review);
    let (output, _) = check(&sandbox, "harbour.mcpb");
    assert_eq!(output.code, 0, "{output:?}");
}

#[test]
fn a_manifest_that_lacks_something_is_not_packed() {
    let sandbox = Sandbox::new("pack-missing");
    let binary = program(&sandbox);
    let words = ["pack", "--binary", &binary, "--env", "KEY=${user_config.key}", "-o", "a.mcpb"];
    let error = sandbox.run(&words).error(1);
    assert_eq!(error["kind"], "invalid_file");
    for problem in [
        "name is missing",
        "version is missing",
        "description is missing",
        "author is missing",
        "user_config has no \"key\"",
    ] {
        assert!(error["message"].as_str().unwrap().contains(problem), "{problem}: {error}");
    }
    assert!(!sandbox.dir.join("a.mcpb").exists());
    let own = json!({"name": "own", "version": "1", "description": "Own.", "author": {"name": "Bob"},
        "server": {"mcp_config": {"args": ["--own"]}}});
    sandbox.write("own.json", &own.to_string());
    let report = sandbox.run(&["pack", "--binary", &binary, "--manifest", "own.json"]).json();
    assert_eq!(report["manifest"]["server"]["mcp_config"]["args"], json!(["--own"]));
    assert_eq!(report["manifest"]["server"]["type"], "binary");
}

#[test]
fn hostile_bundles_are_found() {
    let sandbox = Sandbox::new("pack-hostile");
    let manifest = json!({"manifest_version": "0.4", "name": "a", "version": "1", "description": "A.",
        "author": {"name": "B"}, "server": {"type": "binary", "entry_point": "server/a",
        "mcp_config": {"command": "${__dirname}/server/a"}}});
    let bundle = |name: &str, add: &dyn Fn(&mut ZipWriter<fs::File>)| {
        let mut writer = ZipWriter::new(fs::File::create(sandbox.dir.join(name)).unwrap());
        writer.start_file("manifest.json", SimpleFileOptions::default()).unwrap();
        writer.write_all(manifest.to_string().as_bytes()).unwrap();
        add(&mut writer);
        writer.finish().unwrap();
    };
    let file = |writer: &mut ZipWriter<fs::File>, name: &str, mode: u32| {
        writer.start_file(name, SimpleFileOptions::default().unix_permissions(mode)).unwrap();
        writer.write_all(b"#!/bin/sh\n").unwrap();
    };
    bundle("slip.mcpb", &|writer| file(writer, "../../evil", 0o755));
    bundle("absolute.mcpb", &|writer| file(writer, "/etc/evil", 0o755));
    bundle("mode.mcpb", &|writer| file(writer, "server/a", 0o644));
    bundle("link.mcpb", &|writer| {
        writer.add_symlink("server/a", "/etc/passwd", SimpleFileOptions::default()).unwrap();
    });
    for (name, problem) in [
        ("slip.mcpb", "\"../../evil\" leads out of the bundle"),
        ("absolute.mcpb", "\"/etc/evil\" leads out of the bundle"),
        ("mode.mcpb", "\"server/a\" is not executable"),
        ("link.mcpb", "is a symbolic link"),
    ] {
        let (output, report) = check(&sandbox, name);
        assert_eq!(output.printed_error(1)["kind"], "invalid_file", "{name}");
        let problems = report["problems"].as_array().unwrap();
        let is_there = problems.iter().any(|it| it.as_str().unwrap().contains(problem));
        assert!(is_there, "{name}: {problems:?}");
    }
    bundle("large.mcpb", &|writer| {
        writer.start_file("server/a", SimpleFileOptions::default()).unwrap();
        writer.write_all(&vec![0; 4 << 20]).unwrap();
    });
    assert_eq!(check(&sandbox, "large.mcpb").1["files"][1]["bytes"], 4 << 20);
    sandbox.write("text.mcpb", "PK but no more");
    assert!(
        check(&sandbox, "text.mcpb").0.printed_error(1)["message"]
            .as_str()
            .unwrap()
            .contains("not a ZIP")
    );
}
