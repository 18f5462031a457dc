//! Tasks, from the call that creates one to its end.

use serde_json::{Value, json};

use crate::cli::{
    interrupts::Running,
    pty::{Pty, interrupt},
    sandbox::{DemoServer, Sandbox},
};

pub(crate) const ERAS: [&str; 2] = ["modern", "legacy"];

/// Starts a voyage of this number of days; returns the task id.
pub(crate) fn start_voyage(sandbox: &Sandbox, url: &str, era: &str, days: &str) -> String {
    let ran = sandbox.run(&["call", url, "voyage", days, "--detach", "--era", era]);
    ran.json()["taskId"].as_str().expect("it is a task").to_owned()
}

#[test]
fn a_detached_call_is_resumed_in_another_process() {
    let sandbox = Sandbox::new("tasks-resume");
    let served = DemoServer::http(&sandbox);
    for era in ERAS {
        let id = start_voyage(&sandbox, &served.url, era, "days=1");
        let resumed = sandbox.run(&["tasks", "resume", &served.url, &id, "--era", era]);
        assert_eq!(resumed.json()["content"][0]["text"], "reached Lisbon", "{era}");
        let got = sandbox.run(&["tasks", "get", &served.url, &id, "--era", era]).json();
        assert_eq!((&got["taskId"], &got["status"]), (&json!(id), &json!("completed")), "{era}");
        assert_eq!(got["result"]["content"][0]["text"], "reached Lisbon", "{era}");
    }
}

#[test]
fn tasks_watch_prints_a_line_per_change() {
    let sandbox = Sandbox::new("tasks-watch");
    let served = DemoServer::http(&sandbox);
    for era in ERAS {
        let id = start_voyage(&sandbox, &served.url, era, "days=2");
        let watched = sandbox.run(&["tasks", "watch", &served.url, &id, "--era", era]);
        assert_eq!(watched.code, 0, "{watched:?}");
        let lines: Vec<Value> =
            watched.out.lines().map(|line| serde_json::from_str(line).unwrap()).collect();
        assert_eq!(lines.last().unwrap()["status"], "completed", "{era}");
        assert!(lines.iter().all(|line| line["taskId"] == json!(id)));
    }
}

#[test]
fn a_cancelled_task_stays_cancelled() {
    let sandbox = Sandbox::new("tasks-cancel");
    let served = DemoServer::http(&sandbox);
    for era in ERAS {
        let id = start_voyage(&sandbox, &served.url, era, "days=600");
        let cancelled = sandbox.run(&["tasks", "cancel", &served.url, &id, "--era", era]).json();
        assert_eq!(cancelled["status"], "cancelled", "{era}");
        for verb in ["watch", "resume"] {
            let ran = sandbox.run(&["tasks", verb, &served.url, &id, "--era", era]);
            assert_eq!(ran.printed_error(5)["kind"], "task_cancelled", "{era} {verb}");
        }
    }
}

#[test]
fn invalid_output_is_reported() {
    let sandbox = Sandbox::new("tasks-wrong");
    assert!(
        sandbox.demo(&["tasks", "get"]).error(1)["hint"].as_str().unwrap().contains("--detach")
    );
    assert_eq!(
        sandbox.demo(&["tasks", "get", "one", "two"]).error(1)["message"],
        "`two` is an unexpected argument"
    );
    let lists = sandbox.demo(&["tasks", "list"]).error(5);
    assert_eq!(lists["kind"], "capability_not_supported");
    assert!(lists["hint"].as_str().unwrap().contains("--detach"));
    let unknown = sandbox.demo(&["tasks", "get", "0123456789abcdef"]);
    assert_eq!(unknown.error(5)["exit"], 5);
    let output = sandbox.demo(&["tasks", "get", "one", "--output", "x"]).error(1);
    assert_eq!(output["message"], "--output is for `wharf tasks resume`");
    assert_eq!(sandbox.demo(&["tasks", "forget", "one"]).code, 1);
}

