//! Puts the scripts and stylesheets that a page loads from relative URLs into the page: it has no URL that they could be
//! relative to.

/// File name of the script for the page's side of the protocol.
pub(crate) const PAGE_SCRIPT_NAME: &str = "wharf-app.js";

/// Returns the page with the text of each `<script src="…">` and `<link rel="stylesheet" href="…">` whose URL is relative
/// in its place. `load` returns the text of a file, by its path.
pub(crate) fn inline(
    page: &str,
    load: &dyn Fn(&str) -> Result<String, String>,
) -> Result<String, String> {
    let lower = page.to_ascii_lowercase();
    if !skip_comments(lower.trim_start_matches('\u{feff}')).starts_with("<!doctype html") {
        return Err(
            "its page does not begin with `<!doctype html>`: add that line, because hosts show \
                    only complete HTML documents"
                .to_owned(),
        );
    }
    let (mut whole, mut at) = (String::with_capacity(page.len()), 0);
    while let Some(start) = lower[at..].find('<').map(|found| at + found) {
        whole.push_str(&page[at..start]);
        let rest = &lower[start..];
        let end = start + element_length(rest);
        let element = Element { text: &page[start..end], lower: &lower[start..end] };
        match element.inlined(load)? {
            Some(replacement) => whole.push_str(&replacement),
            None => whole.push_str(element.text),
        }
        at = end;
    }
    whole.push_str(&page[at..]);
    Ok(whole)
}

/// Skips white space and comments at the beginning.
fn skip_comments(mut page: &str) -> &str {
    loop {
        page = page.trim_start();
        match page.strip_prefix("<!--").and_then(|rest| rest.split_once("-->")) {
            Some((_, rest)) => page = rest,
            None => return page,
        }
    }
}

/// Returns the length of what begins with `<`: a comment, a script with its text, or one tag.
fn element_length(lower: &str) -> usize {
    let until = |end: &str| lower.find(end).map_or(lower.len(), |at| at + end.len());
    if lower.starts_with("<!--") {
        return until("-->");
    }
    if is_tag(lower, "script") {
        let text = tag_length(lower);
        let end = lower[text..].find("</script").map_or(lower.len(), |at| text + at);
        return end + lower[end..].find('>').map_or(lower.len() - end, |at| at + 1);
    }
    // `<` before anything else is text.
    let is_tag = lower[1..].starts_with(|it: char| it.is_ascii_lowercase() || "/!?".contains(it));
    if is_tag { tag_length(lower) } else { 1 }
}

fn is_tag(lower: &str, name: &str) -> bool {
    let after = lower.strip_prefix('<').and_then(|rest| rest.strip_prefix(name));
    after.is_some_and(|rest| rest.starts_with([' ', '\t', '\n', '\r', '\u{c}', '/', '>']))
}

/// Returns the length of a tag: up to the first `>` outside of quotes.
fn tag_length(lower: &str) -> usize {
    let mut quote = None;
    for (at, found) in lower.char_indices() {
        match (quote, found) {
            (None, '>') => return at + 1,
            (None, '"' | '\'') => quote = Some(found),
            (Some(open), _) if open == found => quote = None,
            _ => {}
        }
    }
    lower.len()
}

/// One element of a page; `lower` is its text in lower case.
struct Element<'a> {
    text: &'a str,
    lower: &'a str,
}

