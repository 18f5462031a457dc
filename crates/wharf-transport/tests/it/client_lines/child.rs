//! Servers in child processes: this program, started again, or a shell script.
#![cfg(unix)]

use std::{sync::Arc, time::Duration};

use tokio::time::timeout;
use wharf_client::ClientTransport;
use wharf_model::{ErrorKind, Method, Outcome, Reply, RequestBuilder};
use wharf_transport::{
    Shutdown,
    client::{ChildCommand, ClientTransportOptions, Stderr, connect_child},
    server::stdio,
};

use crate::client_lines::support::{
    StreamCall, StreamServer, TraceLog, call, call_text, options, pinned, tool, until,
};

const ROLE: &str = "WHARF_TEST_ROLE";

/// Server that this program runs when it is started again; not a test. Its harness prints a line or
/// two to stdout first, as some servers do.
#[test]
fn as_a_server() {
    if std::env::var(ROLE).is_ok() {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        // The test harness has not ended its line.
        println!();
        runtime.block_on(stdio::serve(StreamServer::new().host, Shutdown::new())).unwrap();
        std::process::exit(0);
    }
}

fn this_program() -> ChildCommand {
    let program = std::env::current_exe().unwrap();
    ChildCommand::new(program.to_str().unwrap())
        .args(["--exact", "client_lines::child::as_a_server", "--nocapture", "--test-threads=1"])
        .env(ROLE, "server")
}

fn shell(script: &str) -> ChildCommand {
    ChildCommand::new("sh").args(["-c", script])
}

async fn start(options: ClientTransportOptions) -> Arc<dyn ClientTransport> {
    connect_child(this_program(), options).await.unwrap()
}

/// Id of the last process that a transport started.
fn process(trail: &TraceLog) -> i32 {
    let started = trail.all().into_iter().rev().find(|line| line.contains("# started")).unwrap();
    started.rsplit(' ').next().unwrap().parse().unwrap()
}

fn is_alive(process: i32) -> bool {
    let process = rustix::process::Pid::from_raw(process).unwrap();
    rustix::process::test_kill_process(process).is_ok()
}

#[tokio::test]
async fn a_child_works_in_every_revision_and_ends_when_the_link_is_closed() {
    for revision in wharf_wire::Revision::ALL {
        let mut options = pinned(revision.as_str());
        let trail = TraceLog::on(&mut options);
        let link = start(options).await;
        assert_eq!(call_text(&link, "now").await.unwrap(), "now {}");
        assert!(is_alive(process(&trail)));
        link.close().await;
        assert!(!is_alive(process(&trail)));
    }
}

#[tokio::test]
async fn a_child_ends_when_the_link_is_dropped() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let link = start(options).await;
    assert_eq!(link.about().revision, "2026-07-28");
    drop(link);
    let process = process(&trail);
    until(|| !is_alive(process)).await;
}

#[tokio::test]
async fn a_crash_fails_the_call_and_the_next_one_starts_it_again() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let link = start(options).await;
    let first = process(&trail);
    let error = call_text(&link, "crash").await.unwrap_err();
    assert_eq!(error.kind, ErrorKind::ConnectionClosed);
    assert!(error.message.contains("exit status: 3"), "{error}");
    assert!(error.message.contains("the toy breaks"), "{error}");
    assert_eq!(trail.count("# stderr: the toy breaks"), 1, "{:?}", trail.all());
    assert_eq!(call_text(&link, "now").await.unwrap(), "now {}");
    assert_ne!(process(&trail), first);
    link.close().await;
}

#[tokio::test]
async fn a_program_that_cannot_start_is_an_error_with_advice() {
    let there = std::env::temp_dir();
    for (command, part) in [
        (ChildCommand::new("no-such-program"), "PATH"),
        (ChildCommand::new("/no/such/program"), "the file and the interpreter"),
        (ChildCommand::new("npx -y server"), "separately"),
        (ChildCommand::new(there.to_str().unwrap()), "executable"),
        (shell("true").dir("/no/such/directory"), "directory"),
    ] {
        let error = connect_child(command.clone(), options()).await.map(drop).unwrap_err();
        assert_eq!(error.kind, ErrorKind::TransportError);
        let named = error.message.contains(&command.program);
        assert!(named && error.message.contains(part), "{error}");
    }
}

