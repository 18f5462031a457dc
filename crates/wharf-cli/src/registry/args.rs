//! Options of `wharf publish` and `wharf gen`.

use std::path::PathBuf;

use clap::{Args, Subcommand};

/// What is checked.
const CHECKED: &str = "\
Checked are the rules of the MCP registry for the file, for the package in Cargo.toml (name, version, and the
line `mcp-name: NAME` of its README), and the SHA-256 of bundles. Nothing is sent. `mcp-publisher` publishes.";

#[derive(Debug, Args)]
#[command(after_help = CHECKED)]
pub(crate) struct Publish {
    /// File to check [default: server.json]
    #[arg(value_name = "SERVER_JSON")]
    pub(crate) file: Option<PathBuf>,
    /// Check the file, offline; the only thing that this command does
    #[arg(long, required = true)]
    pub(crate) check: bool,
    /// Cargo.toml of the cargo package [default: the one beside the file]
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Bundle whose SHA-256 the file must have; may be repeated
    #[arg(long, value_name = "BUNDLE")]
    pub(crate) mcpb: Vec<PathBuf>,
    /// Print JSON, at a terminal too
    #[arg(long)]
    pub(crate) json: bool,
}

#[derive(Debug, Args)]
pub(crate) struct Gen {
    #[command(subcommand)]
    pub(crate) what: GenCommand,
}

#[derive(Debug, Subcommand)]
pub(crate) enum GenCommand {
    /// Write a server.json for the MCP registry from the package in Cargo.toml
    ServerJson(GenServerJson),
}

#[derive(Debug, Args)]
pub(crate) struct GenServerJson {
    /// Cargo.toml of the package [default: Cargo.toml]
    #[arg(long, value_name = "FILE")]
    pub(crate) manifest_path: Option<PathBuf>,
    /// Name in the registry [default: that in the README, or io.github.OWNER/PACKAGE]
    #[arg(long)]
    pub(crate) name: Option<String>,
    /// Display name
    #[arg(long)]
    pub(crate) title: Option<String>,
    /// Description, at most 100 characters [default: that of the package]
    #[arg(long)]
    pub(crate) description: Option<String>,
    /// Version [default: that of the package]
    #[arg(long = "server-version", value_name = "VERSION")]
    pub(crate) version: Option<String>,
    /// URL of a hosted server; may be repeated
    #[arg(long, value_name = "URL")]
    pub(crate) remote: Vec<String>,
    /// URL of a bundle in a release on GitHub or GitLab
    #[arg(long, value_name = "URL")]
    pub(crate) mcpb: Option<String>,
    /// SHA-256 of the bundle, or the bundle itself
    #[arg(long, value_name = "HASH|FILE", requires = "mcpb")]
    pub(crate) sha256: Option<String>,
    /// Leave the package of crates.io out
    #[arg(long)]
    pub(crate) no_cargo: bool,
    /// File to write [default: stdout]
    #[arg(long, short, value_name = "FILE")]
    pub(crate) output: Option<PathBuf>,
}
