//! Measured figures: their names, titles and units.

/// Measured figure of a sample.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Figure {
    Cpu,
    TimesPlain,
    Rate,
    Median,
    Percentile99,
    Events,
    Lost,
    Memory,
    Peak,
    Cold,
    BytesEach,
    BytesWithConnection,
    Size,
    Quickstart,
    Crates,
    BuildCpu,
    Instructions,
    Allocations,
    TaskRate,
    TaskCpu,
    StoreCpu,
    Looks,
    Validation,
    Compilation,
}

/// Figure, its key in a sample, its title, its unit, and the divisor for the unit.
type FigureRow = (Figure, &'static str, &'static str, &'static str, f64);

const FIGURES: [FigureRow; 24] = [
    (Figure::Cpu, "cpu_us", "CPU of the server a call", "µs", 1.0),
    (Figure::TimesPlain, "times_plain", "CPU, times that of a call without", "", 1.0),
    (Figure::Rate, "calls_per_second", "calls a second", "/s", 1.0),
    (Figure::Median, "p50_us", "median latency", "µs", 1.0),
    (Figure::Percentile99, "p99_us", "99th percentile", "µs", 1.0),
    (Figure::Events, "events_per_second", "events a second", "/s", 1.0),
    (Figure::Lost, "lost_per_call", "events lost a call", "", 1.0),
    (Figure::Memory, "memory_bytes", "resident memory", "MB", 1e6),
    (Figure::Peak, "peak_bytes", "peak memory", "MB", 1e6),
    (Figure::Cold, "cold_ms", "time", "ms", 1.0),
    (Figure::BytesEach, "bytes_each", "each", "B", 1.0),
    (Figure::BytesWithConnection, "bytes_with_connection", "each, with its connection", "B", 1.0),
    (Figure::Size, "size_bytes", "size", "MB", 1e6),
    (Figure::Quickstart, "quickstart_bytes", "the quickstart example", "MB", 1e6),
    (Figure::Crates, "crates", "crates", "", 1.0),
    (Figure::BuildCpu, "build_cpu_seconds", "CPU", "s", 1.0),
    (Figure::Instructions, "instructions", "instructions a call", "", 1.0),
    (Figure::Allocations, "allocations", "allocations a call", "", 1.0),
    (Figure::TaskRate, "calls_per_second", "tasks a second", "/s", 1.0),
    (Figure::TaskCpu, "cpu_us", "CPU of the server a task", "µs", 1.0),
    (Figure::StoreCpu, "store_cpu_us", "CPU of Redis a task", "µs", 1.0),
    (Figure::Looks, "looks_per_task", "looks a task", "", 1.0),
    (Figure::Validation, "validation_ns", "a validation", "ns", 1.0),
    (Figure::Compilation, "compilation_us", "a compilation", "µs", 1.0),
];

impl Figure {
    fn row(self) -> FigureRow {
        FIGURES[self as usize]
    }

    /// Key of the figure in a sample.
    pub(crate) fn key(self) -> &'static str {
        self.row().1
    }

    pub(crate) fn title(self) -> &'static str {
        self.row().2
    }

    /// Formats a value with its unit.
    pub(crate) fn show(self, value: f64) -> String {
        let (_, _, _, unit, one) = self.row();
        let value = value / one;
        let number = match value.abs() {
            size if size >= 1000.0 || value.fract() == 0.0 => thousands(value),
            size if size >= 100.0 => format!("{value:.0}"),
            size if size >= 10.0 => format!("{value:.1}"),
            _ => format!("{value:.2}"),
        };
        match unit {
            "" | "/s" => format!("{number}{unit}"),
            _ => format!("{number} {unit}"),
        }
    }
}

fn thousands(value: f64) -> String {
    let digits = format!("{:.0}", value.abs());
    let mut text = String::new();
    for (at, digit) in digits.chars().enumerate() {
        if at > 0 && (digits.len() - at).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    if value < 0.0 { format!("-{text}") } else { text }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_figure_finds_its_own_row() {
        for row in FIGURES {
            assert_eq!(row.0.row().0, row.0);
        }
    }

    #[test]
    fn values_are_written_with_their_units() {
        assert_eq!(Figure::Cpu.show(15.25), "15.2 µs");
        assert_eq!(Figure::Rate.show(61_880.4), "61,880/s");
        assert_eq!(Figure::Size.show(4_512_345.0), "4.51 MB");
        assert_eq!(Figure::Lost.show(0.0), "0");
    }
}
