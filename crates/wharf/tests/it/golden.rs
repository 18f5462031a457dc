//! Golden transcripts: for each revision, the lines that a client sends and the exact bytes that it receives.
//!
//! `tests/golden/<revision>.txt` holds the lines of the client (`> `) and of the server (`< `). `WHARF_GOLDEN=update
//! cargo nextest run -p wharf-mcp golden` updates the lines of the server: read the diff before you commit it. Values
//! that differ between runs have a name in the transcript: `$STATE1`, `$CURSOR1` … for encrypted strings,
//! `$ELICITATION1` … for random ids, `$ASK` for the id of the last server request.

use crate::golden_server;

use std::{fmt::Write as _, path::PathBuf, time::Duration};

use tokio::{
    io::{AsyncBufReadExt, AsyncWriteExt, BufReader, Lines, ReadHalf, WriteHalf},
    time::timeout,
};

#[tokio::test(start_paused = true)]
async fn revision_2024_11_05() {
    check("2024-11-05").await;
}

#[tokio::test(start_paused = true)]
async fn revision_2025_03_26() {
    check("2025-03-26").await;
}

#[tokio::test(start_paused = true)]
async fn revision_2025_06_18() {
    check("2025-06-18").await;
}

#[tokio::test(start_paused = true)]
async fn revision_2025_11_25() {
    check("2025-11-25").await;
}

#[tokio::test(start_paused = true)]
async fn revision_2026_07_28() {
    check("2026-07-28").await;
}

async fn check(name: &str) {
    let path = PathBuf::from(env!("CARGO_MANIFEST_DIR")).join(format!("tests/golden/{name}.txt"));
    let wanted = std::fs::read_to_string(&path).expect("the transcript");
    let heard = Conversation::open().replay(&wanted).await;
    if std::env::var_os("WHARF_GOLDEN").is_some_and(|mode| mode == "update") {
        std::fs::write(&path, heard).expect("the transcript can be written");
        return;
    }
    for (number, (heard, wanted)) in heard.lines().zip(wanted.lines()).enumerate() {
        assert_eq!(heard, wanted, "line {} of {name}.txt", number + 1);
    }
    assert_eq!(heard.lines().count(), wanted.lines().count(), "length of {name}.txt");
}

/// Connection of one client, and the names of values that differ between runs.
struct Conversation {
    lines: Lines<BufReader<ReadHalf<tokio::io::DuplexStream>>>,
    write: WriteHalf<tokio::io::DuplexStream>,
    names: Vec<(String, String)>,
    last_ask: String,
}

impl Conversation {
    fn open() -> Self {
        let (ours, theirs) = tokio::io::duplex(1 << 20);
        let endpoint = golden_server::server().build().expect("the golden server builds");
        tokio::spawn(async move {
            let (read, write) = tokio::io::split(theirs);
            let _ = endpoint.serve_stream(read, write).await;
        });
        let (read, write) = tokio::io::split(ours);
        let lines = BufReader::new(read).lines();
        Conversation { lines, write, names: Vec::new(), last_ask: String::new() }
    }

    async fn replay(&mut self, script: &str) -> String {
        let mut transcript = String::new();
        for line in script.lines() {
            if line.starts_with("< ") {
                continue;
            }
            transcript.push_str(line);
            transcript.push('\n');
            let Some(message) = line.strip_prefix("> ") else { continue };
            let message = self.with_values(message);
            self.write.write_all(message.as_bytes()).await.expect("the server reads");
            self.write.write_all(b"\n").await.expect("the server reads");
            // The paused clock advances only when every task is idle, so a timeout means that the server has nothing
            // more to send.
            while let Ok(line) = timeout(Duration::from_millis(50), self.lines.next_line()).await {
                let line = line.expect("the server writes text").expect("the server stays");
                let line = self.with_names(line);
                writeln!(transcript, "< {line}").expect("a string grows");
            }
        }
        transcript
    }

    fn with_values(&self, message: &str) -> String {
        let mut message = message.replace("$ASK", &self.last_ask);
        for (name, value) in &self.names {
            message = message.replace(name, value);
        }
        message
    }

    fn with_names(&mut self, line: String) -> String {
        let message: serde_json::Value =
            serde_json::from_str(&line).expect("the server writes JSON");
        if message.get("method").is_some() && message.get("id").is_some() {
            self.last_ask = message["id"].to_string();
        }
        let mut line = line;
        for (part, field, prefix) in [
            ("result", "requestState", "STATE"),
            ("result", "nextCursor", "CURSOR"),
            ("params", "elicitationId", "ELICITATION"),
        ] {
            let Some(value) = message[part][field].as_str() else { continue };
            let count = self.names.iter().filter(|(name, _)| name.contains(prefix)).count();
            let name = format!("${prefix}{}", count + 1);
            line = line.replace(value, &name);
            self.names.push((name, value.to_owned()));
        }
        line
    }
}
