//! `wharf bench`: measures throughput and latency of a server.

pub(crate) mod counters;
pub(crate) mod histogram;
pub(crate) mod json_report;
pub(crate) mod live_display;
pub(crate) mod load_loop;
pub(crate) mod summary;
pub(crate) mod workload;

use std::{future::Future, pin::pin, sync::Arc, time::Duration};

use tokio::time::Instant;
use wharf::{
    Client, Era, ProtocolVersion,
    client::{CallOptions, ServerInfo},
    model::Deadlines,
    server::ThreadTimer,
};

use crate::commands::bench::{
    counters::{CallCounts, SharedCounters},
    json_report::{BenchReport, BenchResults, BenchSubject, ServerUnderTest},
    load_loop::{LoadMode, LoadPlan, RunEnd},
    workload::{BenchConnection, Workload},
};
use crate::commands::call::{agreed, find};
use crate::{
    arguments::{arguments, parse_arguments},
    cli::Bench,
    context::Context,
    error::CliError,
    target_argument,
};

/// Default durations of the measurement and of the warm-up.
const DURATION: Duration = Duration::from_secs(10);
const WARMUP: Duration = Duration::from_secs(1);

/// Default maximum number of calls in flight per connection.
const CLOSED_IN_FLIGHT: u16 = 1;
const OPEN_IN_FLIGHT: u16 = 128;

impl Bench {
    /// Measures until the end or until `interrupt` completes, and reports the results either way.
    pub(crate) async fn run(
        &self,
        context: &Context,
        interrupt: impl Future<Output = CliError>,
    ) -> Result<(), CliError> {
        let mut interrupt = pin!(interrupt);
        let (connections, subject) = tokio::select! {
            biased;
            prepared = self.prepare(context) => prepared?,
            fail = &mut interrupt => {
                context.questions.end();
                return Err(fail);
            }
        };
        let plan = self.plan();
        let warmup = LoadPlan { end: RunEnd::After(self.warmup()), ..plan };
        let (_, cut_short) =
            run_phase(context, &connections, &warmup, "Warming up: ", interrupt.as_mut()).await;
        if let Some(fail) = cut_short {
            return Err(fail);
        }
        let (board, cut_short) = run_phase(context, &connections, &plan, "", interrupt).await;
        context.screen.clear();
        let tally = board.total();
        let elapsed = match &cut_short {
            Some(_) => board.started.elapsed(),
            None => elapsed(&plan, board.started, &tally),
        };
        let (missed, interrupted) = (board.missed(), cut_short.is_some());
        let warmup = self.warmup();
        let measured = BenchResults { tally, missed, warmup, elapsed, interrupted };
        let report = BenchReport::new(subject, &plan, measured);
        show(context, &report)?;
        cut_short.map_or_else(|| exit_result(&report), Err)
    }

    /// Connects, and validates that the requested operation can be called.
    async fn prepare(
        &self,
        context: &Context,
    ) -> Result<(Vec<BenchConnection>, BenchSubject), CliError> {
        let words = self.words.words.clone();
        let (target, words) = target_argument::split(words, &context.shared.command)?;
        let wanted = match words.split_first() {
            Some((name, words)) => Some((name, parse_arguments(words)?)),
            None => None,
        };
        let connections = usize::from(self.connections);
        let clients = context.connect_many(target, connections).await?;
        let about = clients[0].about();
        let (work, method, tool) = match wanted {
            None => (Workload::Ping, ping(&about), None),
            Some((name, words)) => {
                let tool = find(&clients[0], name).await?;
                let of = format!("The tool `{name}`");
                let arguments = arguments(&of, &tool.input_schema, words)?;
                agreed(context, &tool, self.yes).await?;
                let arguments = serde_json::Value::from(arguments).to_string();
                let work = Workload::Tool { name: name.clone(), arguments };
                (work, "tools/call", Some(name.clone()))
            }
        };
        let server =
            ServerUnderTest { name: about.info.name.clone(), version: about.info.version.clone() };
        let protocol_version = about.revision.clone();
        let subject = BenchSubject { server, protocol_version, method, tool, connections };
        Ok((bench_connections(clients, work, context.shared.timeout), subject))
    }

    fn plan(&self) -> LoadPlan {
        let (pace, in_flight) = match self.rate {
            Some(rate) => (LoadMode::Open { rate }, OPEN_IN_FLIGHT),
            None => (LoadMode::Closed, CLOSED_IN_FLIGHT),
        };
        let end = match self.count {
            Some(count) => RunEnd::Count(count),
            None => RunEnd::After(self.duration.unwrap_or(DURATION)),
        };
        LoadPlan { pace, end, in_flight: self.in_flight.unwrap_or(in_flight).into() }
    }

    /// With a fixed number of calls there is no warm-up unless requested, because it would add
    /// calls.
    fn warmup(&self) -> Duration {
        let usual = if self.count.is_some() { Duration::ZERO } else { WARMUP };
        self.warmup.unwrap_or(usual)
    }
}

/// Cheapest method that every server of this era supports.
fn ping(about: &ServerInfo) -> &'static str {
    match about.revision.parse().map(ProtocolVersion::era) {
        Ok(Era::Modern) => "server/discover",
        _ => "ping",
    }
}

fn bench_connections(
    clients: &[Client],
    work: Workload,
    timeout: Option<Duration>,
) -> Vec<BenchConnection> {
    let CallOptions { idle, total, .. } = CallOptions::default();
    let idle = timeout.unwrap_or(idle);
    let deadlines = Deadlines::NONE.idle(Some(idle)).total(Some(idle.max(total)));
    let work = Arc::new(work);
    clients.iter().map(|client| BenchConnection::new(client, work.clone(), deadlines)).collect()
}

/// Runs the plan; returns the tally and the reason for an early end, if any.
async fn run_phase(
    context: &Context,
    connections: &[BenchConnection],
    plan: &LoadPlan,
    name: &str,
    interrupt: impl Future<Output = CliError>,
) -> (Arc<SharedCounters>, Option<CliError>) {
    let board = Arc::new(SharedCounters::new());
    // The runtime's timers have millisecond resolution, which is coarse compared to a call.
    let timer = ThreadTimer::default();
    let cut_short = tokio::select! {
        () = plan.run(connections, &board, &timer) => None,
        fail = interrupt => Some(fail),
        never = live_display::show(&context.screen, plan, &board, name) => match never {},
    };
    (board, cut_short)
}

/// Requested duration, or the time until the last call ended if that was later.
fn elapsed(plan: &LoadPlan, started: Instant, tally: &CallCounts) -> Duration {
    let end = tally.last.max(plan.deadline(started));
    end.map_or(Duration::ZERO, |end| end - started)
}

fn show(context: &Context, report: &BenchReport) -> Result<(), CliError> {
    let out = context.out;
    if out.is_json() {
        return out.json(report);
    }
    out.lines(&summary::lines(report, out.columns(), out.paint()))
}

fn exit_result(report: &BenchReport) -> Result<(), CliError> {
    match (report.ok, report.errors) {
        (0, 0) => Err(CliError::timed_out("No call ended in time")),
        (_, 0) => Ok(()),
        (_, errors) => {
            let calls = summary::plural(report.calls, "call");
            Err(CliError::tool(format!("{errors} of {calls} failed")))
        }
    }
}
