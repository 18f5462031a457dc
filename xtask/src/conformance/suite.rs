//! The official suite: how it is installed and run.

use std::fmt;
use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::{Command, ExitStatus};

use super::authorization;
use super::scenario::{self, Scenario};
use crate::files::{create, read, write};
use crate::node::Node;
use crate::workspace::Workspace;

/// How long a client may take for one scenario, on a busy machine.
const CLIENT_TIMEOUT_MS: &str = "60000";
/// Where the client says that it publishes what it is: the suite knows this URL.
const CLIENT_DOCUMENT: &str = "https://conformance-test.local/client-metadata.json";

/// Which side of Wharf is examined.
pub(crate) enum Side<'a> {
    Server {
        url: &'a str,
    },
    Client,
    /// An authorization server, and the program that agrees to what it asks.
    Authorization {
        url: &'a str,
        person: &'a Path,
    },
}

pub(crate) struct Suite {
    node: Node,
    program: PathBuf,
    /// Where cargo puts the client.
    programs: PathBuf,
    /// The client's file name.
    client: String,
    pub(crate) results: PathBuf,
}

impl Suite {
    /// Installs the suite that `conformance/package-lock.json` pins, unless it is there.
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

    /// Runs a set, all of its scenarios at once if it is the client's.
    pub(crate) fn run_set(
        &self,
        side: &Side<'_>,
        name: &str,
        which: &[&str],
    ) -> Result<Vec<Scenario>, String> {
        let directory = self.results.join(format!("{side}-{name}"));
        // Its exit code says no more than the results do, and minds extensions that are to come.
        self.run(side, which, &directory)?;
        scenario::read_all(&directory, side)
    }

    /// Runs one of the client's scenarios by itself, at a revision or at the suite's choice.
    pub(crate) fn run_alone(&self, name: &str, revision: Option<&str>) -> Result<Scenario, String> {
        let set = revision.unwrap_or("any");
        let directory = self.results.join(format!("alone-{set}")).join(name.replace('/', "-"));
        crate::files::remove_directory(&directory)?;
        let mut which = vec!["--scenario", name];
        if let Some(revision) = revision {
            which.extend(["--spec-version", revision, "--force"]);
        }
        let status = self.run(&Side::Client, &which, &directory)?;
        let lost = || Scenario::lost(format!("{name} has no result"));
        let scenario = scenario::read_all(&directory, &Side::Client)?.pop();
        Ok(scenario.unwrap_or_else(lost).with_exit(status))
    }

    fn run(&self, side: &Side<'_>, which: &[&str], out: &Path) -> Result<ExitStatus, String> {
        create(out)?;
        let log = out.with_extension("log");
        let file =
            File::create(&log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let err = file.try_clone().map_err(|e| format!("cannot share {}: {e}", log.display()))?;
        let mut command = Command::new(&self.node.program);
        command.arg(&self.program);
        match side {
            Side::Server { url } => command.args(["server", "--url", url]),
            Side::Authorization { url, person } => {
                command.args(["authorization", "--url", url]).args(which);
                command.arg("--output-dir").arg(out).stderr(err);
                return authorization::run(command, url, person, file);
            }
            Side::Client => command
                // It splits the command at its spaces, which the path may have.
                .current_dir(&self.programs)
                .env("WHARF_CLIENT_DOCUMENT", CLIENT_DOCUMENT)
                .args(["client", "--command", &format!("./{}", self.client)])
                .args(["--timeout", CLIENT_TIMEOUT_MS]),
        };
        command.args(which).arg("--output-dir").arg(out).stdout(file).stderr(err);
        command.status().map_err(|e| format!("cannot run the suite: {e}"))
    }
}

impl fmt::Display for Side<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Side::Server { .. } => "server",
            Side::Client => "client",
            Side::Authorization { .. } => "authorization",
        })
    }
}
