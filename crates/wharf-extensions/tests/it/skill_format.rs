//! Front matter, entries and URIs of skills.

use serde_json::{Value, json};
use wharf_extensions::skills::{
    FileDigest, FileMismatch, FileUri, FrontMatter, ManifestEntry, SkillEntry, SkillResources,
    SkillUri, differing_field,
};

fn parse(yaml: &str) -> Result<Value, String> {
    let file = format!("---\n{yaml}\n---\n");
    let front_matter = FrontMatter::parse(file.as_bytes()).map_err(|error| error.to_string())?;
    Ok(Value::Object(front_matter.into_fields()))
}

fn fails(yaml: &str, line: usize, words: &str) {
    let error = parse(yaml).unwrap_err();
    assert!(
        error.starts_with(&format!("line {line}: ")) && error.contains(words),
        "{yaml}: {error}"
    );
}

#[test]
fn scalars_have_the_types_of_the_core_schema() {
    let cases = [
        ("2024-05-01", json!("2024-05-01")),
        ("yes", json!("yes")),
        ("True", json!(true)),
        ("~", json!(null)),
        ("", json!(null)),
        ("1_000", json!("1_000")),
        ("0777", json!(777)),
        ("0o17", json!(15)),
        ("0xFF", json!(255)),
        ("0b11", json!("0b11")),
        ("-12", json!(-12)),
        ("+12", json!(12)),
        ("18446744073709551615", json!(u64::MAX)),
        ("1.0", json!(1.0)),
        (".5e1", json!(5.0)),
        ("1.2.3", json!("1.2.3")),
        ("12:30", json!("12:30")),
        ("\"1\"", json!("1")),
        ("'it''s'", json!("it's")),
        ("\"\\u00e9\"", json!("é")),
        ("!!str 1", json!("1")),
        ("!!int 7", json!(7)),
        ("[a, 1, {b: true}]", json!(["a", 1, {"b": true}])),
        ("|\n  one\n  two", json!("one\ntwo\n")),
        (">-\n  one\n  two", json!("one two")),
    ];
    for (yaml, expected) in cases {
        assert_eq!(parse(&format!("v: {yaml}")), Ok(json!({ "v": expected })), "{yaml}");
    }
    assert_eq!(parse("a: 1 # comment\n\n# more\nb:\n- 2\n- 3"), Ok(json!({"a": 1, "b": [2, 3]})));
}

#[test]
fn yaml_that_parsers_read_differently_is_refused() {
    fails("a: &x 1\nb: *x", 3, "alias");
    fails("a: &x [b]\nc: [*x, *x]", 3, "alias");
    fails("<<: {a: 1}", 2, "merge key");
    fails("a: 1\na: 2", 3, "twice");
    fails("1: a", 2, "not a string");
    fails("true: a", 2, "not a string");
    fails("[a]: b", 2, "a list or a map");
    fails("a: .inf", 2, "JSON");
    fails("a: -.INF", 2, "JSON");
    fails("a: .nan", 2, "JSON");
    fails("a: 1e999", 2, "JSON");
    fails(&format!("a: 0x{}", "F".repeat(300)), 2, "JSON");
    fails(&format!("a: 0o{}", "7".repeat(400)), 2, "JSON");
    fails("a: !date 2024-05-01", 2, "tag");
    fails("a: !!int x", 2, "tag");
    fails("a: 1\n...\nb: 2", 4, "several YAML documents");
    fails("a: \"b", 2, "not valid YAML");
    fails("- a", 2, "not a map");
    fails("", 2, "empty");
    fails(&format!("a: {}", "[".repeat(40) + &"]".repeat(40)), 2, "deeper");
    fails(&format!("a: {}", "x".repeat(70_000)), 1, "larger");
}

#[test]
fn uris_are_at_most_8_kib_long() {
    let uri = |length: usize| format!("skill://{}", "a/".repeat(length / 2) + "SKILL.md");
    assert_eq!(FileUri::parse(&uri(8192 - 16)).unwrap().as_str().len(), 8192);
    let error = FileUri::parse(&uri(8192 - 14)).unwrap_err().to_string();
    assert!(error.contains("8194 bytes; 8192 is the limit") && error.len() < 300, "{error}");
    assert!(SkillUri::parse(&uri(8192)).is_err());
    let error = FileUri::parse(&format!("skill://{}%", "a".repeat(8000))).unwrap_err();
    assert!(error.to_string().len() < 600, "{error}");
}

