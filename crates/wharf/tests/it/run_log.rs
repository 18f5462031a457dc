//! Log of a program whose `main` ends in `run`: its lines on stderr.

use std::{
    io::Write as _,
    process::{Command, Output, Stdio},
};

use serde_json::Value;
use wharf::{
    Server, Tool,
    server::{CommandLine, Transport},
};

/// Environment variable with the command line of the tested program, separated by spaces.
const WORDS: &str = "RUN_LOG_WORDS";

/// Not a test: the program that the tests run in a separate process.
#[test]
#[ignore = "the tests of logs start it"]
fn program() {
    let words = std::env::var(WORDS).unwrap();
    if std::env::var_os("RUN_LOG_OWN").is_some() {
        tracing_subscriber::fmt().with_writer(std::io::stderr).with_ansi(false).init();
    }
    let report = Tool::new("report", async || {
        let span = tracing::info_span!(
            "job",
            job = 7,
            "otel.name" = "work",
            "app.quay" = "west",
            span_id = "b7ad6b7169203331",
            trace_id = "0af7651916cd43dd8448eb211c80319c"
        );
        span.in_scope(|| {
            tracing::warn!(
                target: "app",
                ships = 3,
                tide = 1.5,
                is_late = true,
                ts = "noon",
                text = "a\n\u{1b}[31mb",
                "cannot\nmoor"
            );
            tracing::info!(target: "app", "moored");
        });
        "done"
    });
    let server = Server::new("harbour", "1.0.0").add(report);
    let runtime = tokio::runtime::Runtime::new().unwrap();
    let words: Vec<_> = words.split_whitespace().map(Into::into).collect();
    let result = runtime.block_on(async {
        match words.is_empty() {
            true => server.run_over(Transport::Stdio).await,
            false => server.run_with(CommandLine::parse(words)?.unwrap()).await,
        }
    });
    if let Err(error) = result {
        eprintln!("failed: {error}");
    }
}

/// Line that calls the tool.
const CALL: &str = concat!(
    r#"{"jsonrpc":"2.0","id":1,"method":"tools/call","params":{"name":"report","_meta":{"io.modelcontextprotocol/protocolVersion":"2026-07-28","io.modelcontextprotocol/clientCapabilities":{}}}}"#,
    "\n"
);

/// Returns the command that starts the program with this command line and environment, with piped streams.
fn program_command(words: &str, variables: &[(&str, &str)]) -> Command {
    let mut command = Command::new(std::env::current_exe().unwrap());
    command.args(["--exact", "run_log::program", "--ignored", "--nocapture"]).env(WORDS, words);
    for name in ["RUST_LOG", "WHARF_LOG", "WHARF_LOG_FORMAT"] {
        command.env_remove(name);
    }
    command.envs(variables.iter().copied());
    command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
    command
}

/// Runs the program with this command line and environment, and calls its tool.
fn run(words: &str, variables: &[(&str, &str)]) -> Output {
    let mut child = program_command(words, variables).spawn().unwrap();
    // A program that failed to start does not read its input.
    let _ = child.stdin.take().unwrap().write_all(CALL.as_bytes());
    child.wait_with_output().unwrap()
}

fn stderr(output: &Output) -> String {
    let stdout = String::from_utf8_lossy(&output.stdout);
    assert!(!stdout.contains("moor") && !stdout.contains("\"level\""), "{stdout}");
    String::from_utf8_lossy(&output.stderr).into_owned()
}

/// Log lines of the tool, as JSON.
fn json_lines(output: &Output) -> Vec<Value> {
    let text = stderr(output);
    let lines = text.lines().filter(|line| line.contains("moor"));
    lines.map(|line| serde_json::from_str(line).unwrap_or_else(|_| panic!("{line}"))).collect()
}

#[test]
fn lines_are_json_where_there_is_no_terminal() {
    let lines = json_lines(&run("", &[]));
    let [line] = &lines[..] else { panic!("only warnings and errors by default: {lines:?}") };
    let names: Vec<_> = line.as_object().unwrap().keys().map(String::as_str).collect();
    let expected = ["ts", "level", "target", "msg", "ships", "tide", "is_late", "ts_", "text"];
    assert!(expected.iter().all(|name| names.contains(name)), "{names:?}");
    assert_eq!(line["level"], "WARN");
    assert_eq!(line["target"], "app");
    assert_eq!(line["msg"], "cannot\nmoor");
    assert_eq!(
        (&line["ships"], &line["tide"], &line["is_late"]),
        (&3.into(), &1.5.into(), &true.into())
    );
    assert_eq!((&line["ts_"], &line["text"]), (&"noon".into(), &"a\n\u{1b}[31mb".into()));
    let time = line["ts"].as_str().unwrap();
    assert!(time.len() == 27 && time.starts_with("20") && time.ends_with('Z'), "{time}");
}