#[test]
fn a_call_that_becomes_no_task_gives_its_result() {
    let sandbox = Sandbox::new("tasks-none");
    let ran = sandbox.demo(&["call", "add", "a=1", "b=2", "--detach"]);
    assert_eq!(ran.json()["content"][0]["text"], "3");
}

#[test]
fn ctrl_c_cancels_the_task_of_a_call_but_not_a_resumed_one() {
    let sandbox = Sandbox::new("tasks-interrupt");
    let served = DemoServer::http(&sandbox);
    for era in ERAS {
        let words = ["call", &served.url, "voyage", "days=600", "--trace", "--era", era];
        let running = Running::start(sandbox.command(&words));
        if era == "modern" {
            running.wait_for_stderr("\"resultType\":\"task\"");
            interrupt(&running.child);
            let (code, rest) = running.end();
            assert_eq!(code, 130, "{rest}");
            assert!(rest.contains("\"method\":\"tasks/cancel\""), "{rest}");
        } else {
            // In the legacy dialect only calls that request a task become tasks.
            running.wait_for_stderr("\"method\":\"tools/call\"");
            interrupt(&running.child);
            assert_eq!(running.end().0, 130);
        }
        let id = start_voyage(&sandbox, &served.url, era, "days=600");
        let words = ["tasks", "resume", &served.url, &id, "--trace", "--era", era];
        let running = Running::start(sandbox.command(&words));
        running.wait_for_stderr("\"method\":\"tasks/get\"");
        interrupt(&running.child);
        let (code, rest) = running.end();
        assert!(code == 130 && !rest.contains("tasks/cancel"), "{rest}");
        let got = sandbox.run(&["tasks", "get", &served.url, &id, "--era", era]).json();
        assert_eq!(got["status"], "working", "{era}");
    }
}

#[test]
fn task_progress_and_prompts_are_shown() {
    let sandbox = Sandbox::new("tasks-terminal");
    let served = DemoServer::http(&sandbox);
    let at = |words: &[&str]| {
        let mut command = sandbox.command(words);
        command.env("NO_COLOR", "1").env("TERM", "xterm");
        Pty::start(command)
    };
    let mut call = at(&["call", &served.url, "voyage", "days=2"]);
    call.until("[working] ").until("Which port?").type_line("Porto");
    let (code, shown) = call.end();
    assert!(code == 0 && shown.contains("reached Porto"), "{shown}");
    let (code, shown) = at(&["call", &served.url, "voyage", "days=0", "--detach"]).end();
    let id = shown.lines().next().unwrap().to_owned();
    let how = format!("`wharf tasks resume {} {id}` waits", served.url);
    assert!(code == 0 && shown.replace('\n', "").contains(&how), "{shown}");
    let mut resumed = at(&["tasks", "resume", &served.url, &id]);
    resumed.until("Which port?").type_line("Cadiz");
    let (code, shown) = resumed.end();
    assert!(code == 0 && shown.contains("reached Cadiz"), "{shown}");
    let (code, shown) = at(&["tasks", "get", &served.url, &id]).end();
    assert!(code == 0 && shown.contains("status   completed\n"), "{shown}");
    assert!(shown.ends_with("reached Cadiz\n"), "{shown}");
}

#[test]
fn task_progress_shows_steps_and_message() {
    let sandbox = Sandbox::new("tasks-progress");
    let served = DemoServer::http(&sandbox);
    let mut command =
        sandbox.command(&["call", &served.url, "voyage", "days=4", "--era", "modern"]);
    command.env("NO_COLOR", "1");
    let mut pty = Pty::start(command);
    pty.until("[working] 3 of 4: day 3 at sea").until("text > ").type_line("Porto");
    let (code, shown) = pty.end();
    assert!(code == 0 && shown.ends_with("reached Porto\n"), "{shown}");
    let id = start_voyage(&sandbox, &served.url, "modern", "days=2");
    let watched = sandbox.run(&["tasks", "watch", &served.url, &id]);
    assert!(watched.out.contains("2 of 2: day 2 at sea"), "{watched:?}");
}