#[test]
fn fences_may_have_a_byte_order_mark_windows_line_ends_and_blanks_at_the_end() {
    let plain = "---\nname: a\ndescription: b\n---\n# A\n";
    let read = |file: &str| FrontMatter::parse(file.as_bytes()).map(FrontMatter::into_fields);
    let expected = read(plain).unwrap();
    for same in [
        format!("\u{feff}{plain}"),
        plain.replace('\n', "\r\n"),
        format!("\u{feff}{}", plain.replace('\n', "\r\n")),
        "---\nname: a\ndescription: b\n--- \t\n".to_owned(),
        "---\nname: a\ndescription: b\n---".to_owned(),
    ] {
        assert_eq!(read(&same).unwrap(), expected, "{same:?}");
    }
    let error = |file: &[u8]| FrontMatter::parse(file).unwrap_err().to_string();
    for missing in
        ["", "# A\n", "--- \nname: a\n---\n", "\n---\nname: a\n---\n", "----\na: b\n---\n"]
    {
        assert!(
            error(missing.as_bytes()).contains("does not begin with front matter"),
            "{missing:?}"
        );
    }
    assert!(error(b"---\nname: a\n").contains("does not end"));
    assert!(error(b"---\nname: a\nx: \xff\n---\n").contains("line 3: it is not valid UTF-8"));
}