impl Element<'_> {
    /// Returns the element with the text of its file, if it loads one from a relative URL.
    fn inlined(
        &self,
        load: &dyn Fn(&str) -> Result<String, String>,
    ) -> Result<Option<String>, String> {
        let (is_script, is_link) = (is_tag(self.lower, "script"), is_tag(self.lower, "link"));
        if !is_script && !is_link {
            return Ok(None);
        }
        let start = if is_script { "<script".len() } else { "<link".len() };
        let attributes = attributes(&self.text[start..tag_length(self.lower)]);
        let value = |name: &str| {
            attributes.iter().find(|it| it.name.eq_ignore_ascii_case(name)).map(|it| it.value)
        };
        let is_stylesheet =
            || value("rel").is_some_and(|rel| rel.eq_ignore_ascii_case("stylesheet"));
        let url_attribute = if is_script { "src" } else { "href" };
        let path = value(url_attribute).and_then(relative_path);
        let Some(path) = path.filter(|_| is_script || is_stylesheet()) else { return Ok(None) };
        let text = load(path)?;
        if is_link {
            return Ok(Some(format!("<style>\n{}</style>", text.replace("</", "<\\/"))));
        }
        let is_module = value("type").is_some_and(|it| it.trim().eq_ignore_ascii_case("module"));
        if !is_module && value("defer").is_some() && value("async").is_none() {
            return Err(format!(
                "its page loads {path:?} with `defer`, which has no effect on a script in the page: write \
                 `type=\"module\"` instead, or move the script to the end of the body"
            ));
        }
        let others = attributes.iter().filter(|it| !it.name.eq_ignore_ascii_case("src"));
        let others: String = others.map(|it| format!(" {}", it.text)).collect();
        Ok(Some(format!("<script{others}>\n{}</script>", escape_script(&text))))
    }
}

/// Texts that end a script or hide its end, and the escapes of their beginnings.
const SCRIPT_ESCAPES: [(&str, &str, &str); 2] =
    [("</script", "</", "<\\/"), ("<!--", "<!--", "<!-\\u002D")];

/// Escapes the texts in a script that HTML would read: `</script`, and `<!--`, behind which `<script` makes the next
/// `</script>` part of the text. In strings, templates, regular expressions and JSON an escape means the same as its text,
/// whatever is before it; only `String.raw` sees a difference. Code outside of them is never `</script`, and `<!--` only
/// as a comment of old scripts (write `//`) and in `a<!--b` (write `a < !--b`); both become a syntax error, which is seen,
/// and not a page that ends early. `<script` alone is harmless and stays, because `i<scripts.length` is code.
fn escape_script(text: &str) -> String {
    let (mut escaped, mut rest) = (String::with_capacity(text.len()), text);
    while let Some((before, _)) = rest.split_once('<') {
        escaped.push_str(before);
        rest = &rest[before.len()..];
        let begins = |with: &str| {
            rest.get(..with.len()).is_some_and(|start| start.eq_ignore_ascii_case(with))
        };
        let found = SCRIPT_ESCAPES.iter().find(|it| begins(it.0));
        let (taken, escape) = found.map_or(("<", "<"), |it| (it.1, it.2));
        escaped.push_str(escape);
        rest = &rest[taken.len()..];
    }
    escaped + rest
}

/// Attribute of a tag: its text with quotes, its name, and its value.
struct Attribute<'a> {
    text: &'a str,
    name: &'a str,
    value: &'a str,
}

/// Returns the attributes in the text of a tag after its name.
fn attributes(mut tag: &str) -> Vec<Attribute<'_>> {
    let is_space = |it: char| it.is_ascii_whitespace();
    let mut found = Vec::new();
    loop {
        tag = tag.trim_start_matches(|it: char| is_space(it) || it == '/');
        let name = &tag[..tag.find(|it| is_space(it) || "/=>".contains(it)).unwrap_or(tag.len())];
        if name.is_empty() {
            return found;
        }
        let after = tag[name.len()..].trim_start_matches(is_space);
        let Some(value) = after.strip_prefix('=').map(|rest| rest.trim_start_matches(is_space))
        else {
            found.push(Attribute { text: name, name, value: "" });
            tag = &tag[name.len()..];
            continue;
        };
        let start = tag.len() - value.len();
        let quote = value.chars().next().filter(|it| matches!(it, '"' | '\''));
        let (from, length) = match quote {
            Some(quote) => (1, value[1..].find(quote).unwrap_or(value.len() - 1)),
            None => (0, value.find(|it| is_space(it) || it == '>').unwrap_or(value.len())),
        };
        let end = (start + 2 * from + length).min(tag.len());
        found.push(Attribute { text: &tag[..end], name, value: &value[from..from + length] });
        tag = &tag[end..];
    }
}

