//! Directories of skills: rules that are build errors, and rules that are warnings.

use serde_json::json;

use super::{TestDirectory, connect, read, request, skill, uris};

fn assert_only(found: &[String], words: &str) {
    assert!(found.len() == 1 && found[0].contains(words), "{words}: {found:#?}");
}

#[test]
fn all_errors_are_reported_at_once_with_file_and_line() {
    let directory = TestDirectory::new();
    directory.write("SKILL.md", skill("top"));
    directory.write("bad-yaml/SKILL.md", "---\nname: bad-yaml\ndescription: *x\n---\n");
    directory.write("no-fence/SKILL.md", "# Nothing\n");
    directory.write("other/SKILL.md", "---\ndescription: b\nname: renamed\n---\n");
    directory.write("empty/SKILL.md", "---\nname: empty\ndescription: ''\n---\n");
    directory.write("Upper/SKILL.md", skill("Upper"));
    directory.write("none/SKILL.md", "---\nname: none\n---\n");
    let found = directory.problems();
    let expected = [
        ("skill `SKILL.md`:", "not in a directory of its own"),
        ("skill `Upper/SKILL.md:2`:", "\"Upper\" is not valid"),
        ("skill `bad-yaml/SKILL.md:3`:", "front matter"),
        ("skill `empty/SKILL.md:3`:", "`description` is empty"),
        ("skill `no-fence/SKILL.md:1`:", "does not begin with front matter"),
        ("skill `none/SKILL.md:1`:", "no `description`"),
        ("skill `other/SKILL.md:3`:", "its name is `renamed`, and its directory is `other`"),
    ];
    assert_eq!(found.len(), expected.len(), "{found:#?}");
    for (found, (start, words)) in found.iter().zip(expected) {
        assert!(found.starts_with(start) && found.contains(words), "{found}");
    }
}

#[test]
fn recommended_rules_are_warnings() {
    let directory = TestDirectory::with_refunds();
    assert!(directory.warnings().is_empty());
    directory.write("acme/refunds/SKILL.md", skill("refunds"));
    assert_only(&directory.warnings(), "several skills have the name `refunds`");

    let directory = TestDirectory::new();
    directory.write("a/skill.md", skill("a"));
    let found = directory.warnings();
    assert!(found.len() == 2 && found[0].contains("rename it to `SKILL.md`"), "{found:#?}");
    assert!(found[1].contains("it has no skill"), "{found:#?}");

    let directory = TestDirectory::new();
    directory.write("many/SKILL.md", skill("many"));
    (0..512).for_each(|number| directory.write(&format!("many/{number}"), "x"));
    assert_only(&directory.warnings(), "513 files");

    let directory = TestDirectory::new();
    directory.write("large/SKILL.md", skill("large"));
    directory.write("large/data", vec![b'x'; 16 * 1024 * 1024]);
    assert_only(&directory.warnings(), "hosts accept 16777216");

    let directory = TestDirectory::new();
    directory.write(
        "reserved/SKILL.md",
        "---\nname: reserved\ndescription: b\nmetadata:\n  io.modelcontextprotocol/x: z\n---\n",
    );
    assert_only(&directory.warnings(), "reserved/SKILL.md:4: ");
}

#[test]
fn a_missing_directory_and_one_that_is_a_file_are_errors() {
    let directory = TestDirectory::new();
    directory.write("file", "x");
    for (name, words) in [("none", "cannot read the directory"), ("file", "not a directory")] {
        let problems = super::server().skills(directory.path().join(name)).build().unwrap_err();
        assert!(problems.to_string().contains(words), "{problems}");
    }
}

#[tokio::test]
async fn bytes_are_served_as_they_are_with_byte_order_mark_and_windows_line_ends() {
    let directory = TestDirectory::new();
    let text = format!("\u{feff}{}", skill("marked").replace('\n', "\r\n"));
    directory.write("marked/SKILL.md", &text);
    assert_only(&directory.warnings(), "CRLF");
    let client = connect(directory.endpoint()).await;
    let entry = request(&client, "skills/get", json!({"uri": "skill://marked/SKILL.md"})).await;
    assert_eq!(entry["skill"]["frontmatter"]["description"], "Does marked.");
    assert_eq!(entry["skill"]["resources"][0]["size"], text.len());
    assert_eq!(read(&client, "skill://marked/SKILL.md").await["text"], text);
}

#[tokio::test]
async fn a_nested_skill_is_published_and_belongs_to_the_skill_around_it() {
    let directory = TestDirectory::new();
    directory.write("outer/SKILL.md", skill("outer"));
    directory.write("outer/parts/inner/SKILL.md", skill("inner"));
    directory.write("outer/parts/inner/x.md", "x");
    let client = connect(directory.endpoint()).await;
    assert_eq!(
        uris(&client).await,
        ["skill://outer/SKILL.md", "skill://outer/parts/inner/SKILL.md"]
    );
    let list = request(&client, "skills/list", json!({})).await;
    let files = |at: usize| list["skills"][at]["resources"].as_array().unwrap().len();
    assert_eq!((files(0), files(1)), (3, 2));
}

#[tokio::test]
async fn hidden_files_are_not_served() {
    let directory = TestDirectory::with_refunds();
    directory.write("refunds/.DS_Store", "x");
    directory.write(".git/SKILL.md", "x");
    let client = connect(directory.endpoint()).await;
    let list = request(&client, "skills/list", json!({})).await;
    assert_eq!(list["skills"].as_array().unwrap().len(), 1);
    assert_eq!(list["skills"][0]["resources"].as_array().unwrap().len(), 2);
}

#[cfg(unix)]
#[test]
fn links_and_special_files_are_refused() {
    use std::os::unix::{fs::symlink, net::UnixListener};

    let directory = TestDirectory::with_refunds();
    symlink("/etc/passwd", directory.path().join("refunds/passwd")).unwrap();
    assert_only(&directory.problems(), "skill `refunds/passwd`: it is a symbolic link");

    let directory = TestDirectory::with_refunds();
    symlink("/etc", directory.path().join("refunds/etc")).unwrap();
    assert_only(&directory.problems(), "skill `refunds/etc`: it is a symbolic link");

    let directory = TestDirectory::with_refunds();
    let _socket = UnixListener::bind(directory.path().join("refunds/socket")).unwrap();
    assert_only(
        &directory.problems(),
        "skill `refunds/socket`: it is neither a file nor a directory",
    );

    // The directory itself is named by the application, and may be a link.
    let (directory, links) = (TestDirectory::with_refunds(), TestDirectory::new());
    symlink(directory.path(), links.path().join("skills")).unwrap();
    assert!(super::server().skills(links.path().join("skills")).build().is_ok());
}

#[cfg(target_os = "linux")]
#[test]
fn names_that_are_not_utf8_are_refused() {
    use std::{ffi::OsStr, os::unix::ffi::OsStrExt as _};

    let directory = TestDirectory::with_refunds();
    std::fs::write(directory.path().join("refunds").join(OsStr::from_bytes(b"a\xff")), "x")
        .unwrap();
    assert_only(&directory.problems(), "not UTF-8");
    let directory = TestDirectory::with_refunds();
    directory.write("refunds/a\\b", "x");
    assert_only(&directory.problems(), "leaves its directory");
}
