//! Batches, intervals, retries and the end of the export over OTLP, with a scripted receiver.

use std::{sync::Arc, time::Duration};

use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::{TcpListener, TcpStream},
    sync::{Mutex, mpsc},
    time::{Instant, timeout},
};
use wharf_model::{Method, Observers, RequestBuilder};
use wharf_telemetry::Otlp;

use crate::traces::{dropped, serve};

/// Path and body of a request, with the time of its arrival.
struct Received {
    at: Instant,
    path: String,
    body: Value,
}

/// Receiver that answers with these responses, one after the other, and with success after that.
struct Receiver {
    address: String,
    received: mpsc::UnboundedReceiver<Received>,
}

const ACCEPTED: &str = "200 OK\r\n";

impl Receiver {
    async fn start(responses: &[&str]) -> Receiver {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = format!("http://{}", listener.local_addr().unwrap());
        let responses = responses.iter().rev().map(|it| (*it).to_owned()).collect();
        let responses = Arc::new(Mutex::new(responses));
        let (sender, received) = mpsc::unbounded_channel();
        tokio::spawn(async move {
            loop {
                let (stream, _) = listener.accept().await.unwrap();
                tokio::spawn(answer(stream, responses.clone(), sender.clone()));
            }
        });
        Receiver { address, received }
    }

    fn export(&self, more: &[(&str, &str)]) -> Otlp {
        let otlp = Otlp::from_variables(|name| match name {
            "OTEL_EXPORTER_OTLP_ENDPOINT" => Some(self.address.clone()),
            "OTEL_EXPORTER_OTLP_PROTOCOL" => Some("http/json".to_owned()),
            name => more.iter().find(|it| it.0 == name).map(|it| it.1.to_owned()),
        });
        let otlp = otlp.unwrap().unwrap();
        otlp.start("harbour", "1.0.0");
        otlp
    }

    async fn next(&mut self) -> Received {
        let next = timeout(Duration::from_secs(600), self.received.recv());
        next.await.unwrap().unwrap()
    }
}

async fn answer(
    mut stream: TcpStream,
    responses: Arc<Mutex<Vec<String>>>,
    received: mpsc::UnboundedSender<Received>,
) {
    let mut read = Vec::new();
    loop {
        let mut buffer = [0; 65536];
        match stream.read(&mut buffer).await {
            Ok(count @ 1..) => read.extend(&buffer[..count]),
            _ => return,
        }
        let head = read.windows(4).position(|it| it == b"\r\n\r\n").map(|at| at + 4);
        let Some(head) = head else { continue };
        let headers = String::from_utf8_lossy(&read[..head]).to_lowercase();
        let length = headers.split("content-length: ").nth(1).unwrap().lines().next().unwrap();
        let length: usize = length.parse().unwrap();
        if read.len() >= head + length {
            let body = serde_json::from_slice(&read[head..head + length]).unwrap();
            let path = headers.split(' ').nth(1).unwrap().to_owned();
            read.drain(..head + length);
            let response = responses.lock().await.pop().unwrap_or_else(|| ACCEPTED.to_owned());
            let _ = received.send(Received { at: Instant::now(), path, body });
            let (head, body) = response.split_once("\r\n\r\n").unwrap_or((response.trim(), "{}"));
            let length = body.len();
            let response = format!("HTTP/1.1 {head}\r\ncontent-length: {length}\r\n\r\n{body}");
            stream.write_all(response.as_bytes()).await.unwrap();
        }
    }
}

fn calls(otlp: &Otlp, count: usize) {
    let observers = Observers::default().with(otlp.traces().unwrap());
    for _ in 0..count {
        serve(&observers, RequestBuilder::new(Method::CallTool).target("echo").build());
    }
}

fn span_count(body: &Value) -> usize {
    body["resourceSpans"][0]["scopeSpans"][0]["spans"].as_array().map_or(0, Vec::len)
}

const NO_METRICS: (&str, &str) = ("OTEL_METRICS_EXPORTER", "none");

