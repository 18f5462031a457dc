//! Server processes: CPU affinity and resource usage.

use std::fs;
use std::io;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use rustix::process::{Pid, Signal, kill_process};
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

/// Cores of the servers and of the load generator.
#[derive(Clone, Copy, Debug)]
pub struct Cores {
    all: CpuSet,
    pinned: Option<Pinned>,
}

#[derive(Clone, Copy, Debug)]
struct Pinned {
    server: CpuSet,
    generator: CpuSet,
}

impl Cores {
    /// Selects the first two cores that this process may use; with fewer, nothing is pinned.
    pub fn choose() -> io::Result<Self> {
        let all = sched_getaffinity(None)?;
        let mut cores = (0..CpuSet::MAX_CPU).filter(|core| all.is_set(*core));
        let pinned = match (cores.next(), cores.next()) {
            (Some(server), Some(generator)) => {
                Some(Pinned { server: only(server), generator: only(generator) })
            }
            _ => None,
        };
        Ok(Cores { all, pinned })
    }

    /// True if server and generator have a core each.
    pub fn are_pinned(&self) -> bool {
        self.pinned.is_some()
    }

    /// Number of cores that this process may use.
    pub fn count(&self) -> usize {
        self.all.count() as usize
    }

    /// Pins this thread, and the processes it starts, to the generator's core.
    pub fn generate(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.pinned.map_or(self.all, |pinned| pinned.generator))?)
    }

    /// Allows this thread, and the processes it starts, to use all cores.
    pub fn use_all(&self) -> io::Result<()> {
        Ok(sched_setaffinity(None, &self.all)?)
    }

    /// Starts a program on the server's core.
    pub fn start(&self, command: &mut Command) -> io::Result<Child> {
        // A child inherits the affinity of the thread that starts it.
        sched_setaffinity(None, &self.pinned.map_or(self.all, |pinned| pinned.server))?;
        let child = command.spawn();
        self.generate()?;
        child
    }
}

fn only(core: usize) -> CpuSet {
    let mut set = CpuSet::new();
    set.set(core);
    set
}

/// Running server process, ended on drop.
#[derive(Debug)]
pub struct Server {
    child: Child,
}

impl Server {
    /// Starts a program with pipes to its stdin and stdout.
    pub fn with_pipes(cores: &Cores, command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::null());
        Ok(Server { child: cores.start(command)? })
    }

    /// Starts a program that needs no pipes.
    pub fn without_pipes(cores: &Cores, command: &mut Command) -> io::Result<Self> {
        command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
        Ok(Server { child: cores.start(command)? })
    }

    /// Child process, from which the pipes can be taken.
    pub fn child(&mut self) -> &mut Child {
        &mut self.child
    }

    /// Reads the resource usage of the process.
    pub fn usage(&self) -> io::Result<Usage> {
        Usage::of(self.child.id())
    }

    /// Sends SIGTERM and waits for the exit, then kills the process.
    pub fn stop(&mut self) -> io::Result<ExitStatus> {
        if let Some(status) = self.ended_within(Duration::ZERO)? {
            return Ok(status);
        }
        let _ = kill_process(Pid::from_child(&self.child), Signal::TERM);
        if let Some(status) = self.ended_within(PATIENCE)? {
            return Ok(status);
        }
        self.child.kill()?;
        self.child.wait()
    }

    /// Waits for the process to end by itself.
    pub fn ended_within(&mut self, time: Duration) -> io::Result<Option<ExitStatus>> {
        let late = Instant::now() + time;
        loop {
            let status = self.child.try_wait()?;
            if status.is_some() || Instant::now() >= late {
                return Ok(status);
            }
            thread::sleep(Duration::from_millis(2));
        }
    }
}

/// Timeout for the exit. Under callgrind a process writes its results for some seconds.
const PATIENCE: Duration = Duration::from_secs(20);

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.stop();
    }
}

/// Resource usage of a process.
#[derive(Clone, Copy, Debug)]
pub struct Usage {
    /// CPU time of all live threads.
    pub cpu: Duration,
    /// Resident memory in bytes.
    pub memory: u64,
    /// Peak resident memory in bytes.
    pub peak: u64,
}

impl Usage {
    /// Reads the resource usage of a process.
    pub fn of(process: u32) -> io::Result<Self> {
        let status = fs::read_to_string(format!("/proc/{process}/status"))?;
        Ok(Usage {
            cpu: cpu(process)?,
            memory: kilobytes(&status, "VmRSS:"),
            peak: kilobytes(&status, "VmHWM:"),
        })
    }
}

fn cpu(process: u32) -> io::Result<Duration> {
    let mut nanoseconds = 0;
    for task in fs::read_dir(format!("/proc/{process}/task"))? {
        // A thread may exit between listing and reading.
        let Ok(text) = fs::read_to_string(task?.path().join("schedstat")) else { continue };
        let first = text.split(' ').next().and_then(|word| word.parse::<u64>().ok());
        nanoseconds += first.unwrap_or(0);
    }
    Ok(Duration::from_nanos(nanoseconds))
}

fn kilobytes(status: &str, name: &str) -> u64 {
    let line = status.lines().find_map(|line| line.strip_prefix(name));
    let number = line.and_then(|rest| rest.split_whitespace().next());
    number.and_then(|word| word.parse::<u64>().ok()).unwrap_or(0) * 1024
}
