//! Ctrl-C and SIGTERM.

use std::{
    process::{Child, Command, Stdio},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
        mpsc::Receiver,
    },
    thread::JoinHandle,
    time::{Duration, Instant},
};

use rustix::process::{Pid, Signal, test_kill_process};
use serde_json::{Map, Value, json};

use crate::cli::{
    pty::{interrupt, send},
    sandbox::{DemoServer, PATIENCE, Sandbox, WHARF, ended, finished, lines, rest},
    scripted_server::{Pauses, http_reply, regular_reply, slow_server},
};

/// Running `wharf` process.
pub(crate) struct Running {
    pub(crate) child: Child,
    out: Receiver<String>,
    err: Receiver<String>,
}

impl Running {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::null()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let mut child = command.spawn().unwrap();
        let out = lines(child.stdout.take().unwrap());
        let err = lines(child.stderr.take().unwrap());
        Running { child, out, err }
    }

    /// Reads stderr until a line has `text`.
    pub(crate) fn wait_for_stderr(&self, text: &str) -> String {
        let mut lines = std::iter::from_fn(|| self.err.recv_timeout(PATIENCE).ok());
        lines.find(|line| line.contains(text)).expect("the line is printed in time")
    }

    pub(crate) fn line(&self) -> Value {
        let line = self.out.recv_timeout(PATIENCE).expect("a line comes in time");
        serde_json::from_str(&line).unwrap()
    }

    pub(crate) fn end(mut self) -> (i32, String) {
        let code = ended(&mut self.child).code().unwrap();
        (code, rest(&self.err))
    }
}

/// Ends the process with its test, even if the test fails.
impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

#[test]
fn ctrl_c_cancels_the_call() {
    let sandbox = Sandbox::new("cancel");
    for era in ["modern", "legacy"] {
        let words = ["call", "sleep", "seconds=600", "--trace", "--era", era, "--", WHARF, "serve"];
        let running = Running::start(sandbox.command(&words));
        running.wait_for_stderr("\"method\":\"tools/call\"");
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

/// The validation of a result against its schema ran on the only thread, for up to 65 seconds.
#[test]
fn ctrl_c_ends_the_command_while_a_result_is_checked() {
    let sandbox = Sandbox::new("checked");
    let names: Vec<String> = (0..200).map(|number| format!("{number:01000}")).collect();
    let script = move |asked: &Value, _: usize| {
        let mut reply = regular_reply(asked);
        let result = &mut reply["result"];
        if asked["method"] == "tools/list" {
            let again = vec![json!({"$ref": "#/$defs/all"}); 1000];
            let all = json!({"required": names});
            result["tools"][0]["outputSchema"] =
                json!({"type": "object", "allOf": again, "$defs": {"all": all}});
        } else if asked["method"] == "tools/call" {
            let content: Map<String, Value> =
                names.iter().map(|name| (name.clone(), Value::Null)).collect();
            result["structuredContent"] = content.into();
        }
        Some(http_reply(&reply))
    };
    let url = slow_server(Arc::new(script), Pauses::EachReply(Duration::ZERO));
    let words = ["call", &*url, "look", "--trace", "--era", "modern"];
    let running = Running::start(sandbox.command(&words));
    running.wait_for_stderr("structuredContent");
    interrupt(&running.child);
    let (code, rest) = running.end();
    assert_eq!(code, 130, "{rest}");
}

#[test]
fn a_second_ctrl_c_does_not_wait() {
    let sandbox = Sandbox::new("twice");
    // The process neither responds nor ends when its stdin closes.
    let stubborn = "trap '' TERM; echo here >&2; while :; do sleep 1; done";
    let words = ["list", "--stderr", "--", "sh", "-c", stubborn];
    let running = Running::start(sandbox.command(&words));
    running.wait_for_stderr("here");
    interrupt(&running.child);
    interrupt(&running.child);
    assert_eq!(running.end().0, 130);
}

#[test]
fn sigterm_stops_the_started_server() {
    let sandbox = Sandbox::new("terminate");
    let stubborn = "trap '' TERM; echo pid $$ >&2; while :; do sleep 1; done";
    let running =
        Running::start(sandbox.command(&["list", "--stderr", "--", "sh", "-c", stubborn]));
    let server = running.wait_for_stderr("pid ");
    let server = server.trim().rsplit(' ').next().and_then(|word| word.parse().ok());
    let server = server.and_then(Pid::from_raw).unwrap();
    test_kill_process(server).expect("it runs");
    send(&running.child, Signal::TERM);
    let (code, rest) = running.end();
    assert_eq!(code, 143, "{rest}");
    assert!(rest.contains(r#"{"error":{"kind":"terminated""#), "{rest}");
    // The process that reaps the child may take a while.
    let deadline = Instant::now() + PATIENCE;
    while test_kill_process(server).is_ok() {
        assert!(Instant::now() < deadline, "the server stayed behind");
        std::thread::sleep(Duration::from_millis(20));
    }
}

/// Repeats an action in a thread until it is dropped.
struct RepeatedAction {
    stop: Arc<AtomicBool>,
    thread: Option<JoinHandle<()>>,
}

impl RepeatedAction {
    fn start(mut act: impl FnMut() + Send + 'static) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let stopped = stop.clone();
        let thread = std::thread::spawn(move || {
            while !stopped.load(Ordering::Acquire) {
                act();
            }
        });
        RepeatedAction { stop, thread: Some(thread) }
    }
}

impl Drop for RepeatedAction {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join();
        }
    }
}

#[test]
fn a_listener_gets_one_line_for_each_change() {
    let sandbox = Sandbox::new("listen");
    let served = DemoServer::http(&sandbox);
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
        let running = Running::start(sandbox.command(&listen));
        // The start of the subscription is not printed on stdout, so changes are repeated until one is received.
        let (url, home) = (served.url.clone(), sandbox.dir.clone());
        let again = RepeatedAction::start(move || {
            let mut command = Command::new(WHARF);
            command.args(["call", &url]).args(act).env("XDG_CACHE_HOME", &home);
            assert_eq!(finished(command, "").code, 0);
        });
        assert_eq!(&running.line(), expected, "{words:?}");
        drop(again);
        interrupt(&running.child);
        assert_eq!(running.end().0, 130, "{words:?}");
    }
}

#[test]
fn unsupported_subscriptions_are_reported() {
    let sandbox = Sandbox::new("deaf");
    let error = sandbox.demo(&["listen", "nonsense"]).error(1);
    assert!(error["hint"].as_str().unwrap().contains("--uri"), "{error}");
}
