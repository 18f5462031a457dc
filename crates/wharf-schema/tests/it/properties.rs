//! Compares the names and characters of `\p{…}` with V8.
//!
//! Needs Node, which `cargo xtask foreign` finds or installs.

#[path = "../../src/validate/pattern/property.rs"]
mod property;

use std::{collections::BTreeSet, fs, path::Path, process::Command};

use property::Property;
use serde_json::json;
use wharf_schema::validate::Schema;
use wharf_testbed::foreign_programs::Installed;

/// Unicode version of `icu_properties`, and the version before it.
const UNICODE: &str = "18.0";
const BEFORE: &str = "17.0";

/// Existing characters whose properties Unicode changed.
const CHANGED: [(&[&str], &[char]); 4] = [
    (
        &["Changes_When_Casemapped", "Changes_When_Titlecased", "Changes_When_Uppercased"],
        &['\u{277}', '\u{27C}', '\u{AB4B}', '\u{AB4C}'],
    ),
    (&["Diacritic"], &['\u{656}', '\u{6E2}', '\u{8D3}']),
    (&["scx=Deva"], &['\u{1CF5}', '\u{1CF6}']),
    (&["scx=Knda", "scx=Mlym", "scx=Telu"], &['\u{B83}']),
];

/// Names in a section of `properties.txt`.
fn names(part: &str) -> Vec<&'static str> {
    let lines = include_str!("../properties.txt").lines();
    let after = lines.skip_while(|line| *line != format!("[{part}]")).skip(1);
    after.take_while(|line| !line.starts_with('[')).flat_map(str::split_whitespace).collect()
}

/// All names, with the prefixes that they need.
fn all_names() -> Vec<String> {
    let mut all: Vec<String> = ["others", "categories", "refused"]
        .iter()
        .flat_map(|it| names(it))
        .map(Into::into)
        .collect();
    for script in names("scripts") {
        all.extend([format!("sc={script}"), format!("scx={script}")]);
    }
    let with_prefix = ["gc=Lu", "General_Category=Lu", "Script=Greek", "Script_Extensions=Greek"];
    all.extend(with_prefix.map(Into::into));
    all
}

fn range(text: &str) -> (u32, u32) {
    let (first, last) = text.split_once('-').unwrap();
    (first.parse().unwrap(), last.parse().unwrap())
}

