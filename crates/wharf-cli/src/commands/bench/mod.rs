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
    counters::{Board, Tally},
    json_report::{Measured, Report, Server, Subject},
    load_loop::{End, Pace, Plan},
    workload::{Line, Work},
};
use crate::commands::call::{agreed, find};
use crate::{
    arguments::{arguments, read_words},
    cli::Bench,
    context::Context,
    error::Fail,
    target,
};

/// Default durations of the measurement and of the warm-up.
const DURATION: Duration = Duration::from_secs(10);
const WARMUP: Duration = Duration::from_secs(1);

/// Default maximum number of calls in flight per connection.
const CLOSED_IN_FLIGHT: u16 = 1;
const OPEN_IN_FLIGHT: u16 = 128;

impl Bench {
    /// Measures until the end or until `enough` completes, and reports the results either way.
    pub(crate) async fn run(
        &self,
        context: &Context,
        enough: impl Future<Output = Fail>,
    ) -> Result<(), Fail> {
        let mut enough = pin!(enough);
        let (lines, subject) = tokio::select! {
            biased;
            prepared = self.prepare(context) => prepared?,
            fail = &mut enough => {
                context.questions.end();
                return Err(fail);
            }
        };
        let plan = self.plan();
        let warmup = Plan { end: End::After(self.warmup()), ..plan };
        let (_, cut_short) = phase(context, &lines, &warmup, "Warming up: ", enough.as_mut()).await;
        if let Some(fail) = cut_short {
            return Err(fail);
        }
        let (board, cut_short) = phase(context, &lines, &plan, "", enough).await;
        context.screen.clear();
        let tally = board.total();
        let elapsed = match &cut_short {
            Some(_) => board.started.elapsed(),
            None => elapsed(&plan, board.started, &tally),
        };
        let (missed, interrupted) = (board.missed(), cut_short.is_some());
        let warmup = self.warmup();
        let measured = Measured { tally, missed, warmup, elapsed, interrupted };
        let report = Report::new(subject, &plan, measured);
        show(context, &report)?;
        cut_short.map_or_else(|| verdict(&report), Err)
    }

    /// Connects, and validates that the requested operation can be called.
    async fn prepare(&self, context: &Context) -> Result<(Vec<Line>, Subject), Fail> {
        let words = self.words.words.clone();
        let (target, words) = target::split(words, &context.shared.command)?;
        let wanted = match words.split_first() {
            Some((name, words)) => Some((name, read_words(words)?)),
            None => None,
        };
        let connections = usize::from(self.connections);
        let clients = context.connect_many(target, connections).await?;
        let about = clients[0].about();
        let (work, method, tool) = match wanted {
            None => (Work::Ping, ping(&about), None),
            Some((name, words)) => {
                let tool = find(&clients[0], name).await?;
                let of = format!("The tool `{name}`");
                let arguments = arguments(&of, &tool.input_schema, words)?;
                agreed(context, &tool, self.yes).await?;
                let arguments = serde_json::Value::from(arguments).to_string();
                let work = Work::Tool { name: name.clone(), arguments };
                (work, "tools/call", Some(name.clone()))
            }
        };
        let server = Server { name: about.info.name.clone(), version: about.info.version.clone() };
        let protocol_version = about.revision.clone();
        let subject = Subject { server, protocol_version, method, tool, connections };
        Ok((lines(clients, work, context.shared.timeout), subject))
    }

    fn plan(&self) -> Plan {
        let (pace, in_flight) = match self.rate {
            Some(rate) => (Pace::Open { rate }, OPEN_IN_FLIGHT),
            None => (Pace::Closed, CLOSED_IN_FLIGHT),
        };
        let end = match self.count {
            Some(count) => End::Count(count),
            None => End::After(self.duration.unwrap_or(DURATION)),
        };
        Plan { pace, end, in_flight: self.in_flight.unwrap_or(in_flight).into() }
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

fn lines(clients: &[Client], work: Work, timeout: Option<Duration>) -> Vec<Line> {
    let CallOptions { idle, total, .. } = CallOptions::default();
    let idle = timeout.unwrap_or(idle);
    let deadlines = Deadlines { idle: Some(idle), total: Some(idle.max(total)) };
    let work = Arc::new(work);
    clients.iter().map(|client| Line::new(client, work.clone(), deadlines)).collect()
}

/// Runs the plan; returns the tally and the reason for an early end, if any.
async fn phase(
    context: &Context,
    lines: &[Line],
    plan: &Plan,
    name: &str,
    enough: impl Future<Output = Fail>,
) -> (Arc<Board>, Option<Fail>) {
    let board = Arc::new(Board::new());
    // The runtime's timers have millisecond resolution, which is coarse compared to a call.
    let timer = ThreadTimer::default();
    let cut_short = tokio::select! {
        () = plan.drive(lines, &board, &timer) => None,
        fail = enough => Some(fail),
        never = live_display::show(&context.screen, plan, &board, name) => match never {},
    };
    (board, cut_short)
}

/// Requested duration, or the time until the last call ended if that was later.
fn elapsed(plan: &Plan, started: Instant, tally: &Tally) -> Duration {
    let end = tally.last.max(plan.deadline(started));
    end.map_or(Duration::ZERO, |end| end - started)
}

fn show(context: &Context, report: &Report) -> Result<(), Fail> {
    let out = context.out;
    if out.is_json() {
        return out.json(report);
    }
    out.lines(&summary::lines(report, out.columns(), out.paint()))
}

fn verdict(report: &Report) -> Result<(), Fail> {
    match (report.ok, report.errors) {
        (0, 0) => Err(Fail::unanswered("No call ended in time")),
        (_, 0) => Ok(()),
        (_, errors) => {
            let calls = summary::plural(report.calls, "call");
            Err(Fail::tool(format!("{errors} of {calls} failed")))
        }
    }
}
