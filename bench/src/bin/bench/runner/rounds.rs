//! Runs a workload: starts all servers, then measures them in turn in each round.

use std::time::Duration;

use bench::command_line::Mode;
use bench::load::{HttpLoad, Lines, Operation, Protocol, Sample, Script, Span};
use bench::process::Cores;

use super::contenders::Contender;
use super::results::{Entry, Outcome};
use super::stores::StoreEngine;
use super::workloads::{Measure, Traffic, Workload};
use super::{footprint, instructions, validators};

pub(crate) struct RoundRunner<'a> {
    pub(crate) cores: &'a Cores,
    pub(crate) contenders: &'a [Contender],
    pub(crate) rounds: usize,
    pub(crate) measured: Duration,
    /// Number N of calls for callgrind, which runs N and 2N.
    pub(crate) counted_calls: u64,
}

/// Measures one round of one running server.
type Measurement<'a> = Box<dyn FnMut() -> Result<Sample, String> + 'a>;

/// Warm-up at the start of each round.
const WARMUP_TIME: Duration = Duration::from_millis(50);

impl RoundRunner<'_> {
    pub(crate) fn run(&self, workload: Workload) -> Outcome {
        let mut running = Vec::new();
        for contender in self.contenders {
            let entry = Entry::new(contender.name);
            match self.prepare(&workload, contender) {
                Ok(measurement) => running.push((entry, Some(measurement))),
                Err(why) => running.push((entry.failed(why), None)),
            }
        }
        for _ in 0..self.rounds_of(&workload.measure) {
            for (entry, measurement) in &mut running {
                let Some(measure) = measurement else { continue };
                match measure() {
                    Ok(sample) => entry.rounds.push(sample),
                    Err(why) => {
                        entry.error = Some(why);
                        *measurement = None;
                    }
                }
            }
        }
        let entries = running.into_iter().map(|(entry, _)| entry).collect();
        let Workload { name, title, figures, .. } = workload;
        Outcome { name, title, figures, entries }
    }

    fn rounds_of(&self, measure: &Measure) -> usize {
        match measure {
            Measure::Http(_)
            | Measure::Crowded(_)
            | Measure::OneByOne(..)
            | Measure::Pipelined(_)
            | Measure::ColdStart
            | Measure::Schema(_) => self.rounds,
            Measure::Tasks(..) => self.rounds.div_ceil(2),
            _ => 1,
        }
    }

    fn prepare<'a>(
        &'a self,
        workload: &'a Workload,
        contender: &'a Contender,
    ) -> Result<Measurement<'a>, String> {
        let cores = self.cores;
        Ok(match &workload.measure {
            Measure::Http(traffic) => self.http(contender, traffic)?,
            Measure::Crowded(traffic) => {
                let plain = Traffic { tools: 0, idle_sessions: 0, ..traffic.clone() };
                let mut plain = self.http(contender, &plain)?;
                let mut crowded = self.http(contender, traffic)?;
                Box::new(move || {
                    let (plain, mut crowded) = (plain()?, crowded()?);
                    crowded.insert("times_plain", crowded["cpu_us"] / plain["cpu_us"]);
                    Ok(crowded)
                })
            }
            Measure::OneByOne(operation, protocol) => {
                let mut lines = Lines::open(cores, &mut contender.stdio(), *protocol)?;
                Box::new(move || lines.one_by_one(*operation, *protocol, self.span()))
            }
            Measure::Pipelined(calls) => Box::new(move || {
                let mut lines = Lines::open(cores, &mut contender.stdio(), Protocol::Legacy)?;
                lines.pipelined(Operation::Echo(32), Protocol::Legacy, *calls)
            }),
            Measure::ColdStart => Box::new(move || {
                Lines::cold_start(cores, &mut contender.stdio()).map_err(|e| e.to_string())
            }),
            Measure::Sessions(count) => {
                Box::new(move || footprint::sessions(cores, contender, *count))
            }
            Measure::Listens(mode, count) => {
                Box::new(move || footprint::listens(cores, contender, *mode, *count))
            }
            Measure::Tasks(engine, clients) => self.tasks(contender, *engine, *clients)?,
            Measure::Schema(schema) => {
                Box::new(move || validators::measure(cores, contender, schema, self.measured))
            }
            Measure::Size => Box::new(move || footprint::size(contender)),
            Measure::Crates => Box::new(move || footprint::crates(contender)),
            Measure::Build => Box::new(move || footprint::build(cores, contender)),
            Measure::CountedCall(counted) => Box::new(move || {
                instructions::count(cores, contender, *counted, &workload.name, self.counted_calls)
            }),
        })
    }

    fn http(&self, contender: &Contender, traffic: &Traffic) -> Result<Measurement<'_>, String> {
        let Traffic { mode, connections, tools, idle_sessions, .. } = *traffic;
        let listening = contender.listen(self.cores, mode, tools)?;
        footprint::open_sessions(listening.address, idle_sessions)?;
        let (address, script) = (listening.address, traffic.script.clone());
        let load = HttpLoad { address, mode, script, connections, span: self.span() };
        // The first call of a server and of a connection is not representative.
        HttpLoad { span: Span::Calls(1), ..load.clone() }.run(&listening.server)?;
        Ok(Box::new(move || load.run(&listening.server)))
    }

    fn tasks(
        &self,
        contender: &Contender,
        engine: StoreEngine,
        connections: u64,
    ) -> Result<Measurement<'_>, String> {
        let store = engine.open(self.cores, contender.name)?;
        let server = contender
            .with_store(engine, &store)
            .ok_or("the server does not support this task store")?;
        let mode = Mode::Modern;
        let listening = server.listen(self.cores, mode, 0)?;
        let script = Script::Tasks(Operation::Job(7));
        // Longer than rounds of calls, because a task takes longer and some are in flight at both ends.
        let span = Span::Time { warm: 10 * self.measured, measured: 20 * self.measured };
        let load = HttpLoad { address: listening.address, mode, script, connections, span };
        HttpLoad { span: Span::Calls(1), ..load.clone() }.run(&listening.server)?;
        Ok(Box::new(move || load.run_with(&listening.server, store.process())))
    }

    fn span(&self) -> Span {
        Span::Time { warm: WARMUP_TIME, measured: self.measured }
    }
}
