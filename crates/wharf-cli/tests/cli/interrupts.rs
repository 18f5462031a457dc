//! Ctrl-C, and listens that it ends.

use std::{
    io::{BufRead, BufReader, Read},
    process::{Child, ChildStderr, ChildStdout, Command, Stdio},
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

#[test]
fn a_listener_gets_one_line_for_each_change() {
    let bed = Bed::new("listen");
    let served = Served::http(&bed);
    for era in ["modern", "legacy"] {
        let words =
            ["listen", &served.url, "--tools", "--uri", "demo://clock", "--era", era, "--trace"];
        let mut running = Running::start(bed.command(&words));
        running.told(if era == "modern" { "acknowledged" } else { "resources/subscribe" });
        // Reads on, so that the trace does not fill its pipe.
        let mut err = running.err;
        let reading = std::thread::spawn(move || {
            let mut rest = String::new();
            err.read_to_string(&mut rest).unwrap();
            rest
        });
        let mut out = running.out;
        let mut change = |tool: &str, argument: &str| {
            // A legacy subscription may still be under way: try until it is heard.
            bed.run(&["call", &served.url, tool, argument]);
            let mut line = String::new();
            out.read_line(&mut line).unwrap();
            serde_json::from_str::<Value>(&line).unwrap()
        };
        let on = change("set_bonus", "on=true");
        assert_eq!(on, json!({"method": "notifications/tools/list_changed"}), "{era}");
        interrupt(&running.child);
        assert_eq!(running.child.wait().unwrap().code(), Some(130));
        reading.join().unwrap();
        bed.run(&["call", &served.url, "set_bonus", "on=false"]);
    }
}

#[test]
fn a_listener_follows_one_resource() {
    let bed = Bed::new("follow");
    let served = Served::http(&bed);
    let words = ["listen", &served.url, "--uri", "demo://clock"];
    let mut running = Running::start(bed.command(&words));
    let updated =
        json!({"method": "notifications/resources/updated", "params": {"uri": "demo://clock"}});
    // Nothing says on stdout that the listen has begun, so it is touched until it is heard.
    let (url, stop) =
        (served.url.clone(), std::sync::Arc::new(std::sync::atomic::AtomicBool::new(false)));
    let stopped = stop.clone();
    let touching = std::thread::spawn(move || {
        let bed = Bed::new("follow-touch");
        while !stopped.load(std::sync::atomic::Ordering::Acquire) {
            bed.run(&["call", &url, "touch"]).json();
        }
    });
    assert_eq!(running.line(), updated);
    stop.store(true, std::sync::atomic::Ordering::Release);
    touching.join().unwrap();
    interrupt(&running.child);
    assert_eq!(running.end().0, 130);
}
