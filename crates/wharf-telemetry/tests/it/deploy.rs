//! Files in `deploy/`: the dashboard and the alert rules are about metrics that exist.

use std::{
    collections::BTreeSet,
    fs,
    path::{Path, PathBuf},
    process::Command,
};

use wharf_telemetry::{METRIC_FAMILIES, MetricKind};

/// Labels that look like names of metrics.
const LABELS: [&str; 3] = ["mcp_method_name", "mcp_protocol_version", "mcp_upstream"];

/// Families that no alert and no panel has to show.
const NOT_SHOWN: [&str; 1] = ["process_virtual_memory_bytes"];

/// Families whose trouble an operator must hear of.
const ALERTED: [&str; 11] = [
    "mcp_server_operation_duration_seconds",
    "wharf_queue_rejected_total",
    "wharf_rejected_total",
    "wharf_slow_clients_closed_total",
    "wharf_store_failing",
    "wharf_task_takeovers_total",
    "wharf_tasks_ended_total",
    "wharf_spans_dropped_total",
    "wharf_upstream_up",
    "wharf_upstream_restarts_total",
    "process_open_fds",
];

fn deploy() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../../deploy")
}

/// Returns the families that a file names, and the names that no family has.
fn families(path: &str) -> (BTreeSet<&'static str>, Vec<String>) {
    let text = fs::read_to_string(deploy().join(path)).unwrap();
    let is_word = |it: char| it.is_ascii_alphanumeric() || it == '_';
    let words: BTreeSet<&str> = text.split(|it| !is_word(it)).collect();
    let is_metric = |word: &&str| {
        ["mcp_", "wharf_", "process_"].iter().any(|start| word.starts_with(start))
            && !LABELS.contains(word)
    };
    let (mut known, mut unknown) = (BTreeSet::new(), Vec::new());
    for word in words.into_iter().filter(is_metric) {
        match METRIC_FAMILIES.iter().find(|family| is_sample(word, family.0, family.1)) {
            Some(family) => _ = known.insert(family.0),
            None => unknown.push(word.to_owned()),
        }
    }
    (known, unknown)
}

/// Returns whether a family has samples of this name.
fn is_sample(word: &str, family: &str, kind: MetricKind) -> bool {
    match kind {
        MetricKind::Histogram => ["_bucket", "_sum", "_count"]
            .iter()
            .any(|suffix| word.strip_suffix(suffix) == Some(family)),
        _ => word == family,
    }
}

#[test]
fn every_metric_of_the_dashboard_and_of_the_rules_exists() {
    for path in [
        "grafana/wharf-dashboard.json",
        "prometheus/wharf-alerts.yml",
        "prometheus/wharf-alerts.test.yml",
    ] {
        let (known, unknown) = families(path);
        assert!(unknown.is_empty(), "{path} names metrics that do not exist: {unknown:?}");
        assert!(known.len() > 8, "{path}: {known:?}");
    }
}

#[test]
fn every_metric_is_on_the_dashboard_and_every_trouble_has_an_alert() {
    let shown = families("grafana/wharf-dashboard.json").0;
    let missing = METRIC_FAMILIES.iter().map(|family| family.0);
    let missing: Vec<_> =
        missing.filter(|name| !shown.contains(name) && !NOT_SHOWN.contains(name)).collect();
    assert!(missing.is_empty(), "the dashboard does not show {missing:?}");
    let alerted = families("prometheus/wharf-alerts.yml").0;
    let missing: Vec<_> = ALERTED.iter().filter(|name| !alerted.contains(*name)).collect();
    assert!(missing.is_empty(), "no alert is about {missing:?}");
}

#[test]
fn promtool_accepts_the_files_and_their_tests_pass() {
    for arguments in [
        ["check", "config", "prometheus.yml"],
        ["check", "rules", "wharf-alerts.yml"],
        ["test", "rules", "wharf-alerts.test.yml"],
    ] {
        let mut promtool = Command::new("promtool");
        let output = promtool.current_dir(deploy().join("prometheus")).args(arguments).output();
        let output = output.unwrap_or_else(|why| {
            panic!("cannot start promtool ({why}): run `cargo xtask prometheus`")
        });
        let text =
            String::from_utf8_lossy(&output.stdout) + String::from_utf8_lossy(&output.stderr);
        assert!(output.status.success() && !text.contains("FAILED"), "{arguments:?}: {text}");
    }
}