#[tokio::test(start_paused = true)]
async fn a_full_batch_is_exported_at_once_and_the_rest_after_the_delay() {
    let mut receiver = Receiver::start(&[]).await;
    let otlp = receiver.export(&[NO_METRICS, ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "5")]);
    let began = Instant::now();
    calls(&otlp, 5);
    let full = receiver.next().await;
    assert_eq!((span_count(&full.body), &*full.path), (5, "/v1/traces"));
    assert!(full.at - began < Duration::from_secs(5), "before the delay");
    calls(&otlp, 2);
    let rest = receiver.next().await;
    assert_eq!(span_count(&rest.body), 2);
    assert!(rest.at - full.at >= Duration::from_secs(5), "after the delay");
    otlp.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn metrics_are_exported_at_intervals_while_spans_keep_the_receiver_busy() {
    let mut receiver = Receiver::start(&[]).await;
    let otlp = receiver.export(&[
        ("OTEL_METRIC_EXPORT_INTERVAL", "30000"),
        ("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", "1"),
        ("OTEL_BSP_SCHEDULE_DELAY", "1"),
    ]);
    let mut metrics = Vec::new();
    let began = Instant::now();
    while metrics.len() < 3 {
        // The queue is never empty.
        calls(&otlp, 2);
        let received = receiver.next().await;
        tokio::time::advance(Duration::from_millis(500)).await;
        if received.path == "/v1/metrics" {
            metrics.push(received.at - began);
        }
    }
    let seconds: Vec<_> = metrics.iter().map(|it| it.as_secs() / 30).collect();
    assert_eq!(seconds, [1, 2, 3]);
    otlp.shutdown().await;
}

#[tokio::test(start_paused = true)]
async fn a_temporary_failure_is_tried_again_when_the_receiver_asks_for_it() {
    let responses = ["503 Service Unavailable\r\n", "429 Too Many\r\nretry-after: 7\r\n"];
    let mut receiver = Receiver::start(&responses).await;
    let otlp = receiver.export(&[NO_METRICS]);
    let before = dropped();
    calls(&otlp, 1);
    let attempts = [receiver.next().await, receiver.next().await, receiver.next().await];
    let waits = [attempts[1].at - attempts[0].at, attempts[2].at - attempts[1].at];
    assert_eq!(waits.map(|it| it.as_secs()), [1, 7]);
    assert!(attempts.iter().all(|it| span_count(&it.body) == 1));
    otlp.shutdown().await;
    assert_eq!(dropped(), before);
}

