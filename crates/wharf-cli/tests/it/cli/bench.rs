//! `wharf bench`, over HTTP and a command, in both eras.

use std::{
    io::{BufReader, Write},
    net::TcpListener,
    thread,
};

use serde_json::Value;

use crate::cli::{
    sandbox::{CommandOutput, DemoServer, Sandbox, WHARF},
    scripted_server::{http_reply, regular_reply, request},
};

/// Options of short runs: the tests check counts, not times.
const SHORT: [&str; 4] = ["--duration", "200ms", "--warmup", "50ms"];

/// Report of a run with this exit code.
fn report(ran: &CommandOutput, code: i32) -> Value {
    assert_eq!(ran.code, code, "{ran:?}");
    serde_json::from_str(&ran.out).unwrap_or_else(|error| panic!("{error}: {ran:?}"))
}

fn number(report: &Value, field: &str) -> f64 {
    report[field].as_f64().unwrap_or_else(|| panic!("{field} in {report}"))
}

#[test]
fn a_closed_loop_over_http_and_a_command_in_both_eras() {
    let sandbox = Sandbox::new("bench-closed");
    let served = DemoServer::http(&sandbox);
    for (era, least) in [("modern", "server/discover"), ("legacy", "ping")] {
        let options = [&SHORT[..], &["--connections", "2", "--era", era]].concat();
        let over_http = [&["bench", &served.url, "add", "a=1", "b=2"], &options[..]].concat();
        let report_of_http = report(&sandbox.run(&over_http), 0);
        let report_of_command = report(&sandbox.demo(&[&["bench"], &options[..]].concat()), 0);
        for (report, method) in [(&report_of_http, "tools/call"), (&report_of_command, least)] {
            assert_eq!((&report["mode"], &report["method"]), (&"closed".into(), &method.into()));
            assert_eq!((&report["ok"], &report["errors"]), (&report["calls"], &0.into()));
            assert!(number(report, "ok") >= 1.0, "{era}: {report}");
        }
        assert_eq!(report_of_http["tool"], "add");
    }
}

#[test]
fn every_figure_has_a_name_and_a_unit() {
    let sandbox = Sandbox::new("bench-fields");
    let words = ["bench", "add", "a=1", "b=2", "--count", "40", "--in-flight", "2"];
    let ran = sandbox.demo(&words);
    let report = ran.json();
    assert_eq!(ran.err, "");
    assert_eq!(report["server"]["name"], "wharf-demo");
    assert_eq!(report["protocol_version"], "2026-07-28");
    for (field, value) in [
        ("connections", 8.0),
        ("in_flight", 2.0),
        ("warmup_s", 0.0),
        ("calls", 40.0),
        ("ok", 40.0),
        ("errors", 0.0),
        ("error_share", 0.0),
        ("missed", 0.0),
        ("unfinished", 0.0),
        ("other_errors", 0.0),
    ] {
        assert_eq!(number(&report, field), value, "{field}");
    }
    assert!(number(&report, "elapsed_s") > 0.0 && number(&report, "throughput_per_s") > 0.0);
    assert_eq!((&report["interrupted"], &report["rate_per_s"]), (&false.into(), &Value::Null));
    let latency = &report["latency"];
    let names = ["min_us", "p50_us", "p90_us", "p99_us", "p999_us", "max_us"];
    let times: Vec<f64> = names.iter().map(|name| number(latency, name)).collect();
    assert!(times[0] > 0.0 && times.is_sorted(), "{latency}");
    assert!((times[0]..=times[5]).contains(&number(latency, "mean_us")), "{latency}");
    let bars = report["histogram"].as_array().unwrap();
    assert_eq!(bars.iter().map(|bar| number(bar, "count")).sum::<f64>(), 40.0);
    assert!(bars.iter().all(|bar| number(bar, "from_us") < number(bar, "to_us")), "{bars:?}");
    assert_eq!(report["error_kinds"], Value::Array(Vec::new()));
}

#[test]
fn an_open_loop_keeps_its_rate_and_reports_missed_calls() {
    let sandbox = Sandbox::new("bench-open");
    let words = ["bench", "echo", "text=hi", "--rate", "50", "--count", "10"];
    let open = report(&sandbox.demo(&[&words[..], &["--connections", "2"]].concat()), 0);
    assert_eq!((&open["mode"], number(&open, "rate_per_s")), (&"open".into(), 50.0));
    assert_eq!((number(&open, "ok"), number(&open, "missed")), (10.0, 0.0));

    let words = ["bench", "sleep", "seconds=1", "--rate", "1000", "--count", "100"];
    let bound = ["--connections", "2", "--in-flight", "3"];
    let full = report(&sandbox.demo(&[&words[..], &bound[..]].concat()), 0);
    let (ok, missed) = (number(&full, "ok"), number(&full, "missed"));
    assert!(ok >= 6.0 && missed > 0.0 && ok + missed == 100.0, "{full}");
}

