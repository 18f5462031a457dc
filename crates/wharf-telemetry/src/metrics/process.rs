//! Metrics of the process, from `/proc` on Linux.

use std::fs;

use crate::metrics::{label_text::LabelText, text::MetricSink};

/// Clock ticks per second in `/proc`, which Linux fixes for user space.
const TICKS: f64 = 100.0;

/// Writes the metrics of the process. Those that cannot be read are omitted.
pub(crate) fn render(text: &mut dyn MetricSink) {
    let mut write = |name: &str, value: Option<f64>| {
        if let Some(value) = value {
            text.family(name);
            text.sample(name, &LabelText::default(), value);
        }
    };
    let read = |path: &str| fs::read_to_string(path).unwrap_or_default();
    let (stat, status) = (read("/proc/self/stat"), read("/proc/self/status"));
    let (limits, machine) = (read("/proc/self/limits"), read("/proc/stat"));
    // The name of the program, in parentheses, may contain spaces.
    let fields: Vec<&str> =
        stat.rsplit_once(") ").map(|it| it.1.split(' ').collect()).unwrap_or_default();
    // Numbers of proc(5), where the state of the process is field 3.
    let field = |number: usize| fields.get(number - 3)?.parse::<f64>().ok();
    let after = |text: &str, key: &str| {
        let line = text.lines().find_map(|line| line.strip_prefix(key))?;
        line.split_whitespace().next()?.parse::<f64>().ok()
    };
    let kilobytes = |key: &str| after(&status, key).map(|it| it * 1024.0);
    let started = after(&machine, "btime").zip(field(22));
    write("process_cpu_seconds_total", field(14).zip(field(15)).map(|(a, b)| (a + b) / TICKS));
    write("process_resident_memory_bytes", kilobytes("VmRSS:"));
    write("process_virtual_memory_bytes", kilobytes("VmSize:"));
    write("process_threads", after(&status, "Threads:"));
    let open = fs::read_dir("/proc/self/fd").ok().map(|it| it.count() as f64);
    write("process_open_fds", open);
    write("process_max_fds", after(&limits, "Max open files"));
    write("process_start_time_seconds", started.map(|(boot, ticks)| boot + ticks / TICKS));
}