#[test]
fn problems_have_their_line_and_severity() {
    let text = "---\ndescription: \"\"\nname: Bad--Name\nmetadata:\n  version: 1.0\n  \
                io.modelcontextprotocol/x: z\ncompatibility: 7\nsince: 2024-05-01\n---\n";
    let front_matter = FrontMatter::parse(text.as_bytes()).unwrap();
    let mut found: Vec<_> =
        front_matter.problems().into_iter().map(|it| (it.is_error(), it.line, it.text)).collect();
    found.sort();
    let expected = [
        (false, Some(4), "which the protocol reserves"),
        (false, Some(4), "`metadata` value of `version`"),
        (false, Some(7), "`compatibility` is not a string"),
        (false, Some(8), "`2024-05-01`"),
        (true, Some(2), "`description` is empty"),
        (true, Some(3), "\"Bad--Name\" is not valid"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, (is_error, line, words)) in found.iter().zip(expected) {
        assert_eq!((found.0, found.1), (is_error, line), "{found:?}");
        assert!(found.2.contains(words), "{found:?}");
    }
    let windows = FrontMatter::parse(b"---\r\nname: a\r\ndescription: b\r\n---\r\n").unwrap();
    assert!(windows.problems()[0].text.contains("CRLF"));
    let long = FrontMatter::new("a", "é".repeat(1024));
    assert!(long.problems().is_empty());
    assert!(FrontMatter::new("a", "é".repeat(1025)).problems()[0].is_error());
}

#[test]
fn numbers_of_front_matter_are_compared_by_value() {
    let map = |value: Value| value.as_object().unwrap().clone();
    let one = map(json!({"a": {"v": [1, 2.0]}, "b": "x"}));
    assert_eq!(differing_field(&one, &map(json!({"a": {"v": [1.0, 2]}, "b": "x"}))), None);
    assert_eq!(differing_field(&one, &map(json!({"a": {"v": [1.0, 3]}, "b": "x"}))), Some("a"));
    assert_eq!(differing_field(&one, &map(json!({"a": {"v": [1, 2]}}))), Some("b"));
    assert_eq!(differing_field(&map(json!({})), &one), Some("a"));
}

#[test]
fn uris_are_compared_by_their_decoded_segments_and_cannot_escape() {
    let skill = SkillUri::parse("skill://acme/refunds/SKILL.md").unwrap();
    let relative = |uri: &str| skill.relative(&FileUri::parse(uri).unwrap());
    assert_eq!(relative("SKILL://acme/refunds/%65x.md").as_deref(), Some("ex.md"));
    assert_eq!(relative("skill://acme/refunds-2/ex.md"), None);
    assert_eq!(relative("skill://acme/refunds"), None);
    assert_eq!(relative("other://acme/refunds/ex.md"), None);
    for bad in [
        "skill://acme/refunds/../x",
        "skill://acme/refunds/%2e%2e/x",
        "skill://acme/refunds/.%2E/x",
        "skill://acme/refunds/a%2fb",
        "skill://acme/refunds/a%5cb",
        "skill://acme/refunds/a%00b",
        "skill://acme/refunds/a%ffb",
        "skill://acme/refunds/%2",
        "skill://acme//x",
        "skill://acme/refunds/",
        "skill://acme/x?y",
        "skill://acme/x#y",
        "skill:x",
        "1x://a/b",
        "x",
    ] {
        assert!(FileUri::parse(bad).is_err(), "{bad}");
    }
    for bad in ["skill://SKILL.md", "skill://a/skill.md", "skill://a/SKILL%2Emd", "skill://a"] {
        assert!(SkillUri::parse(bad).is_err(), "{bad}");
    }
    assert!(skill.file("../x").is_err() && skill.file("/x").is_err() && skill.file("").is_err());
    assert_eq!(
        skill.file("ä b/[c].md").unwrap().as_str(),
        "skill://acme/refunds/%C3%A4%20b/%5Bc%5D.md"
    );
}

#[test]
fn an_entry_has_a_manifest_or_is_dynamic_and_nothing_else() {
    let entry = |resources: Value| {
        let frontmatter = json!({"name": "a", "description": "b"});
        json!({"uri": "skill://a/SKILL.md", "frontmatter": frontmatter, "resources": resources, "later": 1})
    };
    let read = |value: Value| serde_json::from_value::<SkillEntry>(value);
    let dynamic = read(entry(json!("dynamic"))).unwrap();
    assert_eq!(dynamic.resources, SkillResources::Dynamic);
    assert_eq!(serde_json::to_value(&dynamic).unwrap(), entry(json!("dynamic")));
    for wrong in [json!("static"), json!(null), json!({}), json!([{"uri": "x"}])] {
        assert!(read(entry(wrong)).is_err());
    }
    let mut missing = entry(json!([]));
    missing.as_object_mut().unwrap().remove("resources");
    assert!(read(missing).is_err());
    let file = |uri: &str| json!(ManifestEntry::of(uri, b"x"));
    let problems = |files: Value| -> Vec<String> {
        let entry = read(entry(files)).unwrap();
        entry.problems().into_iter().filter(|it| it.is_error()).map(|it| it.text).collect()
    };
    assert!(problems(json!([file("skill://a/SKILL.md"), file("skill://a/x")])).is_empty());
    assert!(problems(json!([file("skill://a/x")]))[0].contains("does not list"));
    let twice = json!([file("skill://a/SKILL.md"), file("skill://a/x"), file("skill://a/%78")]);
    assert!(problems(twice)[0].contains("listed twice"));
    let outside = json!([file("skill://a/SKILL.md"), file("skill://b/x")]);
    assert!(problems(outside)[0].contains("not below"));
}

#[test]
fn bytes_are_verified_by_size_and_digest() {
    let entry = ManifestEntry::of("skill://a/x", b"abc");
    assert_eq!(entry.verify(b"abc"), Ok(()));
    assert_eq!(entry.verify(b"abcd"), Err(FileMismatch::Size { expected: 3, actual: 4 }));
    let actual = FileDigest::of(b"abd");
    assert_eq!(entry.verify(b"abd"), Err(FileMismatch::Digest { expected: entry.digest, actual }));
    let hex = "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad";
    assert_eq!(entry.digest.to_string(), format!("sha256:{hex}"));
    for wrong in [hex.to_owned(), format!("sha256:{}", hex.to_uppercase()), "sha256:ab".into()] {
        assert!(wrong.parse::<FileDigest>().is_err(), "{wrong}");
    }
}
