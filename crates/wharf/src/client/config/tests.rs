//! Tests of entries, from parsing to resolution.

use super::*;
use crate::client::Target;

fn config(text: &str) -> Config {
    Config::parse(text, "mcp.json").unwrap()
}

#[test]
fn the_error_of_a_file_leads_to_its_source() {
    use std::error::Error as _;
    let folder = std::env::temp_dir().join(format!("wharf-no-config-{}", std::process::id()));
    let error = Config::read(folder.join("mcp.json")).unwrap_err();
    let source = error.source().and_then(|source| source.downcast_ref::<io::Error>());
    assert_eq!(source.unwrap().kind(), io::ErrorKind::NotFound);
    assert!(Config::parse("{", "mcp.json").unwrap_err().source().is_some());
    let error = crate::Client::builder().proxy("ftp://proxy.example").unwrap_err();
    assert!(error.source().unwrap().to_string().contains("ftp://proxy.example"), "{error}");
}

#[test]
fn unreadable_values_are_not_quoted() {
    for entry in [
        r#"{"url": "http://x/", "headers": "Bearer hunter2"}"#,
        r#"{"command": "x", "env": "KEY=hunter2"}"#,
        r#"{"command": "x", "args": "--key=hunter2, expected \"hunter2\""}"#,
        r#""hunter2""#,
    ] {
        let config = config(&format!(r#"{{"mcpServers": {{"shop": {entry}}}}}"#));
        let problem = config.entries[0].resolve().map(drop).unwrap_err().to_string();
        assert_eq!(config.entries[0].problem().unwrap().to_string(), problem);
        assert!(problem.contains("\"shop\"") && problem.contains("expected"), "{problem}");
        assert!(!problem.contains("hunter2"), "{problem}");
    }
}

/// Audit 12.
#[test]
fn a_file_of_a_project_starts_nothing_until_it_is_trusted() {
    let text = r#"{"mcpServers": {"shop": {"command": "a", "args": ["${PATH}", "${X:-y}"],
        "env": {"HERE": "${workspaceFolder}", "KEY": "${env:HOME}"}}}}"#;
    let entry = config(text).entries.remove(0);
    assert!(!entry.is_trusted());
    assert_eq!(entry.variables(), ["HOME", "PATH", "X"]);
    let problem = entry.resolve().map(drop).unwrap_err().to_string();
    assert!(problem.contains("Entry::trust"), "{problem}");
    assert_eq!(entry.digest().len(), 64);
    assert_ne!(entry.digest(), config(&text.replace("\"a\"", "\"b\"")).entries[0].digest());
    assert!(matches!(entry.trust().resolve(), Ok((Target::Command(_), _))));
    let home = std::env::home_dir().unwrap().join(".claude.json");
    assert!(Config::parse(text, home).unwrap().entries[0].is_trusted());
}

#[test]
fn disabled_and_misspelt_entries_are_reported() {
    let text = r#"{"mcpServers": {"off": {"command": "a", "disabled": true},
        "odd": {"comand": "a"}, "half": {"command": "a", "arg": ["b"]}}}"#;
    let config = config(text);
    let problem = |name: &str| {
        let entry = config.entry(name).unwrap().clone();
        entry.trust().resolve().map(drop).map_err(|error| error.to_string())
    };
    assert!(problem("off").unwrap_err().contains("disabled"));
    assert!(problem("odd").unwrap_err().contains("`comand` is not read: write `command`"));
    assert_eq!(problem("half"), Ok(()));
    assert!(config.entry("half").unwrap().warnings()[0].to_string().contains("`args`"));
    for (text, named) in [
        (r#"{"mcpServers": []}"#, "a list"),
        (r#"{"mcpServer": {"a": {"command": "b"}}}"#, "`mcpServers`"),
    ] {
        let error = Config::parse(text, "mcp.json").unwrap_err();
        assert!(error.to_string().contains(named) && !error.names_no_servers(), "{error}");
    }
}

#[test]
fn entry_variables_override_the_env_file() {
    let dir = std::env::temp_dir().join(format!("wharf-env-file-{}", std::process::id()));
    fs::create_dir_all(dir.join(".vscode")).unwrap();
    fs::write(dir.join("dev.env"), "A=file\nB='from file'\nC=gone\n").unwrap();
    for name in ["${workspaceFolder}/dev.env", "dev.env", "./dev.env"] {
        let text = serde_json::json!({"servers": {"shop": {"command": "a", "envFile": name,
            "env": {"A": "entry", "C": null}}}});
        let config = Config::parse(&text.to_string(), dir.join(".vscode/mcp.json")).unwrap();
        let (target, _) = config.entries[0].clone().trust().resolve().unwrap();
        let Target::Command(command) = target else { panic!() };
        let pair = |name: &str, value: &str| (name.to_owned(), value.to_owned());
        assert_eq!(command.env, [pair("A", "entry"), pair("B", "from file")], "{name}");
    }
    let text = r#"{"servers": {"shop": {"command": "a", "envFile": "none.env"}}}"#;
    let config = Config::parse(text, dir.join(".vscode/mcp.json")).unwrap();
    let problem = config.entries[0].clone().trust().resolve().map(drop).unwrap_err().to_string();
    assert!(problem.contains("none.env"), "{problem}");
    fs::remove_dir_all(dir).unwrap();
}

/// Audit 16.
#[test]
fn possible_credentials_are_masked() {
    let text = r#"{"mcpServers": {
        "web": {"url": "https://user:hunter2@h/?token=hunter3", "headers": {"X": "hunter4"}},
        "program": {"command": "a", "args": ["--key=hunter5"], "env": {"A": "hunter6"}}}}"#;
    for entry in config(text).entries {
        let (target, headers) = entry.masked().unwrap();
        let command =
            if let Target::Command(it) = &target { format!("{:?}", it.env) } else { String::new() };
        let all = format!("{} {target} {headers:?} {command}", entry.summary());
        assert!(!all.contains("hunter") && all.contains("***"), "{all}");
    }
}