#[test]
fn errors_are_reported_by_kind() {
    let sandbox = Sandbox::new("bench-errors");
    for era in ["modern", "legacy"] {
        let words = ["bench", "fail", "reason=rain", "--count", "20", "--era", era];
        let ran = sandbox.demo(&[&words[..], &["--connections", "2"]].concat());
        let failed = report(&ran, 5);
        assert_eq!((number(&failed, "errors"), number(&failed, "ok")), (20.0, 0.0));
        assert_eq!((number(&failed, "error_share"), &failed["latency"]), (1.0, &Value::Null));
        let kinds = failed["error_kinds"].as_array().unwrap();
        assert_eq!(kinds.len(), 1, "{kinds:?}");
        assert_eq!(kinds[0]["kind"], "tool_execution_failed");
        assert_eq!((&kinds[0]["message"], number(&kinds[0], "count")), (&"rain".into(), 20.0));
        assert_eq!(ran.printed_error(5)["message"], "20 of 20 calls failed");
    }
}

#[test]
fn timed_out_calls_are_errors() {
    let sandbox = Sandbox::new("bench-timeout");
    let words = ["bench", "sleep", "seconds=600", "--count", "2", "--timeout", "100ms"];
    let failed = report(&sandbox.demo(&[&words[..], &["--connections", "1"]].concat()), 5);
    assert_eq!(failed["error_kinds"][0]["kind"], "request_timeout");
    assert_eq!(number(&failed, "errors"), 2.0);
}

/// Server with a correct discovery that closes the connection on every other tool call.
fn unreliable_server() -> (String, std::sync::mpsc::Receiver<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/mcp", listener.local_addr().unwrap());
    let (send, calls) = std::sync::mpsc::channel();
    thread::spawn(move || {
        let mut number = 0;
        for stream in listener.incoming() {
            let mut stream = BufReader::new(stream.unwrap());
            while let Some(asked) = request(&mut stream) {
                if asked["method"] == "tools/call" {
                    number += 1;
                    let _ = send.send(());
                    if number % 2 == 0 {
                        break;
                    }
                }
                let reply = http_reply(&regular_reply(&asked));
                if stream.get_mut().write_all(reply.as_bytes()).is_err() {
                    break;
                }
            }
        }
    });
    (url, calls)
}

#[test]
fn a_call_that_failed_is_not_made_again_though_the_connection_is() {
    let sandbox = Sandbox::new("bench-fickle");
    let (url, calls) = unreliable_server();
    let words = ["bench", &url, "look", "--count", "6", "--connections", "1", "--era", "modern"];
    let failed = report(&sandbox.run(&words), 5);
    assert_eq!((number(&failed, "ok"), number(&failed, "errors")), (3.0, 3.0), "{failed}");
    assert_eq!(failed["error_kinds"][0]["kind"], "connection_closed");
    assert_eq!(calls.try_iter().count(), 6);
}

#[test]
fn an_uncallable_tool_is_reported_before_the_benchmark() {
    let sandbox = Sandbox::new("bench-usage");
    for (words, told) in [
        (vec!["wether", "city=x"], "no tool `wether`"),
        (vec!["add", "a=one", "b=2"], "a: `one` is not an integer"),
        (vec!["add", "a=1"], "needs this argument"),
        (vec!["add", "nonsense"], "`nonsense` is not an argument"),
        (vec!["deploy", "build=7"], "marked as destructive"),
        (vec!["--connections", "0"], "--connections"),
        (vec!["--in-flight", "0"], "--in-flight"),
        (vec!["--rate", "0"], "--rate"),
        (vec!["--duration", "0"], "--duration"),
        (vec!["--count", "1", "--duration", "1s"], "--count"),
    ] {
        let error = sandbox.demo(&[&["bench"], &words[..]].concat()).error(1);
        assert!(error["message"].as_str().unwrap().contains(told), "{words:?}: {error}");
    }
    let error = sandbox.demo(&["bench", "wether"]).error(1);
    assert_eq!(error["hint"], "Did you mean `weather`?");
}

#[test]
fn an_unreachable_server_exits_with_4() {
    let sandbox = Sandbox::new("bench-nobody");
    let nobody = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    sandbox.run(&["bench", &format!("http://{nobody}/mcp")]).error(4);
    sandbox.run(&["bench", "--", "no-such-program"]).error(4);
}

#[cfg(unix)]
mod at_a_terminal {
    use super::*;
    use crate::cli::{
        interrupts::Running,
        pty::{Pty, interrupt},
    };