/// Output of V8 for the names: a line with its version, a line of rejected names, a line per set.
fn run_v8(all: &[String]) -> String {
    let installed = Installed::find().unwrap();
    let list = Path::new(env!("CARGO_TARGET_TMPDIR")).join("properties-names.txt");
    fs::write(&list, all.join("\n")).unwrap();
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/properties.mjs");
    let mut node = Command::new(installed.runtime("properties.mjs"));
    let output = node.arg(script).arg(&list).output().unwrap();
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

/// Characters that V8 was queried about.
struct PropertyQuery {
    all: Vec<char>,
    /// True if V8 has our Unicode version.
    is_same: bool,
    /// By index in `all`: true if V8's Unicode version has the character.
    is_assigned: Vec<bool>,
}

/// By index in `all`: true if the character is in V8's ranges of indices.
fn members(ranges: &str, length: usize) -> Vec<bool> {
    let mut members = vec![false; length];
    for (start, end) in ranges.split_whitespace().map(range) {
        members[start as usize..end as usize].fill(true);
    }
    members
}

impl PropertyQuery {
    /// First character for which a property differs from V8's, unless the Unicode versions explain
    /// it.
    fn difference(&self, name: &str, property: &Property, members: &[bool]) -> Option<char> {
        let changed = CHANGED.iter().find(|(names, _)| names.contains(&name));
        let is_explained = |at: usize, char: char| {
            !self.is_same
                && (!self.is_assigned[at] || changed.is_some_and(|(_, all)| all.contains(&char)))
        };
        // With 350 scripts, testing each against the characters of all others takes too long.
        let rare = if name.starts_with("sc") { 16 } else { 1 };
        let is_end = |at: usize| at > 0 && members[at] != members[at - 1];
        let is_asked =
            |at: usize| members[at] || at.is_multiple_of(rare) || is_end(at) || is_end(at + 1);
        let last = self.all.len() - 1;
        let mut all = self.all[..last].iter().copied().enumerate();
        let found = all.find(|(at, char)| {
            is_asked(*at) && property.has(*char) != members[*at] && !is_explained(*at, *char)
        });
        found.map(|(_, char)| char)
    }
}

/// True if two properties agree at the ends of all ranges of the set.
fn agree_at_ends(one: &Property, other: &Property, all: &[char], members: &[bool]) -> bool {
    let is_end = |at: &usize| members[*at] != members[at + 1];
    let agree = |at: usize| one.has(all[at]) == other.has(all[at]);
    (0..all.len() - 1).filter(is_end).all(|at| agree(at) && agree(at + 1))
}

#[test]
fn names_and_characters_are_those_of_v8() {
    let all = all_names();
    let told = run_v8(&all);
    let mut lines = told.lines();
    let version = lines.next().unwrap();
    if ![UNICODE, BEFORE].contains(&version) {
        eprintln!("not compared: Node has Unicode {version}, not {BEFORE} or {UNICODE}");
        return;
    }
    let refused: BTreeSet<&str> = lines.next().unwrap().split(' ').collect();
    for name in &all {
        let is_known = Property::named(name).is_some();
        assert_eq!(is_known, !refused.contains(&**name), "{name} by V8 with Unicode {version}");
    }
    for name in names("refused") {
        assert!(refused.contains(name), "{name}");
    }
    let spans = lines.next().unwrap().split(' ').map(range);
    let all: Vec<char> =
        spans.flat_map(|(first, last)| first..=last).filter_map(char::from_u32).collect();
    let lines: Vec<(&str, &str)> = lines.map(|line| line.split_once('\t').unwrap()).collect();
    let assigned = lines.iter().find(|(names, _)| *names == "Assigned").unwrap().1;
    let is_assigned = members(assigned, all.len());
    let asked = PropertyQuery { all, is_same: version == UNICODE, is_assigned };
    for (names, ranges) in lines {
        let members = members(ranges, asked.all.len());
        let mut names = names.split(' ');
        let first = names.next().unwrap();
        let property = Property::named(first).unwrap();
        assert_eq!(asked.difference(first, &property, &members), None, "{first}");
        for alias in names {
            let other = Property::named(alias).unwrap();
            assert!(agree_at_ends(&property, &other, &asked.all, &members), "{alias}");
        }
    }
}

#[test]
fn properties_are_found_in_texts() {
    for (pattern, text, is_in) in [
        (r"^\p{Nd}$", "½", false),
        (r"^\p{Nd}$", "٣", true),
        (r"^\p{Script=Han}+$", "漢字", true),
        (r"^\p{sc=Hira}$", "ー", false),
        (r"^\p{scx=Hira}$", "ー", true),
        (r"^\p{L}$", "\u{345}", false),
        (r"^\p{Alphabetic}$", "\u{345}", true),
        (r"^[\p{P}\p{S}\p{M}]+$", "!+\u{301}", true),
        (r"^\p{Emoji}$", "🔥", true),
        (r"^\P{Lo}$", "a", true),
        (r"^[^\p{Lu}]$", "A", false),
        (r"^\p{ID_Start}\p{ID_Continue}*$", "é1", true),
    ] {
        let schema = Schema::compile(&json!({"pattern": pattern})).unwrap();
        assert_eq!(schema.is_valid(&json!(text), 1000), Ok(is_in), "{pattern} in {text}");
    }
    let error = Schema::compile(&json!({"pattern": r"\p{latin}"})).unwrap_err();
    assert!(error.contains("the property `latin`"), "{error}");
}
