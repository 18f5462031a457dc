//! Options of `cargo xtask bench`.

use std::time::Duration;

pub(crate) struct Options {
    pub(crate) quick: bool,
    /// Name prefixes of the selected workloads; empty for all.
    pub(crate) only: Vec<String>,
    pub(crate) servers: Vec<String>,
    pub(crate) rounds: usize,
    pub(crate) measured: Duration,
    pub(crate) instructions: bool,
    pub(crate) list: bool,
}

/// Name prefix of the workloads with tasks.
pub(crate) const TASKS: &str = "tasks";
/// Name prefix of the workloads with validators.
pub(crate) const SCHEMA: &str = "schema";

pub(crate) const USAGE: &str = "\
usage: cargo xtask bench [OPTIONS]

  --quick            one short round of each workload
  --only NAME,…      only workloads with these name prefixes
  --list             the names of the workloads
  --servers NAME,…   only these servers
  --rounds N         rounds of each workload (20)
  --seconds S        length of a round (0.1)
  --instructions     count instructions and allocations under callgrind instead
  --python           FastMCP 4 too
  --node             the TypeScript SDK too

A run of everything rewrites docs/bench; one with --quick, --only or --servers only prints. Clean builds,
which take long, are measured with --only build. Durable tasks, which need a redis-server, are measured with
--only tasks, which rewrites their part of docs/bench if --python is there too. Validators of JSON Schema are
measured with --only schema, which prints.";

impl Options {
    pub(crate) fn read(words: impl Iterator<Item = String>) -> Result<Self, String> {
        let mut options = Options {
            quick: false,
            only: Vec::new(),
            servers: Vec::new(),
            rounds: 20,
            measured: Duration::from_millis(100),
            instructions: false,
            list: false,
        };
        let mut words = words;
        while let Some(word) = words.next() {
            let mut value =
                || words.next().ok_or_else(|| format!("{word} needs a value\n\n{USAGE}"));
            match word.as_str() {
                "--quick" => options.quick = true,
                "--list" => options.list = true,
                "--instructions" => options.instructions = true,
                "--only" => options.only = names(&value()?),
                "--servers" => options.servers = names(&value()?),
                "--rounds" => options.rounds = number(&value()?)?,
                "--seconds" => {
                    let seconds = Duration::try_from_secs_f64(number(&value()?)?);
                    options.measured = seconds.map_err(|e| format!("--seconds: {e}"))?;
                }
                "--help" | "-h" => return Err(USAGE.to_owned()),
                // Handled by `cargo xtask bench`, which installs the servers.
                "--python" | "--node" => {}
                _ => return Err(format!("unknown option `{word}`\n\n{USAGE}")),
            }
        }
        if options.quick {
            options.rounds = 1;
            options.measured = Duration::from_millis(200);
        }
        Ok(options)
    }

    /// True if a run with these options is complete enough for the documentation.
    pub(crate) fn is_whole(&self) -> bool {
        let is_all = self.only.is_empty() || self.only == [TASKS];
        !self.quick && is_all && self.servers.is_empty()
    }

    /// True if only the workloads with tasks are measured.
    pub(crate) fn about_tasks(&self) -> bool {
        self.only.first().is_some_and(|name| name.starts_with(TASKS))
    }

    /// True if only the workloads with validators are measured.
    pub(crate) fn about_schemas(&self) -> bool {
        self.only.first().is_some_and(|name| name.starts_with(SCHEMA))
    }

    pub(crate) fn wants_server(&self, name: &str) -> bool {
        self.servers.is_empty() || self.servers.iter().any(|server| server == name)
    }

    pub(crate) fn wants(&self, workload: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|name| workload.starts_with(name.as_str()))
    }
}

fn names(list: &str) -> Vec<String> {
    list.split(',').map(str::to_owned).collect()
}

fn number<T: std::str::FromStr>(text: &str) -> Result<T, String> {
    text.parse().map_err(|_| format!("`{text}` is no number\n\n{USAGE}"))
}
