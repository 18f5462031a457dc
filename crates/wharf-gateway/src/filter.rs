//! Selection of the tools that an upstream server contributes.

use wharf_model::ToolInfo;

/// Filter of the tools of one upstream server.
#[derive(Clone, Debug, Default)]
pub(crate) struct ToolFilter {
    /// Patterns of names, of which one must match; empty for all names.
    pub(crate) allow: Vec<String>,
    /// Patterns of names, of which none may match.
    pub(crate) deny: Vec<String>,
    /// Only tools that declare `readOnlyHint`.
    pub(crate) read_only: bool,
}

impl ToolFilter {
    pub(crate) fn includes(&self, tool: &ToolInfo) -> bool {
        let any = |patterns: &[String]| patterns.iter().any(|it| matches(it, &tool.name));
        let is_read_only = tool.annotations.as_ref().and_then(|it| it.read_only_hint) == Some(true);
        (self.allow.is_empty() || any(&self.allow))
            && !any(&self.deny)
            && (!self.read_only || is_read_only)
    }
}

/// Returns whether the pattern matches the whole name: `*` matches any characters, `?` one.
fn matches(pattern: &str, name: &str) -> bool {
    let (pattern, name): (Vec<char>, Vec<char>) =
        (pattern.chars().collect(), name.chars().collect());
    let (mut at, mut from) = (0, 0);
    // Place after the last `*`, and the first character that it does not match.
    let mut star: Option<(usize, usize)> = None;
    while from < name.len() {
        match pattern.get(at) {
            Some('*') => {
                star = Some((at + 1, from));
                at += 1;
            }
            Some(c) if *c == '?' || *c == name[from] => (at, from) = (at + 1, from + 1),
            _ => {
                let Some((after, taken)) = star else { return false };
                star = Some((after, taken + 1));
                (at, from) = (after, taken + 1);
            }
        }
    }
    pattern[at..].iter().all(|c| *c == '*')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::matches;

    #[test]
    fn patterns_match_whole_names() {
        for (pattern, name, expected) in [
            ("get_*", "get_issue", true),
            ("get_*", "forget_issue", false),
            ("*_issue", "get_issue", true),
            ("*", "", true),
            ("", "", true),
            ("", "a", false),
            ("get", "get_issue", false),
            ("?et", "get", true),
            ("?et", "et", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "xxaxxbxx", false),
            ("Get", "get", false),
        ] {
            assert_eq!(matches(pattern, name), expected, "{pattern} {name}");
        }
    }

    proptest! {
        #[test]
        fn a_part_of_a_name_between_stars_matches(head in "[a-c]{0,6}", part in "[a-c]{0,6}", tail in "[a-c]{0,6}") {
            let name = format!("{head}{part}{tail}");
            let patterns = [format!("*{part}*"), format!("{head}*{tail}"), name.clone()];
            for pattern in patterns {
                prop_assert!(matches(&pattern, &name));
            }
            let longer = format!("{name}?");
            prop_assert!(!matches(&longer, &name));
        }
    }
}
