//! URI templates (RFC 6570).

const OPERATORS: &str = "+#./;?&=,!@|";

pub(super) fn is_uri_template(text: &str) -> bool {
    let mut rest = text;
    loop {
        let (literal, after) = rest.split_at(rest.find('{').unwrap_or(rest.len()));
        if !is_literal(literal) {
            return false;
        }
        let Some(after) = after.strip_prefix('{') else { return true };
        let Some((expression, after)) = after.split_once('}') else { return false };
        if !is_expression(expression) {
            return false;
        }
        rest = after;
    }
}

fn is_literal(text: &str) -> bool {
    let mut parts = text.split('%');
    let first = parts.next().unwrap_or_default();
    let is_char = |it: char| !it.is_control() && !" \"<>\\^`{|}".contains(it);
    let is_escape =
        |part: &str| part.len() >= 2 && part.bytes().take(2).all(|it| it.is_ascii_hexdigit());
    first.chars().all(is_char) && parts.all(|part| is_escape(part) && part.chars().all(is_char))
}

fn is_expression(text: &str) -> bool {
    let variables = text.strip_prefix(|it| OPERATORS.contains(it)).unwrap_or(text);
    variables.split(',').all(is_variable)
}

fn is_variable(text: &str) -> bool {
    let name = match (text.strip_suffix('*'), text.split_once(':')) {
        (Some(name), _) => name,
        (None, Some((name, length))) => {
            let is_length = (1..=4).contains(&length.len())
                && !length.starts_with('0')
                && length.bytes().all(|it| it.is_ascii_digit());
            if !is_length {
                return false;
            }
            name
        }
        (None, None) => text,
    };
    name.split('.').all(is_word)
}

fn is_word(word: &str) -> bool {
    let mut parts = word.split('%');
    let is_char = |it: u8| it.is_ascii_alphanumeric() || it == b'_';
    let first = parts.next().unwrap_or_default();
    let is_escape =
        |part: &str| part.len() >= 2 && part.bytes().take(2).all(|it| it.is_ascii_hexdigit());
    !word.is_empty()
        && first.bytes().all(is_char)
        && parts.all(|part| is_escape(part) && part.bytes().all(is_char))
}