/// Returns the path of a relative URL, without query and fragment.
fn relative_path(url: &str) -> Option<&str> {
    let url = url.trim();
    let scheme = url.find([':', '/', '?', '#']).filter(|at| url[*at..].starts_with(':'));
    if scheme.is_some() || url.starts_with("//") || url.is_empty() {
        return None;
    }
    let path = url.split(['?', '#']).next().unwrap_or_default();
    let path = path.trim_start_matches('/');
    Some(path.strip_prefix("./").unwrap_or(path))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn inlined(body: &str) -> Result<String, String> {
        let load = |path: &str| match path {
            "a.js" => Ok("a(\"</script>\")".to_owned()),
            "css/a.css" => Ok("b{}".to_owned()),
            "ends.js" => Ok("'</SCRIPT><p>', /<\\/script>/".to_owned()),
            "hides.js" => Ok("'<!--<Script>', '\\<!--', i<scripts.length".to_owned()),
            other => Err(format!("no {other}")),
        };
        let page = inline(&format!("<!DOCTYPE html>{body}"), &load)?;
        Ok(page.strip_prefix("<!DOCTYPE html>").unwrap_or(&page).to_owned())
    }

    #[test]
    fn relative_scripts_and_stylesheets_are_inlined() {
        let script = "\na(\"<\\/script>\")</script>";
        for (before, after) in [
            ("<script src=\"a.js\"></script>!", format!("<script>{script}!")),
            (
                "<SCRIPT type=module SRC='./a.js?v=1' async ></SCRIPT>",
                format!("<script type=module async>{script}"),
            ),
            (
                "<script\n src = /a.js defer/ type='Module'></script>",
                format!("<script defer type='Module'>{script}"),
            ),
            ("<script async defer src=a.js></script>", format!("<script async defer>{script}")),
            ("1 < 2 it's <script src=a.js></script>", format!("1 < 2 it's <script>{script}")),
            ("<link rel=\"stylesheet\" href=\"css/a.css\">", "<style>\nb{}</style>".to_owned()),
        ] {
            assert_eq!(inlined(before).as_deref(), Ok(&*after), "{before}");
        }
        assert_eq!(inlined("<script src=b.js></script>"), Err("no b.js".to_owned()));
    }

    #[test]
    fn no_text_of_a_script_ends_it_or_hides_its_end() {
        for (file, text) in [
            ("ends.js", r"'<\/SCRIPT><p>', /<\/script>/"),
            ("hides.js", r"'<!-\u002D<Script>', '\<!-\u002D', i<scripts.length"),
        ] {
            let page = inlined(&format!("<script src={file}></script>"));
            assert_eq!(page, Ok(format!("<script>\n{text}</script>")), "{file}");
        }
    }

    #[test]
    fn a_script_that_would_run_too_early_is_an_error() {
        let error = inlined("<script DEFER src=a.js></script>").unwrap_err();
        assert!(error.contains("\"a.js\" with `defer`") && error.contains("type="), "{error}");
    }

    #[test]
    fn everything_else_stays() {
        for text in [
            "",
            "<",
            "a < b <i title='>'>é</i>",
            "<script>\"<script src='b.js'>\"</script>",
            "<!-- <script src=\"b.js\"></script> -->",
            "<script src=\"https://example.com/b.js\"></script>",
            "<script src=\"//example.com/b.js\"></script>",
            "<script src=\"data:text/javascript,1\"></script>",
            "<script src=\"\"></script>",
            "<scripture src=\"b.js\">",
            "<link rel=\"icon\" href=\"b.ico\">",
            "<script src=",
            "<script",
            "<link href",
        ] {
            assert_eq!(inlined(text).as_deref(), Ok(text));
        }
    }

    #[test]
    fn a_page_is_a_document() {
        let load = |_: &str| Err(String::new());
        for page in ["<!doctype html>", "\u{feff}\n<!-- MIT --> <!DOCTYPE HTML>\n<p>"] {
            assert_eq!(inline(page, &load).as_deref(), Ok(page));
        }
        for page in ["", "<p>", "<!-- <!doctype html>", "<!doctype svg>"] {
            assert!(inline(page, &load).is_err(), "{page}");
        }
    }
}