    fn demo(sandbox: &Sandbox, words: &[&str], environment: &[(&str, &str)]) -> Pty {
        let mut command = sandbox.command(&[words, &["--", WHARF, "serve"]].concat());
        command.envs(environment.iter().copied());
        Pty::start(command)
    }

    /// Output after the progress line was erased.
    fn result(shown: &str) -> &str {
        shown.rsplit("\x1b[K").next().unwrap()
    }

    #[test]
    fn a_histogram_is_drawn_to_the_width_there_is() {
        let sandbox = Sandbox::new("bench-histogram");
        for columns in ["40", "80"] {
            let words = ["bench", "add", "a=1", "b=2", "--count", "200", "--connections", "2"];
            let pty = demo(&sandbox, &words, &[("NO_COLOR", "1"), ("COLUMNS", columns)]);
            let (code, shown) = pty.end();
            let shown = result(&shown);
            assert_eq!(code, 0, "{shown}");
            assert!(shown.starts_with("tools/call add at wharf-demo"), "{shown}");
            assert!(shown.contains("\nErrors      none\n"), "{shown}");
            assert!(shown.contains("p99.9") && shown.contains('█'), "{shown}");
            assert!(shown.ends_with("100.0 %\n") && !shown.contains('\x1b'), "{shown}");
            let columns: usize = columns.parse().unwrap();
            assert!(shown.lines().all(|line| line.chars().count() <= columns), "{shown}");
        }
    }

    #[test]
    fn colour_and_progress_need_a_capable_terminal() {
        let sandbox = Sandbox::new("bench-colour");
        let words = ["bench", "--duration", "600ms", "--warmup", "0", "--connections", "1"];
        let (_, shown) = demo(&sandbox, &words, &[("TERM", "xterm")]).end();
        assert!(shown.contains(" a second, 0 errors, "), "{shown}");
        assert!(shown.contains("\x1b[36m█"), "{shown}");
        let (_, shown) = demo(&sandbox, &words, &[("TERM", "dumb")]).end();
        assert!(!shown.contains('\x1b') && !shown.contains(" left"), "{shown}");
    }

    #[test]
    fn errors_are_a_table() {
        let sandbox = Sandbox::new("bench-table");
        let words = ["bench", "fail", "reason=\x1b[31mrain", "--count", "3", "--connections", "1"];
        let (code, shown) = demo(&sandbox, &words, &[("NO_COLOR", "1")]).end();
        let shown = result(&shown);
        assert_eq!(code, 5);
        assert!(shown.contains("Errors      3 (100.00 %)\n"), "{shown}");
        assert!(shown.contains("3      tool_execution_failed  \\x1b[31mrain\n"), "{shown}");
        assert!(shown.ends_with("error: 3 of 3 calls failed\n"), "{shown}");
    }

    #[test]
    fn ctrl_c_prints_a_report_for_programs_too() {
        let sandbox = Sandbox::new("bench-stop");
        let words = ["bench", "sleep", "seconds=0.05", "--duration", "10m", "--warmup", "0"];
        let traced = ["--connections", "1", "--trace", "--", WHARF, "serve"];
        let running = Running::start(sandbox.command(&[&words[..], &traced[..]].concat()));
        running.wait_for_stderr("\"slept\"");
        running.wait_for_stderr("\"method\":\"tools/call\"");
        interrupt(&running.child);
        let report = running.line();
        assert_eq!(report["interrupted"], true);
        assert!(number(&report, "ok") >= 1.0 && number(&report, "errors") == 0.0, "{report}");
        let (code, told) = running.end();
        assert_eq!(code, 130);
        assert!(told.contains(r#"{"error":{"kind":"interrupted""#), "{told}");
    }

    #[test]
    fn ctrl_c_ends_the_benchmark_with_a_report() {
        let sandbox = Sandbox::new("bench-interrupt");
        let words = ["bench", "add", "a=1", "b=2", "--duration", "10m", "--warmup", "0"];
        let environment = [("NO_COLOR", "1")];
        let mut pty = demo(&sandbox, &words, &environment);
        // The line is drawn four times a second, so calls were made by then.
        for _ in 0..8 {
            pty.until("s left");
        }
        pty.interrupt();
        let (code, shown) = pty.end();
        let shown = result(&shown);
        assert_eq!(code, 130, "{shown}");
        assert!(shown.contains("\nThroughput  ") && shown.contains("p50"), "{shown}");
        assert!(shown.ends_with("\nInterrupted\n"), "{shown}");
        // During the warm-up nothing is counted, so there is nothing to report.
        let words = ["bench", "--warmup", "10m", "--connections", "1"];
        let mut pty = demo(&sandbox, &words, &environment);
        pty.until("Warming up: ").interrupt();
        let (code, shown) = pty.end();
        assert!(code == 130 && result(&shown) == "Interrupted\n", "{shown:?}");
    }
}
