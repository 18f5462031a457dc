//! Bundles and `server.json` files, read by others: the `mcpb` command of npm, and the JSON schema of the registry.
//!
//! `cargo xtask foreign` installs both.

use std::{fs, os::unix::fs::PermissionsExt as _, path::Path, process::Command};

use serde_json::Value;
use wharf_testbed::foreign_programs::Installed;

use crate::cli::{
    pack::{CARGO, program},
    publish,
    sandbox::Sandbox,
};

/// Runs a program to its end, and returns what it wrote; an error if it fails.
fn run(command: &mut Command) -> Result<String, String> {
    let output = command.output().map_err(|error| format!("cannot run {command:?}: {error}"))?;
    let said = [output.stdout, output.stderr].concat();
    let said = String::from_utf8_lossy(&said).into_owned();
    if output.status.success() { Ok(said) } else { Err(format!("{command:?}: {said}")) }
}

fn mcpb(installed: &Installed, words: &[&str], dir: &Path) -> Result<String, String> {
    let script = installed.home.join("node_modules/@anthropic-ai/mcpb/dist/cli/cli.js");
    run(Command::new(installed.runtime("cli.js")).arg(script).args(words).current_dir(dir))
}

#[test]
fn a_bundle_is_valid_for_mcpb_and_starts_when_unpacked() {
    let installed = Installed::find().unwrap();
    let sandbox = Sandbox::new("mcpb");
    sandbox.write("Cargo.toml", CARGO);
    let windows = sandbox.write("harbour.exe", "MZ and so on");
    let binary = program(&sandbox);
    let config = "key,type=number,title=Key,default=3,min=1";
    let packed = sandbox.run(&[
        "pack",
        "--binary",
        &binary,
        "--binary",
        &windows,
        "--tools",
        "--user-config",
        config,
        "-o",
        "h.mcpb",
    ]);
    packed.json();
    let unpacked = sandbox.dir.join("unpacked");
    let words = ["unpack", "h.mcpb", "unpacked"];
    mcpb(&installed, &words, &sandbox.dir).unwrap();
    let said = mcpb(&installed, &["validate", "unpacked/manifest.json"], &sandbox.dir).unwrap();
    assert!(said.contains("passes"), "{said}");
    let text = fs::read_to_string(unpacked.join("manifest.json")).unwrap();
    let manifest: Value = serde_json::from_str(&text).unwrap();
    let entry = unpacked.join(manifest["server"]["entry_point"].as_str().unwrap());
    assert_eq!(fs::metadata(&entry).unwrap().permissions().mode() & 0o777, 0o755);
    let called = sandbox.run(&["call", "add", "a=1", "b=2", "--", &entry.to_string_lossy()]);
    assert_eq!(called.json()["content"][0]["text"], "3");

    // The validation can fail.
    let broken = text.replace("\"manifest_version\": \"0.4\"", "\"manifest_version\": \"9\"");
    assert_ne!(broken, text);
    fs::write(unpacked.join("manifest.json"), broken).unwrap();
    assert!(mcpb(&installed, &["validate", "unpacked/manifest.json"], &sandbox.dir).is_err());
}

#[test]
fn a_bundle_of_mcpb_passes_the_check() {
    let installed = Installed::find().unwrap();
    let sandbox = Sandbox::new("mcpb-check");
    sandbox.write("Cargo.toml", CARGO);
    sandbox.run(&["pack", "--binary", &program(&sandbox), "-o", "h.mcpb"]).json();
    mcpb(&installed, &["unpack", "h.mcpb", "unpacked"], &sandbox.dir).unwrap();
    mcpb(&installed, &["pack", "unpacked", "again.mcpb"], &sandbox.dir).unwrap();
    let report = sandbox.run(&["pack", "--check", "again.mcpb"]).json();
    assert_eq!(report["problems"], serde_json::json!([]));
}

#[test]
fn a_generated_server_json_is_valid_in_the_schema_of_the_registry() {
    let installed = Installed::find().unwrap();
    let sandbox = Sandbox::new("registry-schema");
    publish::package(&sandbox);
    sandbox.write("h.mcpb", "a bundle");
    let bundle = "https://github.com/ann/harbour/releases/download/v1/h.mcpb";
    for (file, words) in [
        ("one.json", vec![]),
        (
            "two.json",
            vec!["--remote", "https://a.example/mcp", "--mcpb", bundle, "--sha256", "h.mcpb"],
        ),
        ("three.json", vec!["--no-cargo", "--remote", "https://a.example/mcp"]),
    ] {
        let output = sandbox.run(&[&["gen", "server-json", "-o", file], &*words].concat());
        assert_eq!(output.code, 0, "{output:?}");
    }
    sandbox.write("bad.json", &format!(
        "{{\"$schema\": \"https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json\", \
         \"name\": \"{}\", \"version\": \"1.0.0\"}}", publish::NAME));
    let schema = |words: &[&str]| {
        let mut command = Command::new(installed.runtime("registry_schema.py"));
        command.arg(installed.scripts.join("registry_schema.py")).args(words);
        run(command.current_dir(&sandbox.dir).env("PYTHONDONTWRITEBYTECODE", "1"))
    };
    schema(&["valid", "one.json", "two.json", "three.json"]).unwrap();
    schema(&["invalid", "bad.json"]).unwrap();
}
