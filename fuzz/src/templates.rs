//! URI templates.

use wharf_server::fuzzing::{Captured, match_template};

use crate::input::{assert_fast, two_texts};

/// The first line is a template; the others are URIs, which are matched. What a URI contains is expanded again, and
/// the template must match the expansion.
pub fn templates(data: &[u8]) {
    let Some((template, uris)) = two_texts(data) else { return };
    let uris: Vec<&str> = uris.split('\n').collect();
    let Ok(matches) = assert_fast("matching", || match_template(template, &uris)) else { return };
    for (uri, captures) in uris.iter().zip(matches) {
        let Some(captures) = captures else { continue };
        for (name, value) in &captures {
            check_slashes(template, name, value);
        }
        let expanded = expand(template, &captures);
        let again = match_template(template, &[&expanded]).ok().and_then(|mut it| it.pop());
        let again = again.flatten();
        assert!(again.is_some(), "{template} matches {uri} ({captures:?}), but not {expanded}");
    }
}

/// Only `{+name}`, `{#name}` and the query may contain slashes.
fn check_slashes(template: &str, name: &str, value: &Captured) {
    let may = expressions(template).any(|(operator, names)| {
        matches!(operator, '+' | '#' | '?' | '&') && names.split(',').any(|it| bare(it) == name)
    });
    let in_query = template.split('{').next().is_some_and(|before| before.contains('?'));
    let values = value.as_ref().map_or_else(|list| list.as_slice(), std::slice::from_ref);
    let has = values.iter().any(|value| value.contains('/'));
    assert!(!has || may || in_query || template.contains('?'), "{name} of {template}: {value:?}");
}

fn expressions(template: &str) -> impl Iterator<Item = (char, &str)> {
    template.split('{').skip(1).filter_map(|rest| Some(operator(rest.split_once('}')?.0)))
}

/// Splits an expression into its operator, or a space, and its names.
fn operator(expression: &str) -> (char, &str) {
    let first = expression.chars().next().filter(|first| "+#./;?&".contains(*first));
    (first.unwrap_or(' '), &expression[usize::from(first.is_some())..])
}

fn bare(name: &str) -> &str {
    name.strip_suffix('*').unwrap_or(name)
}

/// Expands a template as RFC 6570 says.
fn expand(template: &str, captures: &[(String, Captured)]) -> String {
    let mut out = String::new();
    let mut rest = template;
    while let Some((literal, after)) = rest.split_once('{') {
        out.push_str(literal);
        let Some((expression, after)) = after.split_once('}') else { break };
        let (operator, names) = operator(expression);
        expand_expression(operator, names, captures, &mut out);
        rest = after;
    }
    out + rest
}

fn expand_expression(
    operator: char,
    names: &str,
    captures: &[(String, Captured)],
    out: &mut String,
) {
    let (first, separator, is_named) = match operator {
        '+' => ("", ",", false),
        '#' => ("#", ",", false),
        '.' => (".", ".", false),
        '/' => ("/", "/", false),
        ';' => (";", ";", true),
        '?' => ("?", "&", true),
        '&' => ("&", "&", true),
        _ => ("", ",", false),
    };
    let mut before = first;
    for name in names.split(',').map(bare) {
        let Some((_, value)) = captures.iter().find(|(it, _)| it == name) else { continue };
        let values = value.as_ref().map_or_else(|list| list.as_slice(), std::slice::from_ref);
        for value in values {
            out.push_str(before);
            before = separator;
            if is_named {
                out.push_str(&encode(name, ""));
                if operator != ';' || !value.is_empty() {
                    out.push('=');
                }
            }
            let reserved = if matches!(operator, '+' | '#') { ":/?#[]@!$&'()*+,;=" } else { "" };
            out.push_str(&encode(value, reserved));
        }
    }
}

fn encode(value: &str, keep: &str) -> String {
    let encoded = |byte: u8| {
        let char = char::from(byte);
        let plain = char.is_ascii_alphanumeric() || "-._~".contains(char) || keep.contains(char);
        if plain { char.to_string() } else { format!("%{byte:02X}") }
    };
    value.bytes().map(encoded).collect()
}
