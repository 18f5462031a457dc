//! Benchmark runner: parses the options, measures, and prints the tables.

mod chart;
mod contenders;
mod documents;
mod figures;
mod footprint;
mod instructions;
mod machine;
mod options;
mod results;
mod rounds;
mod stores;
mod table;
mod targets;
mod validators;
mod workloads;

use std::env;
use std::time::Instant;

use bench::process::Cores;

use contenders::{Contender, FASTMCP, RUST, TASK_SERVERS, VALIDATORS};
use documents::Report;
use options::Options;
use results::Outcome;
use rounds::RoundRunner;
use workloads::Workload;

pub(crate) fn run() -> Result<(), String> {
    let options = Options::read(env::args().skip(1))?;
    let workloads = chosen(&options)?;
    if options.list {
        workloads.iter().for_each(|one| println!("{:<22}{}", one.name, one.title));
        return Ok(());
    }
    if options.instructions {
        instructions::require_valgrind()?;
    }
    let programs = match (options.about_tasks(), options.about_schemas()) {
        (true, _) => &TASK_SERVERS[..],
        (_, true) => &VALIDATORS,
        _ => &RUST,
    };
    let mut contenders = Contender::all(programs)?;
    contenders.retain(|contender| options.wants_server(contender.name));
    let cores = Cores::choose().map_err(|e| format!("cannot pin processes to cores: {e}"))?;
    if !cores.are_pinned() {
        eprintln!("bench: only one core is available, which servers and generator share");
    }
    let mut made = machine::describe(cores.count());
    let outcomes = measure(&options, &cores, &contenders, workloads);
    made["load_average_after"] = machine::load_average().into();
    made["rounds"] = options.rounds.into();
    made["seconds"] = options.measured.as_secs_f64().into();
    let verdicts = targets::evaluate(&outcomes);
    println!("{}", table::outcomes(&outcomes));
    println!("{}", table::notes(&outcomes));
    if !verdicts.is_empty() {
        println!("{}", table::verdicts(&verdicts));
    }
    let (name, all_there) = if options.about_tasks() {
        (options::TASKS, contenders.iter().any(|one| one.name == FASTMCP))
    } else {
        let all_there = contenders.iter().filter(|one| one.is_rust()).count() == RUST.len();
        (if options.instructions { "instructions" } else { "results" }, all_there)
    };
    let report = Report { name, made, outcomes: &outcomes, verdicts: &verdicts };
    publish(&report, all_there && options.is_whole())
}

/// Writes the report to the documentation if the run is complete.
fn publish(report: &Report<'_>, is_whole: bool) -> Result<(), String> {
    if !is_whole {
        println!("Not all workloads or servers were measured: docs/bench is unchanged.");
        return Ok(());
    }
    report.write()?;
    println!("Written to docs/bench.");
    Ok(())
}

/// Workloads that the options select.
fn chosen(options: &Options) -> Result<Vec<Workload>, String> {
    let mut chosen = if options.instructions { workloads::counted() } else { workloads::all() };
    chosen.retain(|one| one.name.starts_with(options::TASKS) == options.about_tasks());
    chosen.retain(|one| one.name.starts_with(options::SCHEMA) == options.about_schemas());
    // Clean builds take longer than everything else.
    chosen.retain(|one| {
        options.wants(&one.name) && !(options.only.is_empty() && one.name == "build")
    });
    if chosen.is_empty() {
        return Err("no workload has this name: see --list".to_owned());
    }
    Ok(chosen)
}

fn measure(
    options: &Options,
    cores: &Cores,
    contenders: &[Contender],
    workloads: Vec<Workload>,
) -> Vec<Outcome> {
    let rounds = RoundRunner {
        cores,
        contenders,
        rounds: options.rounds,
        measured: options.measured,
        counted_calls: if options.quick { 100 } else { 500 },
    };
    let count = workloads.len();
    let run = |(at, workload): (usize, Workload)| {
        eprint!("[{}/{count}] {} …", at + 1, workload.title);
        let began = Instant::now();
        let outcome = rounds.run(workload);
        eprintln!(" {:.1} s", began.elapsed().as_secs_f32());
        outcome
    };
    workloads.into_iter().enumerate().map(run).collect()
}
