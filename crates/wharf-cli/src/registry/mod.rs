//! `wharf publish --check` and `wharf gen server-json`: the `server.json` of the MCP registry, checked without a network
//! and made from a package.

mod args;
mod generate;
mod inputs;
mod packages;
mod readme;
mod remotes;
mod report;
mod server_json;

use std::{
    fs,
    path::{Path, PathBuf},
};

use serde_json::{Value, json};

use crate::{
    bundle::sha256_of,
    cargo_manifest::CargoPackage,
    error::CliError,
    registry::{packages::PackageFiles, report::PublishReport},
    show::ResultOutput,
    terminal::StderrOutput,
};

pub(crate) use args::{Gen, GenCommand, Publish};

/// URL of the current schema of `server.json`.
const SCHEMA: &str = "https://static.modelcontextprotocol.io/schemas/2025-12-11/server.schema.json";

/// Runs `wharf publish --check`.
pub(crate) fn publish(publish: &Publish) -> Result<(), CliError> {
    let file = publish.file.clone().unwrap_or_else(|| PathBuf::from("server.json"));
    let text = fs::read(&file).map_err(|error| {
        CliError::usage(format!("cannot read {}: {error}", file.display()))
            .hint("`wharf gen server-json -o server.json` makes one.".to_owned())
    })?;
    let mut report = PublishReport::default();
    let document = match serde_json::from_slice::<Value>(&text) {
        Ok(document @ Value::Object(_)) => document,
        Ok(_) => {
            report.error("", "the file is not a JSON object", "begin it with {");
            Value::Null
        }
        Err(error) => {
            report.error("", format!("the file is not JSON: {error}"), "correct it there");
            Value::Null
        }
    };
    let directory = file.parent().unwrap_or(Path::new("")).to_owned();
    let cargo = CargoPackage::find(publish.manifest_path.as_deref(), &directory)?;
    if document.is_object() {
        let files = PackageFiles { cargo: cargo.map(|it| it.1), bundles: bundles(&publish.mcpb)? };
        server_json::check(&document, &mut report);
        packages::check_files(&document, &files, &mut report);
    }
    let out = ResultOutput::new(publish.json);
    if out.is_json() {
        let (errors, warnings) = report.counts();
        out.json(&json!({"file": file.to_string_lossy(), "errors": errors, "warnings": warnings,
            "problems": report.problems}))?;
    } else {
        out.lines(&report.lines(&file.to_string_lossy(), out.columns(), out.paint()))?;
    }
    match report.counts() {
        (0, _) => Ok(()),
        (count, _) => Err(CliError::invalid_file(format!(
            "{} cannot be published: {count} {}",
            file.display(),
            if count == 1 { "error" } else { "errors" }
        ))),
    }
}

/// SHA-256 of each bundle, with its file name.
fn bundles(files: &[PathBuf]) -> Result<Vec<(String, String)>, CliError> {
    let read = |file: &PathBuf| {
        let content = fs::read(file)
            .map_err(|error| CliError::usage(format!("--mcpb {}: {error}", file.display())))?;
        let name = file.file_name().unwrap_or_default().to_string_lossy().into_owned();
        Ok((name, sha256_of(&content)))
    };
    files.iter().map(read).collect()
}

/// Runs `wharf gen`.
pub(crate) fn generate(command: &Gen, screen: &StderrOutput) -> Result<(), CliError> {
    let GenCommand::ServerJson(options) = &command.what;
    let (document, notes) = generate::server_json(options)?;
    let mut report = PublishReport::default();
    server_json::check(&document, &mut report);
    if let (1.., _) = report.counts() {
        return Err(CliError::invalid_file(report.errors().join("\n")).hint(
            "Options of `wharf gen server-json` and the Cargo.toml set the values.".to_owned(),
        ));
    }
    for note in notes {
        screen.line(&note);
    }
    let text = serde_json::to_string_pretty(&document).unwrap_or_default() + "\n";
    match &options.output {
        Some(file) => fs::write(file, text)
            .map_err(|error| CliError::usage(format!("cannot write {}: {error}", file.display()))),
        None => ResultOutput::new(false).bytes(text.as_bytes()),
    }
}
