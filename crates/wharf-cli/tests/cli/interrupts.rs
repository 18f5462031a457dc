//! Ctrl-C, and listens that it ends.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    thread::JoinHandle,
};

use serde_json::{Value, json};

use crate::{
    bed::{Bed, Served, WHARF},
    pty::interrupt,
};

/// `wharf` while it runs.
struct Running {
    child: Child,
    out: BufReader<ChildStdout>,
    err: BufReader<ChildStderr>,
}

impl Running {
    fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = BufReader::new(child.stdout.take().unwrap());
        let err = BufReader::new(child.stderr.take().unwrap());
        Running { child, out, err }
    }

    /// Reads stderr until a line has `text`.
    fn told(&mut self, text: &str) {
        let mut lines = self.err.by_ref().lines().map_while(Result::ok);
        assert!(lines.any(|line| line.contains(text)), "{text} is not told");
    }

    fn line(&mut self) -> Value {
        let mut line = String::new();
        self.out.read_line(&mut line).unwrap();
        serde_json::from_str(&line).unwrap()
    }

    fn end(mut self) -> (i32, String) {
        let mut rest = String::new();
        self.err.read_to_string(&mut rest).unwrap();
        (self.child.wait().unwrap().code().unwrap(), rest)
    }
}

#[test]
fn ctrl_c_cancels_the_call() {
    let bed = Bed::new("cancel");
    for era in ["modern", "legacy"] {
        let words = ["call", "sleep", "seconds=600", "--trace", "--era", era, "--", WHARF, "serve"];
        let mut running = Running::start(bed.command(&words));
        running.told("\"method\":\"tools/call\"");
        interrupt(&running.child);
        let (code, rest) = running.end();
        assert_eq!(code, 130, "{era}: {rest}");
        assert!(rest.contains("notifications/cancelled"), "{era}: {rest}");
        assert!(
            rest.lines().any(|line| line.starts_with(r#"{"error":{"kind":"interrupted""#)),
            "{rest}"
        );
    }
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let bed = Bed::new("twice");
    // It neither answers nor ends when its stdin does.
    let stubborn = "trap '' TERM; echo here >&2; while :; do sleep 1; done";
    let words = ["list", "--stderr", "--", "sh", "-c", stubborn];
    let mut running = Running::start(bed.command(&words));
    running.told("here");
    interrupt(&running.child);
    interrupt(&running.child);
    assert_eq!(running.end().0, 130);
}

/// Does something over and over until it is told to stop.
struct Again {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl Again {
    fn start(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                act();
            }
        });
        Again { stop, thread: Some(thread) }
    }
}

impl Drop for Again {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_listener_gets_one_line_for_each_change() {
    let bed = Bed::new("listen");
    let served = Served::http(&bed);
    let tools = json!({"method": "notifications/tools/list_changed"});
    let clock =
        json!({"method": "notifications/resources/updated", "params": {"uri": "demo://clock"}});
    for (words, act, expected) in [
        (vec!["--tools", "--era", "modern"], ["set_bonus", "on=true"], &tools),
        (vec!["--tools", "--era", "legacy"], ["set_bonus", "on=true"], &tools),
        (vec!["--era", "modern"], ["set_bonus", "on=true"], &tools),
        (vec!["--uri", "demo://clock", "--era", "modern"], ["touch", "{}"], &clock),
        (vec!["--uri", "demo://clock", "--era", "legacy"], ["touch", "{}"], &clock),
    ] {
        let listen = [&["listen", &served.url], &words[..]].concat();
        let mut running = Running::start(bed.command(&listen));
        // Nothing says on stdout that the listen has begun, so it goes on until it is heard.
        let (url, home) = (served.url.clone(), bed.dir.clone());
        let again = Again::start(move || {
            let mut command = Command::new(WHARF);
            command.args(["call", &url]).args(act).env("XDG_CACHE_HOME", &home);
            assert!(command.output().unwrap().status.success());
        });
        assert_eq!(&running.line(), expected, "{words:?}");
        drop(again);
        interrupt(&running.child);
        assert_eq!(running.end().0, 130, "{words:?}");
    }
}

#[test]
fn what_cannot_be_listened_to_is_told() {
    let bed = Bed::new("deaf");
    let error = bed.demo(&["listen", "nonsense"]).error(1);
    assert!(error["hint"].as_str().unwrap().contains("--uri"), "{error}");
}