#[test]
fn fields_of_the_span_and_the_trace_are_in_the_line() {
    let output = run("--log-format json", &[("WHARF_LOG", "info")]);
    let lines = json_lines(&output);
    assert_eq!(lines.len(), 2, "{lines:?}");
    for line in &lines {
        assert_eq!((&line["job"], &line["app.quay"]), (&7.into(), &"west".into()));
        assert!(line.get("otel.name").is_none(), "{line}");
        assert_eq!(line["trace_id"], "0af7651916cd43dd8448eb211c80319c");
        assert_eq!(line["span_id"], "b7ad6b7169203331");
    }
    let text = stderr(&output);
    let moored = text.lines().find(|line| line.contains("moored")).unwrap();
    assert!(
        moored.ends_with(
            r#","trace_id":"0af7651916cd43dd8448eb211c80319c","span_id":"b7ad6b7169203331"}"#
        ),
        "{moored}"
    );
    assert!(
        moored.starts_with(r#"{"ts":""#)
            && moored.contains(r#"Z","level":"INFO","target":"app","msg":"moored","#),
        "{moored}"
    );
}

#[test]
fn text_has_no_control_characters() {
    let variables = [("WHARF_LOG_FORMAT", "json"), ("WHARF_LOG", "info")];
    let text = stderr(&run("--log-format=text", &variables));
    let line = text.lines().find(|line| line.contains("moored")).unwrap();
    assert!(line.contains("moored") && line.contains(" job=7 "), "{line}");
    assert!(!line.contains("quay"), "{line}");
    let text = stderr(&run("--log-format=text", &[("WHARF_LOG_FORMAT", "json")]));
    let line = text.lines().find(|line| line.contains("moor")).unwrap();
    let (_, rest) = line.split_once("Z  WARN app: ").unwrap();
    assert_eq!(rest, r#"cannot\nmoor ships=3 tide=1.5 is_late=true ts=noon text="a\n\u001b[31mb""#);
    let text = stderr(&run("", &[("WHARF_LOG_FORMAT", "text")]));
    assert!(text.contains("Z  WARN app: cannot"), "{text}");
}

#[test]
fn the_variable_of_wharf_comes_before_that_of_rust() {
    let count = |variables: &[(&str, &str)]| json_lines(&run("", variables)).len();
    assert_eq!(count(&[("RUST_LOG", "info")]), 2);
    assert_eq!(count(&[("WHARF_LOG", "off"), ("RUST_LOG", "info")]), 0);
    assert_eq!(count(&[("WHARF_LOG", ""), ("RUST_LOG", "error,app=info")]), 2);
}

#[test]
fn an_invalid_setting_stops_the_server_with_its_reason() {
    for (words, variable, value, reason) in [
        (
            "",
            "WHARF_LOG",
            "run_log=loud",
            "WHARF_LOG: \"run_log=loud\" has an unknown level: write a level",
        ),
        (
            "",
            "RUST_LOG",
            "verbose",
            "RUST_LOG: \"verbose\" is neither a level nor the name of a module",
        ),
        (
            "",
            "WHARF_LOG_FORMAT",
            "xml",
            "WHARF_LOG_FORMAT: \"xml\" is no format of log lines: write text or json",
        ),
        (
            "--log-format xml",
            "RUST_LOG",
            "",
            "--log-format: \"xml\" is no format of log lines: write text or json",
        ),
    ] {
        let text = stderr(&run(words, &[(variable, value)]));
        assert!(text.contains(&format!("failed: {reason}")), "{text}");
    }
}

#[test]
fn the_subscriber_of_the_application_stays() {
    let text = stderr(&run("--log-format json", &[("RUN_LOG_OWN", "1"), ("WHARF_LOG", "verbose")]));
    assert!(text.contains("job{job=7") && !text.contains("\"level\""), "{text}");
}

#[test]
fn status_lines_have_the_format_of_the_log() {
    let status = |words: &str| {
        let mut child = program_command(words, &[]).stdout(Stdio::null()).spawn().unwrap();
        let mut line = String::new();
        let stderr = std::io::BufReader::new(child.stderr.take().unwrap());
        std::io::BufRead::read_line(&mut { stderr }, &mut line).unwrap();
        child.kill().unwrap();
        child.wait().unwrap();
        line
    };
    let text = status("--tcp 127.0.0.1:0 --log-format text");
    assert!(text.starts_with("harbour: serving lines at tcp://127.0.0.1:"), "{text}");
    // JSON is also the format where there is no terminal.
    for words in ["--tcp 127.0.0.1:0", "--tcp 127.0.0.1:0 --log-format json"] {
        let line: Value = serde_json::from_str(&status(words)).unwrap();
        let message = line["msg"].as_str().unwrap();
        assert!(message.starts_with("harbour: serving lines at tcp://"), "{line}");
    }
}

/// Calls that log more than the buffer of a pipe has room for.
const CALLS: usize = 2000;

#[cfg(unix)]
#[test]
fn calls_do_not_wait_for_a_reader_of_stderr() {
    use std::{
        io::{BufRead as _, BufReader},
        sync::mpsc::channel,
        time::Duration,
    };

    let mut child = program_command("", &[("WHARF_LOG", "info")]).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let (replies, replied) = channel();
    let stdout = BufReader::new(child.stdout.take().unwrap());
    std::thread::spawn(move || {
        let is_reply = |line: &String| line.contains("\"result\"");
        stdout
            .lines()
            .map_while(Result::ok)
            .filter(is_reply)
            .for_each(|_| replies.send(()).unwrap_or_default());
    });
    let mut call = |count| (0..count).for_each(|_| stdin.write_all(CALL.as_bytes()).unwrap());
    let wait = |count| {
        (0..count).for_each(|_| replied.recv_timeout(Duration::from_secs(60)).expect("a reply"));
    };
    for _ in 0..CALLS {
        call(1);
        wait(1);
    }
    let (lines, logged) = channel();
    let stderr = BufReader::new(child.stderr.take().unwrap());
    std::thread::spawn(move || {
        stderr.lines().map_while(Result::ok).for_each(|line| lines.send(line).unwrap_or_default());
    });
    // The next line that fits comes after the number of those that did not.
    let dropped = loop {
        call(1);
        wait(1);
        let mut new = std::iter::from_fn(|| logged.recv_timeout(Duration::from_millis(100)).ok());
        if let Some(line) = new.find(|line| line.contains("dropped")) {
            break line;
        }
    };
    let line: Value = serde_json::from_str(&dropped).unwrap();
    assert_eq!(line["level"], "WARN");
    let message = line["msg"].as_str().unwrap();
    let count = message.strip_prefix("dropped ").unwrap().split(' ').next().unwrap();
    assert!(count.parse::<usize>().unwrap() > CALLS, "{message}");
    drop(stdin);
    assert!(child.wait().unwrap().success());
}

#[cfg(feature = "otlp")]
#[test]
fn variables_of_opentelemetry_without_effect_are_logged_once() {
    let output = run(
        "",
        &[
            ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:9"),
            ("OTEL_LOGS_EXPORTER", "otlp"),
            ("OTEL_TRACES_SAMPLER", "parentbased_traceidratio"),
            ("OTEL_TRACES_SAMPLER_ARG", "0.01"),
        ],
    );
    let text = stderr(&output);
    for line in ["ignoring variables of OpenTelemetry", "callers decide whether their traces"] {
        assert_eq!(text.matches(line).count(), 1, "{line}: {text}");
    }
    assert!(text.contains("\"variables\":\"OTEL_LOGS_EXPORTER\""), "{text}");
}

#[cfg(feature = "otlp")]
#[test]
fn a_server_that_cannot_serve_exports_what_it_has() {
    use std::{io::Read as _, net::TcpListener, sync::mpsc::channel, time::Duration};

    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let (requests, received) = channel();
    std::thread::spawn(move || {
        let mut stream = listener.accept().unwrap().0;
        let mut head = [0; 24];
        stream.read_exact(&mut head).unwrap();
        requests.send(String::from_utf8_lossy(&head).into_owned()).unwrap();
        let _ = stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n");
        let _ = stream.read_to_end(&mut Vec::new());
    });
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), ("OTEL_TRACES_EXPORTER", "none")];
    // No machine has this address.
    let output = run("--admin 192.0.2.1:9464", &variables);
    assert!(stderr(&output).contains("failed: "), "{output:?}");
    let request = received.recv_timeout(Duration::from_secs(60)).unwrap();
    assert!(request.starts_with("POST /v1/metrics "), "{request}");
}