#[tokio::test]
async fn a_child_that_ends_at_once_is_an_error_with_its_last_words() {
    for stderr in [Stderr::Note, Stderr::Null] {
        let command = shell("echo 'no config file' >&2; exit 7").stderr(stderr);
        let mut options = options();
        let trail = TraceLog::on(&mut options);
        let error = connect_child(command, options).await.map(drop).unwrap_err();
        assert!(error.message.contains("exit status: 7"), "{error}");
        assert!(error.message.contains("no config file"), "{error}");
        let noted = trail.count("# stderr: no config file") > 0;
        assert_eq!(noted, stderr == Stderr::Note, "{:?}", trail.all());
    }
}

#[tokio::test]
async fn a_child_that_will_not_end_is_killed_with_all_it_started() {
    let here = std::env::temp_dir().join(format!("wharf-stubborn-{}", std::process::id()));
    // Responds to the handshake, then ignores the end of its input and SIGTERM, and so does its
    // child.
    let script = format!(
        "trap '' TERM; read line; \
         echo '{{\"jsonrpc\":\"2.0\",\"id\":'\"$(echo \"$line\" | sed 's/.*\"id\":\\([0-9]*\\).*/\\1/')\"',\"result\":{{\"protocolVersion\":\"2025-11-25\",\"capabilities\":{{}},\"serverInfo\":{{\"name\":\"sh\",\"version\":\"1\"}}}}}}'; \
         sh -c 'trap \"\" TERM; echo $$ > {}; while true; do sleep 1; done' & \
         while true; do sleep 1; done",
        here.display()
    );
    let mut options = pinned("2025-11-25");
    let trail = TraceLog::on(&mut options);
    let link = connect_child(shell(&script), options).await.unwrap();
    until(|| std::fs::read_to_string(&here).is_ok_and(|it| it.ends_with('\n'))).await;
    let grandchild: i32 = std::fs::read_to_string(&here).unwrap().trim().parse().unwrap();
    std::fs::remove_file(&here).unwrap();
    let child = process(&trail);
    assert!(is_alive(child) && is_alive(grandchild));
    tokio::time::pause();
    link.close().await;
    tokio::time::resume();
    // Its timeout expired at once, so the kernel may still be ending it.
    until(|| !is_alive(child) && !is_alive(grandchild)).await;
}

#[tokio::test]
async fn a_child_gets_its_directory_and_environment() {
    let command = shell("echo \"$PWD $A ${HOME-none}\" >&2")
        .dir("/usr")
        .env("A", "b")
        .env("PATH", std::env::var("PATH").unwrap())
        .clear_env();
    let error = connect_child(command.clone(), options()).await.map(drop).unwrap_err();
    assert!(error.message.contains("/usr b none"), "{error}");
    assert!(!format!("{command:?}").contains("\"b\""), "{command:?}");
}

/// Audit 13. `CARGO_MANIFEST_DIR` is an example of a variable that is not on the list.
#[tokio::test]
async fn a_child_gets_few_environment_variables_by_default() {
    let command = shell("echo \"[${HOME-none}] [${CARGO_MANIFEST_DIR-none}]\" >&2");
    let received = async |command: ChildCommand| {
        connect_child(command, options()).await.map(drop).unwrap_err().message.into_owned()
    };
    let variable = |name: &str| std::env::var(name).unwrap();
    let (home, other) = (variable("HOME"), variable("CARGO_MANIFEST_DIR"));
    let message = received(command.clone()).await;
    assert!(message.contains(&format!("[{home}] [none]")), "{message}");
    let message = received(command.clone().inherit_env()).await;
    assert!(message.contains(&format!("[{home}] [{other}]")), "{message}");
    let message = received(command.env("CARGO_MANIFEST_DIR", "own")).await;
    assert!(message.contains(&format!("[{home}] [own]")), "{message}");
}

#[tokio::test]
async fn a_call_to_a_child_can_be_cancelled() {
    let mut options = options();
    let trail = TraceLog::on(&mut options);
    let link = start(options).await;
    let mut hanging = StreamCall::start(&link, tool("hang"));
    assert!(timeout(Duration::from_millis(50), hanging.next()).await.is_err());
    drop(hanging);
    trail.until("> {\"jsonrpc\":\"2.0\",\"method\":\"notifications/cancelled\"").await;
    let request = RequestBuilder::new(Method::CallTool).target("now").build();
    let (_, outcome) = call(&link, request).await;
    assert!(matches!(outcome, Outcome::Complete(Reply::Tool(_))), "{outcome:?}");
    link.close().await;
}
