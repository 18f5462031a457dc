//! Load of concurrent HTTP clients in one thread.

use std::cell::{Cell, RefCell};
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use tokio::runtime::Builder;
use tokio::task::{JoinSet, LocalSet, spawn_local, yield_now};
use tokio::time::sleep;

use super::client::{Client, Turn};
use super::message::{Operation, Template};
use super::sample::{Meter, Sample, Tally};
use crate::command_line::Mode;
use crate::process::Server;

/// Length of a run.
#[derive(Clone, Copy, Debug)]
pub enum Span {
    /// Measured time after a warm-up.
    Time {
        /// Duration of the warm-up.
        warm: Duration,
        /// Duration of the measurement.
        measured: Duration,
    },
    /// Number of calls on each connection, without a warm-up.
    Calls(u64),
}

/// Operations of the clients.
#[derive(Clone, Debug)]
pub enum Script {
    /// Repeats the operations of the client with this number, in one session if the mode has sessions.
    Calls(fn(u64) -> Vec<Operation>),
    /// Repeats one operation.
    Same(Operation),
    /// Opens and closes a session for each call.
    Sessions(Operation),
    /// Starts a task with each call and polls it until it ends.
    Tasks(Operation),
}

/// HTTP load.
#[derive(Clone, Debug)]
pub struct HttpLoad {
    /// Address of the server.
    pub address: SocketAddr,
    /// Mode of the clients.
    pub mode: Mode,
    /// Operations of the clients.
    pub script: Script,
    /// Number of clients, each with its own connection.
    pub connections: u64,
    /// Length of the run.
    pub span: Span,
}

#[derive(Debug, Default)]
struct Board {
    phase: Cell<Phase>,
    tally: RefCell<Tally>,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
enum Phase {
    #[default]
    Warm,
    Measured,
    Over,
}

impl HttpLoad {
    /// Runs the load; the first unexpected reply is an error.
    pub fn run(&self, server: &Server) -> Result<Sample, String> {
        self.run_with(server, None)
    }

    /// Runs the load and also measures the process of the server's store.
    pub fn run_with(&self, server: &Server, store: Option<&Server>) -> Result<Sample, String> {
        let runtime = Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(|e| format!("no runtime: {e}"))?;
        LocalSet::new().block_on(&runtime, self.drive(server, store))
    }

    async fn drive(&self, server: &Server, store: Option<&Server>) -> Result<Sample, String> {
        let board = Rc::new(Board::default());
        spawn_local(stay_awake(Rc::clone(&board)));
        let mut clients = JoinSet::new();
        for number in 0..self.connections {
            let client = Client::open(self.address, self.mode_of_clients()).await?;
            clients.spawn_local(self.clone().client(number, client, Rc::clone(&board)));
        }
        if let Span::Time { warm, .. } = self.span {
            patiently(&mut clients, warm).await?;
        }
        board.phase.set(Phase::Measured);
        let meter = Meter::start(server, store);
        let meter = meter.map_err(|e| format!("the server is gone: {e}"))?;
        if let Span::Time { measured, .. } = self.span {
            patiently(&mut clients, measured).await?;
            // A slow server may need longer than that for a single call.
            while board.tally.borrow().calls == 0 {
                patiently(&mut clients, measured).await?;
            }
        }
        let by_count = matches!(self.span, Span::Calls(_));
        if by_count {
            all(&mut clients).await?;
        }
        board.phase.set(Phase::Over);
        let sample = meter.stop(server, store, &mut board.tally.borrow_mut());
        all(&mut clients).await?;
        sample.map_err(|e| format!("the server is gone: {e}"))
    }

    /// Mode of the initial connections: without a session if the script opens sessions itself.
    fn mode_of_clients(&self) -> Mode {
        match self.script {
            Script::Sessions(_) => Mode::Stateless,
            _ => self.mode,
        }
    }

    async fn client(self, number: u64, mut client: Client, board: Rc<Board>) -> Result<(), String> {
        let operations = match &self.script {
            Script::Calls(of) => of(number),
            Script::Same(one) | Script::Sessions(one) | Script::Tasks(one) => vec![*one],
        };
        let cycles = matches!(self.script, Script::Sessions(_));
        let expected = operations.first().map_or(0, |operation| operation.notifications());
        client.prepare(&operations);
        let most = match self.span {
            Span::Time { .. } => u64::MAX,
            Span::Calls(calls) => calls,
        };
        // Enough ids for each client, and none twice.
        let mut id = Template::FIRST_ID + number * 10_000_000;
        for _ in 0..most {
            if board.phase.get() == Phase::Over {
                break;
            }
            id += 1;
            let began = Instant::now();
            let turn = match self.script {
                Script::Sessions(_) => session(&mut client, &operations, id).await?,
                Script::Tasks(_) => client.follow(&mut id).await?,
                Script::Calls(_) | Script::Same(_) => client.turn(id).await?,
            };
            if board.phase.get() == Phase::Measured {
                board.tally.borrow_mut().add(began.elapsed(), turn, expected);
            }
        }
        if self.mode == Mode::Stateful && !cycles { client.close_session().await } else { Ok(()) }
    }
}

/// Keeps this thread busy. The kernel charges the cost of waking a sleeping thread to the server, so a slightly
/// slower server would wake it more often and look much slower.
async fn stay_awake(board: Rc<Board>) {
    while board.phase.get() != Phase::Over {
        yield_now().await;
    }
}

async fn session(client: &mut Client, operations: &[Operation], id: u64) -> Result<Turn, String> {
    client.open_session().await?;
    client.prepare(operations);
    let turn = client.turn(id).await?;
    client.close_session().await?;
    Ok(turn)
}

type Clients = JoinSet<Result<(), String>>;

/// Waits for `time`; returns early with an error if a client fails.
async fn patiently(clients: &mut Clients, time: Duration) -> Result<(), String> {
    tokio::select! {
        () = sleep(time) => Ok(()),
        Some(ended) = clients.join_next() => ended.map_err(|e| e.to_string())?,
    }
}

async fn all(clients: &mut Clients) -> Result<(), String> {
    while let Some(ended) = clients.join_next().await {
        ended.map_err(|e| e.to_string())??;
    }
    Ok(())
}
