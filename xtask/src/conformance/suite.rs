//! Installs and runs the official conformance suite.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::authorization;
use super::scenario_result::{self, Scenario};
use crate::files::{create, read, write};
use crate::node::Node;
use crate::workspace::Workspace;

/// Timeout of a client for one scenario, on a busy machine.
const CLIENT_TIMEOUT_MS: &str = "60000";
/// URL of the client's metadata document, which the suite expects.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Side under test.
pub(crate) enum SuiteSide<'a> {
    Server {
        url: &'a str,
    },
    Client,
    /// Authorization server, and the program that acts as its consenting user.
    Authorization {
        url: &'a str,
        user_agent: &'a Path,
    },
}

pub(crate) struct Suite {
    node: Node,
    program: PathBuf,
    /// Directory of the built programs.
    programs: PathBuf,
    /// File name of the client.
    client: String,
    pub(crate) results: PathBuf,
}

impl Suite {
    /// Installs the version in `conformance/package-lock.json`, unless it is already installed.
    pub(crate) fn install(workspace: &Workspace, home: &Path) -> Result<Self, String> {
        let node = Node::find(workspace)?;
        let pins = workspace.root.join("conformance");
        let (lock, stamp) = (read(&pins.join("package-lock.json"))?, home.join("stamp"));
        if !fs::read_to_string(&stamp).is_ok_and(|installed| installed == lock) {
            println!("installing the conformance suite into {}", home.display());
            create(home)?;
            node.install(&pins, home)?;
            write(&stamp, &lock)?;
        }
        let program = home.join("node_modules/@modelcontextprotocol/conformance/dist/index.js");
        let client = workspace.program("everything-client");
        let name = client.file_name().unwrap_or_default().to_string_lossy().into_owned();
        let programs = client.parent().unwrap_or(home).to_owned();
        Ok(Self { node, program, programs, client: name, results: home.join("results") })
    }

    /// Runs all scenarios of a set; client scenarios run concurrently.
    pub(crate) fn run_set(
        &self,
        side: &SuiteSide<'_>,
        name: &str,
        which: &[&str],
    ) -> Result<Vec<Scenario>, String> {
        let directory = self.results.join(format!("{side}-{name}"));
        // The exit code is ignored: it also covers extensions that are not supported yet.
        self.run(side, which, &directory)?;
        scenario_result::read_all(&directory, side)
    }

    /// Runs one client scenario by itself, with a revision or the suite's default.
    pub(crate) fn run_alone(&self, name: &str, revision: Option<&str>) -> Result<Scenario, String> {
        let set = revision.unwrap_or("any");
        let directory = self.results.join(format!("alone-{set}")).join(name.replace('/', "-"));
        crate::files::remove_directory(&directory)?;
        let mut which = vec!["--scenario", name];
        if let Some(revision) = revision {
            which.extend(["--spec-version", revision, "--force"]);
        }
        let status = self.run(&SuiteSide::Client, &which, &directory)?;
        let without_results = || Scenario::without_results(format!("{name} has no result"));
        let scenario = scenario_result::read_all(&directory, &SuiteSide::Client)?.pop();
        Ok(scenario.unwrap_or_else(without_results).with_exit(status))
    }

    fn run(&self, side: &SuiteSide<'_>, which: &[&str], out: &Path) -> Result<ExitStatus, String> {
        create(out)?;
        let log = out.with_extension("log");
        let file =
            File::create(&log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let err = file.try_clone().map_err(|e| format!("cannot share {}: {e}", log.display()))?;
        let mut command = Command::new(&self.node.program);
        command.arg(&self.program);
        match side {
            SuiteSide::Server { url } => command.args(["server", "--url", url]),
            SuiteSide::Authorization { url, user_agent } => {
                command.args(["authorization", "--url", url]).args(which);
                command.arg("--output-dir").arg(out).stderr(err);
                return authorization::run(command, url, user_agent, file);
            }
            SuiteSide::Client => command
                // The suite splits the command at spaces, and the path may contain some.
                .current_dir(&self.programs)
                .env("WHARF_CLIENT_DOCUMENT", CLIENT_DOCUMENT)
                .args(["client", "--command", &format!("./{}", self.client)])
                .args(["--timeout", CLIENT_TIMEOUT_MS]),
        };
        command.args(which).arg("--output-dir").arg(out).stdout(file).stderr(err);
        command.status().map_err(|e| format!("cannot run the suite: {e}"))
    }
}

impl fmt::Display for SuiteSide<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            SuiteSide::Server { .. } => "server",
            SuiteSide::Client => "client",
            SuiteSide::Authorization { .. } => "authorization",
        })
    }
}
