//! Skills, formatted for people.

use wharf::skills::{ListedSkill, SkillEntry};

use crate::terminal::{Paint, bytes, clean_line, cut, labelled, table};

/// Maximum length of a text in a table.
const MAX_CELL_CHARS: usize = 300;
/// Width of the labels above the table of files.
const LABEL_WIDTH: usize = 14;

/// Table with one row per skill. The description of a refused skill is the reason.
pub(crate) fn skill_table(skills: &[ListedSkill], columns: usize, paint: Paint) -> Vec<String> {
    let row = |skill: &ListedSkill| {
        let (files, size, about) = match skill.entry() {
            Ok(entry) => (files(entry), size(entry), entry.description().to_owned()),
            Err(refused) => ("refused".to_owned(), String::new(), refused.to_string()),
        };
        vec![cell(skill.name()), cell(skill.uri()), files, size, cell(&about)]
    };
    let mut lines = vec![paint.cyan(&format!("Skills ({})", skills.len()))];
    if !skills.is_empty() {
        let rows: Vec<_> = skills.iter().map(row).collect();
        let head = ["NAME", "URI", "FILES", "SIZE", "DESCRIPTION"];
        lines.extend(table(&head, &rows, columns, paint));
    }
    lines
}

/// Front matter of a skill and the table of its files.
pub(crate) fn skill_lines(entry: &SkillEntry, columns: usize, paint: Paint) -> Vec<String> {
    let mut lines = Vec::new();
    let mut row = |name: &str, text: &str| {
        lines.extend(labelled(name, &clean_line(text), LABEL_WIDTH, columns, paint));
    };
    row("URI", &entry.uri);
    for (name, value) in &entry.frontmatter {
        let text = value.as_str().map_or_else(|| value.to_string(), str::to_owned);
        row(&clean_line(name), &text);
    }
    row("Files", &files(entry));
    let rows: Vec<_> = entry
        .manifest()
        .unwrap_or_default()
        .iter()
        .map(|file| vec![cell(&file.uri), size_text(file.size), file.digest.to_string()])
        .collect();
    if !rows.is_empty() {
        lines.push(String::new());
        lines.extend(table(&["FILE", "SIZE", "DIGEST"], &rows, columns, paint));
    }
    lines
}

fn files(entry: &SkillEntry) -> String {
    entry.manifest().map_or_else(|| "dynamic".to_owned(), |it| it.len().to_string())
}

fn size(entry: &SkillEntry) -> String {
    entry.manifest().map(|_| size_text(entry.total_size())).unwrap_or_default()
}

fn size_text(size: u64) -> String {
    bytes(usize::try_from(size).unwrap_or(usize::MAX))
}

fn cell(text: &str) -> String {
    cut(&clean_line(text), MAX_CELL_CHARS)
}