#[tokio::test(start_paused = true)]
async fn a_time_that_is_too_long_or_no_time_ends_the_attempts() {
    for time in ["18446744073709551615", "86400", "Fri, 31 Dec 2100 23:59:59 GMT"] {
        let response = format!("503 Service Unavailable\r\nretry-after: {time}\r\n");
        let mut receiver = Receiver::start(&[&response]).await;
        let otlp = receiver.export(&[NO_METRICS]);
        let before = dropped();
        calls(&otlp, 1);
        receiver.next().await;
        // The export goes on.
        calls(&otlp, 1);
        assert_eq!(span_count(&receiver.next().await.body), 1);
        otlp.shutdown().await;
        assert_eq!(dropped() - before, 1, "{time}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_receiver_cannot_make_the_attempts_faster_than_the_doubling_delay() {
    let response = "503 Service Unavailable\r\nretry-after: 0\r\n";
    // As many as double a second beyond the largest duration.
    let mut receiver = Receiver::start(&[response; 70]).await;
    let otlp = receiver.export(&[NO_METRICS, ("OTEL_BSP_EXPORT_TIMEOUT", "36000000")]);
    let before = dropped();
    calls(&otlp, 1);
    let (mut last, mut waits) = (receiver.next().await.at, Vec::new());
    for _ in 0..70 {
        let next = receiver.next().await.at;
        waits.push((next - last).as_secs());
        last = next;
    }
    assert_eq!(waits[..8], [1, 2, 4, 8, 16, 32, 60, 60]);
    assert!(waits[8..].iter().all(|it| *it == 60), "{waits:?}");
    otlp.shutdown().await;
    assert_eq!(dropped(), before);
}

#[tokio::test(start_paused = true)]
async fn a_date_that_has_passed_does_not_shorten_the_delay() {
    let past = "503 Service Unavailable\r\nretry-after: Thu, 01 Jan 1970 00:00:00 GMT\r\n";
    let mut receiver = Receiver::start(&[past, past]).await;
    let otlp = receiver.export(&[NO_METRICS]);
    calls(&otlp, 1);
    let attempts = [receiver.next().await, receiver.next().await, receiver.next().await];
    let waits = [attempts[1].at - attempts[0].at, attempts[2].at - attempts[1].at];
    assert_eq!(waits.map(|it| it.as_secs()), [1, 2]);
    otlp.shutdown().await;
}

#[tokio::test]
async fn no_redirect_is_followed() {
    let mut elsewhere = Receiver::start(&[]).await;
    for status in ["301 Moved", "307 Temporary Redirect", "308 Permanent Redirect"] {
        let response = format!("{status}\r\nlocation: {}/v1/traces\r\n", elsewhere.address);
        let mut receiver = Receiver::start(&[&response]).await;
        let otlp = receiver.export(&[NO_METRICS]);
        let before = dropped();
        calls(&otlp, 1);
        otlp.shutdown().await;
        assert_eq!(span_count(&receiver.next().await.body), 1);
        assert_eq!(dropped() - before, 1, "{status}");
    }
    assert!(elsewhere.received.try_recv().is_err());
}

#[tokio::test]
async fn what_a_receiver_rejects_of_a_batch_is_counted() {
    let partial = json!({"partialSuccess": {"rejectedSpans": "2", "errorMessage": "too old"}});
    let receiver = Receiver::start(&[&format!("{ACCEPTED}\r\n{partial}")]).await;
    let otlp = receiver.export(&[NO_METRICS]);
    let before = dropped();
    calls(&otlp, 3);
    otlp.shutdown().await;
    assert_eq!(dropped() - before, 2);
}

#[tokio::test(start_paused = true)]
async fn metrics_are_exported_at_a_shutdown_even_if_spans_are_not_accepted() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let traces = format!("http://{}", silent.local_addr().unwrap());
    let mut receiver = Receiver::start(&[]).await;
    let otlp = receiver.export(&[("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", &traces)]);
    calls(&otlp, 1);
    otlp.shutdown().await;
    assert_eq!(receiver.received.try_recv().unwrap().path, "/v1/metrics");
}

#[tokio::test]
async fn no_span_is_recorded_after_the_shutdown_and_late_ends_are_counted() {
    let mut receiver = Receiver::start(&[]).await;
    let otlp = receiver.export(&[NO_METRICS]);
    let traces = otlp.traces().unwrap();
    let late = crate::traces::start(&Observers::default().with(traces.clone()));
    let before = dropped();
    otlp.shutdown().await;
    drop(late);
    assert_eq!(dropped() - before, 1);
    assert!(!wharf_model::Observer::is_active(&traces));
    calls(&otlp, 10);
    assert_eq!(dropped() - before, 1, "not even recorded");
    // It may be started again.
    otlp.start("harbour", "1.0.0");
    calls(&otlp, 1);
    otlp.shutdown().await;
    assert_eq!(span_count(&receiver.next().await.body), 1);
}

#[tokio::test]
async fn the_last_of_several_servers_ends_the_export() {
    let mut receiver = Receiver::start(&[]).await;
    let otlp = receiver.export(&[NO_METRICS]);
    otlp.start("other", "1.0.0");
    otlp.shutdown().await;
    calls(&otlp, 1);
    otlp.shutdown().await;
    assert_eq!(span_count(&receiver.next().await.body), 1);
}

#[tokio::test]
async fn calls_beyond_the_limit_of_series_have_the_attribute_of_the_specification() {
    let mut receiver = Receiver::start(&[]).await;
    let otlp = receiver.export(&[("OTEL_TRACES_EXPORTER", "none")]);
    let observers = Observers::default().with(otlp.metrics().unwrap());
    for number in 0..600 {
        let prompt = RequestBuilder::new(Method::GetPrompt).target(&format!("p{number}"));
        serve(&observers, prompt.build());
    }
    otlp.shutdown().await;
    let body = receiver.next().await.body.to_string();
    let overflow = json!({"key": "otel.metric.overflow", "value": {"boolValue": true}});
    assert!(body.contains(&overflow.to_string()), "{body}");
}
