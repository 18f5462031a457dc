//! Keys of a configuration file that look misspelt and would be ignored silently.

use serde_json::Value;

/// Keys of the tables of servers.
const TABLE_KEYS: [&str; 2] = ["mcpServers", "servers"];

/// Supported keys of an entry.
const ENTRY_KEYS: [&str; 10] = [
    "command",
    "args",
    "env",
    "envFile",
    "cwd",
    "url",
    "serverUrl",
    "httpUrl",
    "headers",
    "disabled",
];

/// Keys of other programs that resemble ours.
const FOREIGN_KEYS: [&str; 6] = ["auth", "dev", "enabled", "end", "name", "server"];

/// Synonyms of keys.
const SYNONYMS: [(&str, &str); 6] = [
    ("cmd", "command"),
    ("arguments", "args"),
    ("environment", "env"),
    ("endpoint", "url"),
    ("workingDirectory", "cwd"),
    ("isDisabled", "disabled"),
];

/// Problems with the tables of a file.
pub(super) fn problems_of_file(json: &Value) -> Vec<String> {
    let Some(file) = json.as_object() else { return Vec::new() };
    let mut problems = Vec::new();
    for (key, value) in file {
        if TABLE_KEYS.contains(&key.as_str()) && !value.is_object() {
            problems.push(format!(
                "`{key}` is {}, and must be an object: {{\"{key}\": {{\"NAME\": {{\"command\": \"...\"}}}}}}",
                kind(value)
            ));
        } else if (value.is_object() || value.is_array())
            && let Some(suggested_key) = suggested_key(key, &TABLE_KEYS)
        {
            problems.push(format!("`{key}` is not read: write `{suggested_key}`"));
        }
    }
    problems
}

/// Keys of an entry that look misspelt.
pub(super) fn problems_of_entry(entry: &Value) -> Vec<String> {
    let keys = entry.as_object().into_iter().flatten().map(|(key, _)| key);
    let keys = keys.filter(|key| !FOREIGN_KEYS.contains(&key.as_str()));
    keys.filter_map(|key| {
        Some(format!("`{key}` is not read: write `{}`", suggested_key(key, &ENTRY_KEYS)?))
    })
    .collect()
}

/// Supported key that `key` resembles, if any.
fn suggested_key(key: &str, known: &[&'static str]) -> Option<&'static str> {
    if known.contains(&key) {
        return None;
    }
    if let Some((_, suggested_key)) = SYNONYMS.iter().find(|(word, _)| *word == key) {
        return known.contains(suggested_key).then_some(*suggested_key);
    }
    let plain = |text: &str| text.replace(['_', '-'], "").to_ascii_lowercase();
    let word = plain(key);
    let far = |known: &str| strsim::damerau_levenshtein(&word, &plain(known));
    let nearest = known.iter().min_by_key(|known| far(known))?;
    let most = if nearest.len() > 5 { 2 } else { 1 };
    (far(nearest) <= most).then_some(nearest)
}

fn kind(value: &Value) -> &'static str {
    match value {
        Value::Null => "null",
        Value::Bool(_) => "a boolean",
        Value::Number(_) => "a number",
        Value::String(_) => "a string",
        Value::Array(_) => "a list",
        Value::Object(_) => "an object",
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn misspelt_keys_are_suggested() {
        for (key, wanted) in [
            ("comand", Some("command")),
            ("cmd", Some("command")),
            ("arg", Some("args")),
            ("Args", Some("args")),
            ("env_file", Some("envFile")),
            ("environment", Some("env")),
            ("uri", Some("url")),
            ("header", Some("headers")),
            ("disable", Some("disabled")),
            ("command", None),
            ("type", None),
            ("name", None),
            ("timeout", None),
            ("autoApprove", None),
        ] {
            assert_eq!(suggested_key(key, &ENTRY_KEYS), wanted, "{key}");
        }
        for key in ["mcpServer", "mcpservers", "mcp_servers", "server"] {
            assert_eq!(problems_of_file(&json!({key: {}})).len(), 1, "{key}");
        }
        for file in [json!({"mcpServers": {}, "inputs": []}), json!({"projects": {}}), json!([])] {
            assert!(problems_of_file(&file).is_empty(), "{file}");
        }
        assert!(problems_of_file(&json!({"mcpServers": []}))[0].contains("is a list"));
        assert_eq!(problems_of_entry(&json!({"auth": {}, "name": "x", "comand": "x"})).len(), 1);
    }
}
