//! Text of a log line.

use std::fmt::Write as _;

use tracing::Level;
use tracing_subscriber::fmt::{
    format::Writer,
    time::{FormatTime as _, SystemTime},
};
use wharf_model::is_unprintable;

use super::{
    LogFormat,
    fields::{FieldValue, LogFields},
};

/// Names that a JSON line has before its fields. A field with one of them gets an underscore after its name.
const RESERVED: [&str; 4] = ["ts", "level", "target", "msg"];

/// Fields that come last: they connect the line with a trace.
const TRACE: [&str; 2] = ["trace_id", "span_id"];

/// Writes the line of an event, with its line break.
pub(super) fn write_line(
    format: LogFormat,
    level: Level,
    target: &str,
    fields: &LogFields,
) -> String {
    let mut line = String::with_capacity(256);
    let (message, others) = fields.split_message();
    let others = others.filter(|field| !TRACE.contains(&field.0));
    let trace = TRACE.into_iter().filter_map(|name| Some((name, fields.get(name)?)));
    match format {
        LogFormat::Text => {
            push_time(&mut line);
            let _ = write!(line, " {level:>5} ");
            push_escaped(&mut line, target, "");
            line.push_str(": ");
            push_escaped(&mut line, message, "");
            // Attributes of the conventions, such as `network.transport`, are for programs.
            let others = others.filter(|field| !field.0.contains('.'));
            others.chain(trace).for_each(|(name, value)| push_text_field(&mut line, name, value));
        }
        LogFormat::Json => {
            line.push_str("{\"ts\":\"");
            push_time(&mut line);
            let _ = write!(line, "\",\"level\":\"{level}\",\"target\":");
            push_quoted(&mut line, target);
            line.push_str(",\"msg\":");
            push_quoted(&mut line, message);
            others.chain(trace).for_each(|(name, value)| push_json_field(&mut line, name, value));
            line.push('}');
        }
    }
    line.push('\n');
    line
}

fn push_time(line: &mut String) {
    let _ = SystemTime.format_time(&mut Writer::new(line));
}

fn push_text_field(line: &mut String, name: &str, value: &FieldValue) {
    line.push(' ');
    push_escaped(line, name, "");
    line.push('=');
    let is_plain = |it: char| !it.is_whitespace() && !"\"\\=".contains(it) && !is_unprintable(it);
    match !value.text.is_empty() && value.text.chars().all(is_plain) {
        true => line.push_str(&value.text),
        false => push_quoted(line, &value.text),
    }
}

fn push_json_field(line: &mut String, name: &str, value: &FieldValue) {
    line.push_str(",\"");
    push_escaped(line, name, "\"\\");
    line.push_str(if RESERVED.contains(&name) { "_\":" } else { "\":" });
    match value.is_literal {
        true => line.push_str(&value.text),
        false => push_quoted(line, &value.text),
    }
}

/// Appends a JSON string.
fn push_quoted(line: &mut String, text: &str) {
    line.push('"');
    push_escaped(line, text, "\"\\");
    line.push('"');
}

/// Appends text, with a JSON escape for each character that could forge a line, colours or the text direction, and for
/// those in `more`.
fn push_escaped(line: &mut String, text: &str, more: &str) {
    for c in text.chars() {
        match c {
            '\n' => line.push_str("\\n"),
            '\r' => line.push_str("\\r"),
            '\t' => line.push_str("\\t"),
            c if more.contains(c) => line.extend(['\\', c]),
            // All of them are in the basic plane, so four digits suffice.
            c if is_unprintable(c) => {
                let _ = write!(line, "\\u{:04x}", u32::from(c));
            }
            c => line.push(c),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::push_escaped;

    #[test]
    fn no_text_can_forge_a_line() {
        let escaped = |text, more| {
            let mut line = String::new();
            push_escaped(&mut line, text, more);
            line
        };
        assert_eq!(
            escaped("a\nb\r\u{1b}[31m\u{9b}\u{202e}", ""),
            "a\\nb\\r\\u001b[31m\\u009b\\u202e"
        );
        assert_eq!(escaped("say \"é\" \\ 漢", ""), "say \"é\" \\ 漢");
        assert_eq!(escaped("say \"é\" \\", "\"\\"), "say \\\"é\\\" \\\\");
    }
}
