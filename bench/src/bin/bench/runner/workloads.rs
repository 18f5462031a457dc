//! Workloads of the benchmark.

use bench::command_line::Mode;
use bench::load::{Operation, Protocol, Script};

use super::figures::Figure;
use super::instructions::CountedCall;
use super::stores::StoreEngine;
use super::validators::SCHEMAS;

pub(crate) struct Workload {
    pub(crate) name: String,
    pub(crate) title: String,
    pub(crate) measure: Measure,
    /// Figures that are printed; the JSON has all of them.
    pub(crate) figures: &'static [Figure],
}

#[derive(Clone, Debug)]
pub(crate) enum Measure {
    Http(Traffic),
    /// HTTP calls, compared with the same without the extra tools and idle sessions.
    Crowded(Traffic),
    OneByOne(Operation, Protocol),
    Pipelined(u64),
    ColdStart,
    /// Memory of this many open sessions.
    Sessions(u64),
    /// Memory of this many open streams.
    Listens(Mode, u64),
    /// Tasks: this many clients start and poll one task at a time.
    Tasks(StoreEngine, u64),
    Size,
    Crates,
    Build,
    /// A validator of JSON Schema with one of its schemas.
    Schema(&'static str),
    /// Instructions and allocations of a call.
    CountedCall(CountedCall),
}

/// Load of clients over HTTP.
#[derive(Clone, Debug)]
pub(crate) struct Traffic {
    pub(crate) mode: Mode,
    pub(crate) script: Script,
    pub(crate) connections: u64,
    /// Number of generated tools.
    pub(crate) tools: usize,
    /// Number of idle sessions.
    pub(crate) idle_sessions: u64,
}

impl Traffic {
    pub(crate) fn new(mode: Mode, script: Script, connections: u64) -> Self {
        Traffic { mode, script, connections, tools: 0, idle_sessions: 0 }
    }
}

/// Length of the text in workloads that do not measure size.
pub(crate) const SHORT: usize = 32;
const KIB_64: usize = 64 * 1024;
const MIB_1: usize = 1024 * 1024;

const MODES: [(&str, &str, Mode); 3] = [
    ("modern", "modern", Mode::Modern),
    ("session", "legacy with a session", Mode::Stateful),
    ("stateless", "legacy without sessions", Mode::Stateless),
];

const CPU: &[Figure] = &[Figure::Cpu, Figure::Rate];
const CROWDED: &[Figure] = &[Figure::Cpu, Figure::TimesPlain];
const ALONE: &[Figure] = &[Figure::Cpu, Figure::Median, Figure::Percentile99];
const EVENTS: &[Figure] = &[Figure::Events, Figure::Lost, Figure::Cpu];

/// All workloads, in the order they run.
pub(crate) fn all() -> Vec<Workload> {
    let mut all: Vec<_> = calls().collect();
    all.extend(registries());
    all.extend(streams_and_sizes());
    all.extend(lines());
    all.extend(minimcp());
    all.extend(footprints());
    all.extend(tasks());
    all.extend(schemas());
    all
}

fn schemas() -> impl Iterator<Item = Workload> {
    SCHEMAS.into_iter().map(|(name, by)| {
        let title = format!("arguments by the schema `{name}`, written {by}");
        const FIGURES: &[Figure] = &[Figure::Validation, Figure::Compilation];
        workload(format!("schema-{name}"), title, Measure::Schema(name), FIGURES)
    })
}

fn tasks() -> impl Iterator<Item = Workload> {
    use Figure::{Looks, Percentile99, StoreCpu, TaskCpu, TaskRate};
    const SQLITE: &[Figure] = &[TaskRate, TaskCpu, Figure::Median, Percentile99, Looks];
    const REDIS: &[Figure] = &[TaskRate, TaskCpu, StoreCpu, Figure::Median, Percentile99, Looks];
    let engines = [
        ("sqlite", "SQLite", StoreEngine::Sqlite, SQLITE),
        ("redis", "Redis", StoreEngine::Redis, REDIS),
    ];
    let each = engines.into_iter().flat_map(|engine| [16, 128].map(|clients| (engine, clients)));
    each.map(|((name, title, engine, figures), clients)| {
        let title = format!("durable tasks in {title}, {}", plural(clients, "client"));
        workload(format!("tasks-{name}-{clients}"), title, Measure::Tasks(engine, clients), figures)
    })
}

fn workload(
    name: impl Into<String>,
    title: impl Into<String>,
    measure: Measure,
    figures: &'static [Figure],
) -> Workload {
    Workload { name: name.into(), title: title.into(), measure, figures }
}

fn plural(count: u64, thing: &str) -> String {
    format!("{count} {thing}{}", if count == 1 { "" } else { "s" })
}

fn http(mode: Mode, operation: Operation, connections: u64) -> Measure {
    Measure::Http(Traffic::new(mode, Script::Same(operation), connections))
}

fn calls() -> impl Iterator<Item = Workload> {
    let each =
        MODES.into_iter().flat_map(|mode| [1, 16, 128].map(|connections| (mode, connections)));
    each.map(|((name, title, mode), connections)| {
        workload(
            format!("http-{name}-{connections}"),
            format!("HTTP call, {title}, {}", plural(connections, "connection")),
            http(mode, Operation::Echo(SHORT), connections),
            if connections == 1 { ALONE } else { CPU },
        )
    })
}

fn registries() -> [Workload; 4] {
    let among = |mode, script| Traffic::new(mode, script, 16);
    let echo = || Script::Same(Operation::Echo(SHORT));
    let list = Script::Same(Operation::List(1000));
    let list = Traffic { tools: 1000, ..among(Mode::Stateful, list) };
    let tools = Traffic { tools: 1000, ..among(Mode::Stateless, echo()) };
    // Ten thousand including those of the connections: the servers' default limit.
    let sessions = Traffic { idle_sessions: 9_984, ..among(Mode::Stateful, echo()) };
    let cycle = among(Mode::Stateful, Script::Sessions(Operation::Echo(SHORT)));
    [
        workload("list-1000", "tools/list of 1,000 tools", Measure::Http(list), CPU),
        workload(
            "call-1000-tools",
            "a call with 1,000 tools registered",
            Measure::Crowded(tools),
            CROWDED,
        ),
        workload(
            "call-10000-sessions",
            "a call with 10,000 sessions open",
            Measure::Crowded(sessions),
            CROWDED,
        ),
        workload("session-cycle", "a session opened, used once, closed", Measure::Http(cycle), CPU),
    ]
}

fn streams_and_sizes() -> [Workload; 5] {
    [
        workload(
            "progress-modern",
            "100 notifications and a result, modern",
            http(Mode::Modern, Operation::Progress, 16),
            EVENTS,
        ),
        workload(
            "progress-session",
            "100 notifications and a result, session",
            http(Mode::Stateful, Operation::Progress, 16),
            EVENTS,
        ),
        workload(
            "progress-alone",
            "the same on one connection",
            http(Mode::Stateful, Operation::Progress, 1),
            ALONE,
        ),
        workload(
            "echo-64k-http",
            "64 KiB echo over HTTP",
            http(Mode::Stateless, Operation::Echo(KIB_64), 4),
            CPU,
        ),
        workload(
            "echo-1m-http",
            "1 MiB echo over HTTP",
            http(Mode::Stateless, Operation::Echo(MIB_1), 4),
            CPU,
        ),
    ]
}

fn lines() -> [Workload; 6] {
    const PIPELINED: &[Figure] = &[Figure::Rate, Figure::Cpu, Figure::Peak];
    let short = |protocol| Measure::OneByOne(Operation::Echo(SHORT), protocol);
    let long = Measure::OneByOne(Operation::Echo(KIB_64), Protocol::Legacy);
    [
        workload(
            "stdio-legacy",
            "stdio, one call after the other, legacy",
            short(Protocol::Legacy),
            ALONE,
        ),
        workload(
            "stdio-modern",
            "stdio, one call after the other, modern",
            short(Protocol::Modern),
            ALONE,
        ),
        workload("stdio-echo-64k", "64 KiB echo over stdio", long, CPU),
        workload(
            "pipelined-10000",
            "stdio, 10,000 calls at once",
            Measure::Pipelined(10_000),
            PIPELINED,
        ),
        workload(
            "pipelined-50000",
            "stdio, 50,000 calls at once",
            Measure::Pipelined(50_000),
            PIPELINED,
        ),
        workload(
            "cold-start",
            "start to first reply over stdio",
            Measure::ColdStart,
            &[Figure::Cold, Figure::Memory],
        ),
    ]
}

/// The three workloads of MiniMCP's benchmark, at its numbers of clients.
fn minimcp() -> impl Iterator<Item = Workload> {
    type ScriptFn = fn(u64) -> Vec<Operation>;
    /// Arguments of MiniMCP's client with this number.
    fn numbers(client: u64) -> impl Iterator<Item = u64> {
        (0..30).map(move |round| 100 + round * 100 + client * 10)
    }
    const KINDS: [(&str, ScriptFn); 3] = [
        ("noop", |client| numbers(client).map(Operation::Noop).collect()),
        ("compute", |client| numbers(client).map(Operation::Compute).collect()),
        ("io", |client| numbers(client).map(Operation::Io).collect()),
    ];
    let each = KINDS.into_iter().flat_map(|kind| [1, 20, 100, 300].map(|clients| (kind, clients)));
    each.map(|((kind, script), connections)| {
        let traffic = Traffic::new(Mode::Stateless, Script::Calls(script), connections);
        let title = format!("MiniMCP's {kind}, {}", plural(connections, "client"));
        workload(format!("minimcp-{kind}-{connections}"), title, Measure::Http(traffic), CPU)
    })
}

fn footprints() -> [Workload; 6] {
    const EACH: &[Figure] = &[Figure::BytesEach];
    const LISTEN: &[Figure] = &[Figure::BytesEach, Figure::BytesWithConnection];
    [
        workload(
            "memory-session",
            "memory of an idle session, of 10,000",
            Measure::Sessions(10_000),
            EACH,
        ),
        workload(
            "memory-listen",
            "memory of subscriptions/listen, of 1,000",
            Measure::Listens(Mode::Modern, 1000),
            LISTEN,
        ),
        workload(
            "memory-get-stream",
            "memory of a legacy GET stream, of 1,000",
            Measure::Listens(Mode::Stateful, 1000),
            LISTEN,
        ),
        workload("size", "stripped program", Measure::Size, &[Figure::Size, Figure::Quickstart]),
        workload("crates", "crates in the server's tree", Measure::Crates, &[Figure::Crates]),
        workload("build", "clean release build, CPU", Measure::Build, &[Figure::BuildCpu]),
    ]
}

/// Observers of the counted calls.
const OBSERVERS: [(&str, &str); 5] = [
    ("none", "no observer"),
    ("log-warn", "log at `warn`, as a server has it by default"),
    ("log-info", "log at `info`, a line for each call"),
    ("metrics", "metrics"),
    ("traces", "metrics and traces sampled at 1 %"),
];

/// Transports of the calls with observers, and the ends of their names.
const OBSERVED_TRANSPORTS: [(&str, &str, Option<Mode>); 3] = [
    ("stdio", "", None),
    ("HTTP, modern", "-http-modern", Some(Mode::Modern)),
    ("HTTP with a session", "-http-session", Some(Mode::Stateful)),
];

/// Workloads whose instructions are counted.
pub(crate) fn counted() -> Vec<Workload> {
    const COUNTED: &[Figure] = &[Figure::Instructions, Figure::Allocations];
    let short = Operation::Echo(SHORT);
    let long = Operation::Echo(KIB_64);
    let rows = [
        ("stdio-legacy", "stdio call, legacy", CountedCall::Stdio(short, Protocol::Legacy)),
        ("stdio-modern", "stdio call, modern", CountedCall::Stdio(short, Protocol::Modern)),
        (
            "http-stateless",
            "HTTP call, legacy without sessions",
            CountedCall::Http(short, Mode::Stateless),
        ),
        (
            "http-session",
            "HTTP call, legacy with a session",
            CountedCall::Http(short, Mode::Stateful),
        ),
        ("http-modern", "HTTP call, modern", CountedCall::Http(short, Mode::Modern)),
        ("stdio-echo-64k", "64 KiB echo over stdio", CountedCall::Stdio(long, Protocol::Legacy)),
    ];
    let schemas = SCHEMAS.into_iter().map(|(name, by)| {
        let title = format!("arguments by the schema `{name}`, written {by}");
        let counted = Measure::CountedCall(CountedCall::Schema(name));
        workload(format!("schema-{name}-counted"), title, counted, COUNTED)
    });
    let observed = OBSERVERS.into_iter().flat_map(|(observers, title)| {
        OBSERVED_TRANSPORTS.into_iter().map(move |(transport, suffix, mode)| {
            let (name, title) =
                (format!("observed-{observers}{suffix}"), format!("{transport} call, {title}"));
            workload(
                name,
                title,
                Measure::CountedCall(CountedCall::Observed(observers, mode)),
                COUNTED,
            )
        })
    });
    rows.into_iter()
        .map(|(name, title, counted)| workload(name, title, Measure::CountedCall(counted), COUNTED))
        .chain(observed)
        .chain(schemas)
        .collect()
}
