//! Runs the official conformance suite against `everything-server`.

mod report;
mod server;

use std::fs::{self, File};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Instant;

use crate::files::{create, read, remove_directory, write};
use crate::node::Node;
use crate::workspace::Workspace;
use report::{Report, Scenario};
use server::Server;

/// What the suite is asked to run. It says itself what belongs to each.
struct Set {
    name: &'static str,
    arguments: [&'static str; 2],
    /// How many scenarios it has: results that are missing must not pass for good ones.
    scenarios: usize,
}

const SETS: [Set; 3] = [
    Set { name: "2025-11-25", arguments: ["--requirements", "2025-11-25"], scenarios: 33 },
    Set { name: "2026-07-28", arguments: ["--requirements", "2026-07-28"], scenarios: 50 },
    Set { name: "all", arguments: ["--suite", "all"], scenarios: 65 },
];

pub(crate) fn run(workspace: &Workspace) -> Result<(), String> {
    let home = workspace.target.join("conformance");
    let suite = Suite::install(workspace, &home)?;
    workspace.cargo("build --workspace --all-features --bin everything-server")?;
    let mut server = Server::start(&workspace.program("everything-server"))?;
    println!("everything-server: {}", server.url);
    let report = suite.run_all(&server.url);
    let judged = report.and_then(|report| {
        let path = home.join("report.md");
        write(&path, &report.to_string())?;
        println!("\n{report}\n{}", path.display());
        report.judge()
    });
    judged.inspect_err(|_| server.explain())
}

struct Suite {
    node: Node,
    program: PathBuf,
    results: PathBuf,
}

impl Suite {
    /// Installs the suite that `conformance/package-lock.json` pins, unless it is there.
    fn install(workspace: &Workspace, home: &Path) -> Result<Self, String> {
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
        Ok(Self { node, program, results: home.join("results") })
    }

    fn run_all(&self, url: &str) -> Result<Report, String> {
        remove_directory(&self.results)?;
        let mut report = Report::default();
        for set in &SETS {
            let began = Instant::now();
            let scenarios = self.run(set, url)?;
            let seconds = began.elapsed().as_secs_f32();
            println!("{}: {} scenarios, {seconds:.1} s", set.name, scenarios.len());
            report.add(set.name, scenarios);
        }
        Ok(report)
    }

    fn run(&self, set: &Set, url: &str) -> Result<Vec<Scenario>, String> {
        let directory = self.results.join(set.name);
        create(&directory)?;
        let log = self.results.join(format!("{}.log", set.name));
        let out = File::create(&log).map_err(|e| format!("cannot write {}: {e}", log.display()))?;
        let err = out.try_clone().map_err(|e| format!("cannot share {}: {e}", log.display()))?;
        // Its exit code says no more than the results do, and minds extensions that are to come.
        Command::new(&self.node.program)
            .arg(&self.program)
            .args(["server", "--url", url])
            .args(set.arguments)
            .arg("--output-dir")
            .arg(&directory)
            .stdout(out)
            .stderr(err)
            .status()
            .map_err(|e| format!("cannot run the suite: {e}"))?;
        let mut scenarios = report::read_results(&directory)?;
        let (found, expected) = (scenarios.len(), set.scenarios);
        if found != expected {
            let why = format!("{found} of {expected} have results; see {}", log.display());
            scenarios.push(Scenario::lost(why));
        }
        Ok(scenarios)
    }
}
