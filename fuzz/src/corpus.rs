//! Seeds of the targets: the files in `seeds`, and what the golden transcripts contain.

use std::{
    collections::BTreeSet,
    fs, io,
    path::{Path, PathBuf},
};

use serde_json::Value;

/// Returns the seeds of a target.
///
/// # Errors
/// If the files cannot be read.
pub fn seeds(target: &str) -> io::Result<Vec<Vec<u8>>> {
    let home = Path::new(env!("CARGO_MANIFEST_DIR"));
    let own = home.join("seeds").join(target);
    let mut seeds = match own.is_dir() {
        true => files(&own)?.iter().map(fs::read).collect::<io::Result<Vec<_>>>()?,
        false => Vec::new(),
    };
    let golden = files(&home.join("../crates/wharf/tests/golden"))?;
    for (revision, path) in (0_u8..).zip(golden) {
        let text = fs::read_to_string(path)?;
        for section in text.split("\n\n") {
            seeds.extend(of_section(target, revision, section));
        }
    }
    Ok(seeds)
}

/// Returns the words of the seeds for libFuzzer's dictionary: the strings of their JSON.
///
/// # Errors
/// If the files cannot be read.
pub fn dictionary(target: &str) -> io::Result<String> {
    let seeds = seeds(target)?;
    let texts = seeds.iter().map(|seed| String::from_utf8_lossy(seed));
    let mut words = BTreeSet::new();
    for text in texts {
        words.extend(text.split('"').map(str::to_owned).filter(|word| is_word(word)));
    }
    Ok(words.iter().map(|word| format!("\"{word}\"\n")).collect())
}

fn is_word(word: &str) -> bool {
    (2..=48).contains(&word.len()) && word.bytes().all(|it| it.is_ascii_graphic() && it != b'\\')
}

fn files(directory: &Path) -> io::Result<Vec<PathBuf>> {
    let entries: io::Result<Vec<_>> =
        fs::read_dir(directory)?.map(|entry| Ok(entry?.path())).collect();
    let mut files = entries?;
    files.sort();
    Ok(files)
}

/// Seeds that one section of a transcript gives. `revision`: position of the transcript's revision.
fn of_section(target: &str, revision: u8, section: &str) -> Vec<Vec<u8>> {
    let sent = lines(section, "> ");
    let heard = lines(section, "< ");
    match target {
        "messages" => vec![[&[revision][..], sent.join("\n").as_bytes()].concat()],
        "replies" => vec![[&[revision][..], heard.join("\n").as_bytes()].concat()],
        "lines" => vec![[&[200, revision], sent.join("\r\n").as_bytes()].concat()],
        "events" => {
            let event = |data: &&str| format!("id: {revision}\r\ndata: {data}\n\n");
            vec![
                [&[200, revision], heard.iter().map(event).collect::<String>().as_bytes()].concat(),
            ]
        }
        "frames" => vec![[vec![revision], sent.iter().flat_map(|it| frame(it)).collect()].concat()],
        "headers" => sent.iter().filter_map(|message| http(message)).collect(),
        "schemas" => heard.iter().flat_map(|message| schemas(message)).collect(),
        _ => Vec::new(),
    }
}

fn lines<'a>(section: &'a str, mark: &str) -> Vec<&'a str> {
    section.lines().filter_map(|line| line.strip_prefix(mark)).collect()
}

/// Text frames of a client, of at most 125 bytes. The mask of zeros changes nothing.
fn frame(message: &str) -> Vec<u8> {
    let parts: Vec<&[u8]> = message.as_bytes().chunks(125).collect();
    let mut out = Vec::new();
    for (at, part) in parts.iter().enumerate() {
        let (first, last) = (u8::from(at == 0), u8::from(at + 1 == parts.len()) << 7);
        out.extend([first | last, 0x80 | part.len() as u8, 0, 0, 0, 0]);
        out.extend_from_slice(part);
    }
    out
}

/// A message as an HTTP request.
fn http(message: &str) -> Option<Vec<u8>> {
    let body: Value = serde_json::from_str(message).ok()?;
    let mut out = String::from("POST /mcp\nHost: localhost\nContent-Type: application/json\n");
    out += "Accept: application/json, text/event-stream\n";
    let version = &body["params"]["_meta"]["io.modelcontextprotocol/protocolVersion"];
    let name = &body["params"]["name"];
    let fields =
        [("MCP-Protocol-Version", version), ("Mcp-Method", &body["method"]), ("Mcp-Name", name)];
    for (header, value) in fields {
        if let Some(value) = value.as_str() {
            out += &format!("{header}: {value}\n");
        }
    }
    Some(format!("{out}\n{message}").into_bytes())
}

/// The schemas of the tools that a server lists, each with a value.
fn schemas(message: &str) -> Vec<Vec<u8>> {
    let body: Value = serde_json::from_str(message).unwrap_or_default();
    let tools = body["result"]["tools"].as_array().cloned().unwrap_or_default();
    let schemas = tools.iter().flat_map(|tool| [&tool["inputSchema"], &tool["outputSchema"]]);
    schemas
        .filter(|schema| schema.is_object())
        .map(|schema| format!("{schema}\n{{\"a\":1,\"city\":\"x\"}}").into_bytes())
        .collect()
}
