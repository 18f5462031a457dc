//! `wharf pack`: makes an MCP bundle (`.mcpb`) of a binary, or checks one.
//!
//! A bundle is a ZIP file with a `manifest.json` (version 0.4). Equal inputs make equal bytes.

mod archive;
mod args;
mod check;
mod listing;
mod manifest;
mod platform;

use std::{fs, path::Path};

use serde_json::{Map, Value, json};
use sha2::{Digest, Sha256};

use crate::{
    bundle::{
        archive::{BundleFile, write_bundle},
        manifest::ManifestInput,
        platform::BinaryFile,
    },
    cargo_manifest::CargoPackage,
    commands::Run,
    context::Context,
    error::CliError,
    terminal::{bytes, clean},
};

pub(crate) use args::Pack;

impl Run for Pack {
    async fn run(&self, context: &Context) -> Result<(), CliError> {
        match &self.check {
            Some(file) => check::check_bundle(file, context),
            None => self.pack(context).await,
        }
    }
}

impl Pack {
    async fn pack(&self, context: &Context) -> Result<(), CliError> {
        let binaries = self.binaries()?;
        let package = CargoPackage::find(self.manifest_path.as_deref(), Path::new("."))?;
        let mut input = ManifestInput::new(self, package.map(|it| it.1), &binaries)?;
        if self.tools {
            input.listing = listing::list(self, &binaries, context).await?;
        }
        let mut manifest = input.manifest();
        if let Some(file) = &self.manifest {
            merge(&mut manifest, read_object(file)?);
        }
        let mut files: Vec<BundleFile> = binaries.iter().map(BinaryFile::bundled).collect();
        for file in &self.add {
            files.push(added(file)?);
        }
        if let Some(icon) = &self.icon {
            files.push(BundleFile::read("icon.png", icon, false)?);
        }
        let problems = manifest::problems(&manifest, &files);
        if !problems.is_empty() {
            let hint =
                "Options of `wharf pack`, the package in Cargo.toml, or --manifest FILE set them.";
            return Err(CliError::invalid_file(problems.join("\n")).hint(hint.to_owned()));
        }
        let archive = write_bundle(&manifest, files)?;
        let name = manifest["name"].as_str().unwrap_or_default();
        let output = self.output.clone().unwrap_or_else(|| format!("{name}.mcpb").into());
        fs::write(&output, &archive).map_err(|error| {
            CliError::usage(format!("cannot write {}: {error}", output.display()))
        })?;
        let out = context.out;
        let (size, sha256) = (archive.len(), sha256_of(&archive));
        if out.is_json() {
            let file = output.to_string_lossy();
            let report =
                json!({"file": file, "bytes": size, "sha256": sha256, "manifest": manifest});
            return out.json(&report);
        }
        let output = output.to_string_lossy();
        out.lines(&[format!("{} ({})", clean(&output), bytes(size)), format!("sha256 {sha256}")])
    }

    fn binaries(&self) -> Result<Vec<BinaryFile>, CliError> {
        if self.binary.is_empty() {
            return Err(CliError::usage("--binary FILE is missing").hint(
                "Name the program to pack: wharf pack --binary target/release/my-server".to_owned(),
            ));
        }
        BinaryFile::read_all(&self.binary)
    }
}

/// File that `--add NAME=FILE` puts into the bundle.
fn added((name, file): &(String, String)) -> Result<BundleFile, CliError> {
    BundleFile::read(name, Path::new(file), false)
}

/// Replaces the members of `manifest` by those of `own`, in nested objects too.
fn merge(manifest: &mut Map<String, Value>, own: Map<String, Value>) {
    for (key, value) in own {
        match (manifest.get_mut(&key), value) {
            (Some(Value::Object(there)), Value::Object(own)) => merge(there, own),
            (_, value) => _ = manifest.insert(key, value),
        }
    }
}

fn read_object(file: &Path) -> Result<Map<String, Value>, CliError> {
    let wrong = |why: String| CliError::usage(format!("--manifest {}: {why}", file.display()));
    let text = fs::read(file).map_err(|error| wrong(error.to_string()))?;
    serde_json::from_slice(&text).map_err(|error| wrong(error.to_string()))
}

/// SHA-256 in hexadecimal, as `server.json` has it.
pub(crate) fn sha256_of(bytes: &[u8]) -> String {
    Sha256::digest(bytes).iter().map(|byte| format!("{byte:02x}")).collect()
}
