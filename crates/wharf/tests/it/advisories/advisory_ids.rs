//! Checks that a test names each known advisory and issue about an MCP implementation, or about the HTTP/2 below it.

use std::{
    fs,
    path::{Path, PathBuf},
};

/// Known advisories and issues. Add a new one here and to the doc comment of the test that covers it.
const IDS: [&str; 73] = [
    "CVE-2025-6514",
    "CVE-2025-6515",
    "CVE-2025-49596",
    "CVE-2025-53109",
    "CVE-2025-53110",
    "CVE-2025-53365",
    "CVE-2025-53366",
    "CVE-2025-66414",
    "CVE-2025-66416",
    "CVE-2025-69196",
    "CVE-2026-0621",
    "CVE-2026-16326",
    "CVE-2026-16498",
    "CVE-2026-25536",
    "CVE-2026-27124",
    "CVE-2026-27896",
    "CVE-2026-32871",
    "CVE-2026-33252",
    "CVE-2026-33946",
    "CVE-2026-34237",
    "CVE-2026-34742",
    "CVE-2026-35568",
    "CVE-2026-42559",
    "CVE-2026-45707",
    "CVE-2026-51994",
    "CVE-2026-52869",
    "CVE-2026-52870",
    "CVE-2026-53937",
    "CVE-2026-53965",
    "CVE-2026-59950",
    "CVE-2026-59951",
    "CVE-2026-63118",
    "CVE-2026-63119",
    "CVE-2026-63128",
    "CVE-2026-64684",
    "CVE-2026-67430",
    "CVE-2026-67431",
    "CVE-2026-67432",
    "CVE-2026-104850",
    "CVE-2026-108395",
    "CVE-2026-109527",
    "CVE-2026-111767",
    "CVE-2026-111768",
    "CVE-2026-111770",
    "CVE-2026-116684",
    "CVE-2026-116686",
    "GHSA-953h-535j-jg2v",
    "GHSA-f897-62hf-6gxq",
    "GHSA-q382-vc8q-7jhj",
    "GHSA-rvq5-wwqv-78pq",
    "RUSTSEC-2023-0034",
    "RUSTSEC-2024-0003",
    "RUSTSEC-2024-0332",
    "RUSTSEC-2026-0189",
    "RUSTSEC-2026-0258",
    "RUSTSEC-2026-0462",
    "WS-2026-0196",
    "FastMCP #4402",
    "TS#611",
    "TS#943",
    "TS#1564",
    "TS#2002",
    "TS#2615",
    "cloudflare/agents#1607",
    "go-sdk#1166",
    "go-sdk#1180",
    "kaeru#11",
    "mcp-ts-core#401",
    "python#2507",
    "python-sdk#2353",
    "rust-sdk#106",
    "rust-sdk#659",
    "rust-sdk#857",
];

/// Collects the Rust sources below a folder, without build results and without this file, which names every id.
fn sources(folder: &Path, found: &mut Vec<PathBuf>) {
    let this_file = Path::new(file!()).file_name().unwrap();
    for entry in fs::read_dir(folder).unwrap() {
        let path = entry.unwrap().path();
        let name = path.file_name().unwrap().to_string_lossy().into_owned();
        if path.is_dir() && name != "target" && !name.starts_with('.') {
            sources(&path, found);
        } else if name.ends_with(".rs") && path.file_name() != Some(this_file) {
            found.push(path);
        }
    }
}

/// Collects the doc comments of the tests of a source file, each with the name of its test. The public functions of the
/// behaviour suite's cases are tests too.
fn tests(path: &Path, source: &str, found: &mut Vec<String>) {
    let has_cases = path.components().any(|part| part.as_os_str() == "cases");
    let (mut text, mut is_test) = (String::new(), false);
    for line in source.lines().map(str::trim) {
        if line.starts_with("///") {
            text += line;
        } else if line.starts_with("#[") {
            is_test |= line.starts_with("#[test]") || line.starts_with("#[tokio::test");
        } else {
            if is_test || has_cases && line.starts_with("pub async fn ") {
                found.push(format!("{text}{line}"));
            }
            (text, is_test) = (String::new(), false);
        }
    }
}

#[test]
fn every_advisory_is_named_by_a_test() {
    let workspace = Path::new(env!("CARGO_MANIFEST_DIR")).ancestors().nth(2).unwrap();
    let mut files = Vec::new();
    for folder in ["crates", "tests"] {
        sources(&workspace.join(folder), &mut files);
    }
    let mut all = Vec::new();
    for file in &files {
        tests(file, &fs::read_to_string(file).unwrap(), &mut all);
    }
    // Match whole ids only: one id may be the prefix of another.
    let names = |text: &str, id: &str| {
        let ends = |rest: &str| !rest.starts_with(|next: char| next.is_ascii_alphanumeric());
        text.match_indices(id).any(|(at, _)| ends(&text[at + id.len()..]))
    };
    let missing: Vec<_> = IDS.iter().filter(|id| !all.iter().any(|text| names(text, id))).collect();
    assert!(missing.is_empty(), "the doc comment of no test names {missing:?}");
}
