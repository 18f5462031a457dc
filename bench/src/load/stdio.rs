//! Client over stdin and stdout of a child process.

use std::io::{self, BufRead, BufReader, Write};
use std::process::{ChildStdin, ChildStdout, Command};
use std::thread;
use std::time::{Duration, Instant};

use memchr::memmem;

use super::client::Turn;
use super::http::Span;
use super::message::{Check, INITIALIZE, INITIALIZED, Operation, Protocol, Template};
use super::sample::{Meter, Sample, Tally};
use crate::process::{Cores, Server};

/// Connection to a child process with line-delimited messages.
#[derive(Debug)]
pub struct Lines {
    server: Server,
    input: Option<ChildStdin>,
    output: BufReader<ChildStdout>,
    line: Vec<u8>,
}

impl Lines {
    /// Starts a child and, in the legacy era, performs the handshake.
    pub fn open(cores: &Cores, command: &mut Command, protocol: Protocol) -> Result<Self, String> {
        let mut lines = Self::start(cores, command).map_err(|e| format!("cannot start: {e}"))?;
        if protocol == Protocol::Legacy {
            lines.initialize().map_err(|e| format!("initialize: {e}"))?;
        }
        Ok(lines)
    }

    /// Measures the time from the start of a child to its first reply, and its memory.
    pub fn cold_start(cores: &Cores, command: &mut Command) -> io::Result<Sample> {
        let began = Instant::now();
        let mut lines = Self::start(cores, command)?;
        lines.initialize()?;
        let took = began.elapsed();
        let memory = lines.server.usage()?.memory;
        lines.close()?;
        Ok(Sample::from([("cold_ms", took.as_secs_f64() * 1e3), ("memory_bytes", memory as f64)]))
    }

    fn start(cores: &Cores, command: &mut Command) -> io::Result<Self> {
        let mut server = Server::with_pipes(cores, command)?;
        let child = server.child();
        let missing = || io::Error::other("the child has no pipes");
        let input = Some(child.stdin.take().ok_or_else(missing)?);
        let output = child.stdout.take().ok_or_else(missing)?;
        let output = BufReader::with_capacity(256 * 1024, output);
        Ok(Lines { server, input, output, line: Vec::new() })
    }

    fn initialize(&mut self) -> io::Result<()> {
        self.write(format!("{INITIALIZE}\n").as_bytes())?;
        self.read()?;
        self.write(format!("{INITIALIZED}\n").as_bytes())
    }

    /// Runs calls one after the other.
    pub fn one_by_one(
        &mut self,
        operation: Operation,
        protocol: Protocol,
        span: Span,
    ) -> Result<Sample, String> {
        let mut calls = Calls::new(operation, protocol);
        if let Span::Time { warm, .. } = span {
            self.call_while(&mut calls, until(warm)).map_err(|e| e.to_string())?;
        }
        let meter = Meter::start(&self.server, None).map_err(|e| e.to_string())?;
        let tally = match span {
            Span::Time { measured, .. } => self.call_while(&mut calls, until(measured)),
            Span::Calls(most) => self.call_while(&mut calls, move |made| made < most),
        };
        let mut tally = tally.map_err(|e| e.to_string())?;
        meter.stop(&self.server, None, &mut tally).map_err(|e| e.to_string())
    }

    fn call_while(&mut self, calls: &mut Calls, more: impl Fn(u64) -> bool) -> io::Result<Tally> {
        let mut tally = Tally::default();
        while more(tally.calls) {
            calls.id += 1;
            let began = Instant::now();
            let input = self.input.as_mut().ok_or_else(closed)?;
            input.write_all(calls.template.with_id(calls.id))?;
            let notifications = self.read()?;
            let turn = Turn { notifications, ..Turn::default() };
            tally.add(began.elapsed(), turn, calls.notifications);
            if !calls.check.is_met(&self.line, calls.id) {
                return Err(wrong(&self.line));
            }
        }
        Ok(tally)
    }

    /// Runs `count` pipelined calls, written and read concurrently.
    pub fn pipelined(
        &mut self,
        operation: Operation,
        protocol: Protocol,
        count: u64,
    ) -> Result<Sample, String> {
        self.pipeline(Calls::new(operation, protocol), count).map_err(|e| e.to_string())
    }

    fn pipeline(&mut self, calls: Calls, count: u64) -> io::Result<Sample> {
        let mut input = self.input.take().ok_or_else(closed)?;
        let meter = Meter::start(&self.server, None)?;
        let began = Instant::now();
        let (check, first) = (calls.check.clone(), calls.id + 1);
        let writer = thread::spawn(move || write_calls(&mut input, calls, count).map(|()| input));
        let mut seen = vec![false; count as usize];
        let mut tally = Tally::default();
        for _ in 0..count {
            self.read()?;
            // Replies may come in any order.
            let place = check.id(&self.line).and_then(|id| id.checked_sub(first));
            let place = place.and_then(|place| seen.get_mut(place as usize));
            match place {
                Some(seen) if !*seen && check.is_well(&self.line) => *seen = true,
                _ => return Err(wrong(&self.line)),
            }
            tally.calls += 1;
        }
        tally.latencies.push(began.elapsed());
        let sample = meter.stop(&self.server, None, &mut tally);
        self.input = Some(writer.join().map_err(|_| closed())??);
        sample
    }

    /// Reads up to the next reply; returns the number of notifications before it.
    fn read(&mut self) -> io::Result<u64> {
        let mut notifications = 0;
        loop {
            self.line.clear();
            if self.output.read_until(b'\n', &mut self.line)? == 0 {
                return Err(closed());
            }
            if memmem::find(&self.line, b"\"id\":").is_some() {
                return Ok(notifications);
            }
            notifications += 1;
        }
    }

    fn write(&mut self, bytes: &[u8]) -> io::Result<()> {
        self.input.as_mut().ok_or_else(closed)?.write_all(bytes)
    }

    /// Closes stdin, which ends the child.
    pub fn close(mut self) -> io::Result<()> {
        self.input = None;
        self.server.ended_within(Duration::from_secs(10))?;
        self.server.stop().map(|_| ())
    }
}

/// Generator of calls of one operation.
#[derive(Clone, Debug)]
struct Calls {
    template: Template,
    check: Check,
    notifications: u64,
    id: u64,
}

impl Calls {
    fn new(operation: Operation, protocol: Protocol) -> Self {
        let line = operation.request(protocol) + "\n";
        let notifications = operation.notifications();
        let (template, check) = (Template::new(line.into_bytes()), operation.check());
        Calls { template, check, notifications, id: Template::FIRST_ID }
    }
}

/// Writes the calls in large chunks.
fn write_calls(input: &mut ChildStdin, mut calls: Calls, count: u64) -> io::Result<()> {
    const PIECE: usize = 60 * 1024;
    let mut piece = Vec::with_capacity(2 * PIECE);
    for id in calls.id + 1..=calls.id + count {
        piece.extend_from_slice(calls.template.with_id(id));
        if piece.len() > PIECE {
            input.write_all(&piece)?;
            piece.clear();
        }
    }
    input.write_all(&piece)
}

fn until(time: Duration) -> impl Fn(u64) -> bool {
    let late = Instant::now() + time;
    move |_| Instant::now() < late
}

fn closed() -> io::Error {
    io::Error::new(io::ErrorKind::UnexpectedEof, "the server closed its pipe")
}

fn wrong(line: &[u8]) -> io::Error {
    let line = String::from_utf8_lossy(&line[..line.len().min(300)]);
    io::Error::other(format!("a wrong answer: {line}"))
}
