//! URL elicitation: a page that a server requests the user to open.

use wharf::model::{ElicitResult, ElicitUrl};

use crate::terminal::{Dialog, clean, clean_line, clean_url};

/// Shows the full URL, and opens it if the user agrees.
pub(crate) fn visit(
    server: &str,
    page: &ElicitUrl,
    dialog: &mut dyn Dialog,
    open: impl FnOnce(&str) -> bool,
) -> ElicitResult {
    let paint = dialog.paint();
    let asks = paint.bold(&format!("{} asks you to open a page:", clean_line(server)));
    dialog.print(&format!("{asks} {}", clean(&page.message)));
    dialog.print(&format!("  {}", paint.cyan(&clean_url(&page.url))));
    let host = match host(&page.url) {
        Ok(host) => host,
        Err(why) => {
            dialog.print(&paint.yellow(&format!("The page is not opened: {why}.")));
            return ElicitResult::decline();
        }
    };
    dialog.print(&format!("  on {}", paint.bold(host)));
    for warning in warnings(&page.url, host) {
        dialog.print(&paint.yellow(&format!("  Warning: {warning}.")));
    }
    match dialog.ask("Open it? [y]es, [N]o > ").map(|line| line.trim().to_lowercase()).as_deref() {
        Some("y" | "yes") => {
            if !open(&page.url) {
                dialog.print("No browser could be started: open the address above yourself.");
            }
            ElicitResult::accept_url()
        }
        Some(_) => ElicitResult::decline(),
        None => ElicitResult::cancel(),
    }
}

/// Host of a URL that may be opened.
fn host(url: &str) -> Result<&str, &'static str> {
    let (scheme, rest) = url.split_once("://").ok_or("it is not a web address")?;
    if !matches!(scheme.to_ascii_lowercase().as_str(), "http" | "https") {
        return Err("it is not a web address");
    }
    if !url.bytes().all(|byte| byte.is_ascii_graphic())
        || url.contains(['"', '\'', '`', '\\', '<', '>'])
    {
        return Err("it contains characters that are not allowed in a URL");
    }
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit('@').next().unwrap_or_default();
    if host.is_empty() { Err("it names no host") } else { Ok(host) }
}

fn warnings(url: &str, host: &str) -> Vec<&'static str> {
    let name = host.rsplit_once(':').map_or(host, |(name, _)| name).to_ascii_lowercase();
    let here = matches!(name.as_str(), "localhost" | "127.0.0.1" | "[::1]");
    let before_path = url.split_once("://").map_or("", |(_, rest)| rest);
    let authority = before_path.split(['/', '?', '#']).next().unwrap_or_default();
    let all = [
        (
            name.split('.').any(|part| part.starts_with("xn--")),
            "the host name contains non-ASCII letters (xn--)",
        ),
        (authority.contains('@'), "the text before the @ is not the host"),
        (url.to_ascii_lowercase().starts_with("http:") && !here, "the connection is not encrypted"),
    ];
    all.into_iter().filter_map(|(so, what)| so.then_some(what)).collect()
}

/// Opens `url` in the user's browser; false if no program could be started.
pub(crate) fn open(url: &str) -> bool {
    wharf::auth::client::browser::open(url).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::terminal::Script;
    use wharf::model::ElicitAction;

    fn visited(url: &str, answers: &[&str]) -> (ElicitAction, bool, String) {
        let mut script = Script::new(answers);
        let mut opened = false;
        let page = ElicitUrl::new("Sign in.", url);
        let open = |given: &str| {
            assert_eq!(given, url);
            opened = true;
            true
        };
        let result = visit("harbour", &page, &mut script, open);
        (result.action, opened, script.printed)
    }

    #[test]
    fn a_url_is_opened_only_with_consent() {
        let url = "https://example.com/sign-in?state=1";
        for (answers, action, opened) in [
            (vec!["y"], ElicitAction::Accept, true),
            (vec![""], ElicitAction::Decline, false),
            (vec!["n"], ElicitAction::Decline, false),
            (vec![], ElicitAction::Cancel, false),
        ] {
            let (did, open, printed) = visited(url, &answers);
            assert_eq!((did, open), (action, opened));
            assert!(printed.contains(url) && printed.contains("on example.com"), "{printed}");
        }
    }

    #[test]
    fn only_http_urls_are_opened() {
        for url in [
            "file:///etc/passwd",
            "javascript:alert(1)",
            "https://",
            "https://a.b/ c",
            "https://ex\u{430}mple.com",
            "https://a.b/\u{202e}",
            "https://a.b/$(x)`y`",
            "-x://a",
        ] {
            let (action, opened, _) = visited(url, &["y"]);
            assert_eq!((action, opened), (ElicitAction::Decline, false), "{url}");
        }
    }

    #[test]
    fn misleading_urls_have_warnings() {
        for (url, warning) in [
            ("https://xn--exmple-4nf.com/", "non-ASCII letters"),
            ("https://good.com@evil.com/", "before the @"),
            ("http://example.com/", "not encrypted"),
        ] {
            assert!(visited(url, &["n"]).2.contains(warning), "{url}");
        }
        assert!(!visited("http://127.0.0.1:99/x", &["n"]).2.contains("Warning"));
        assert!(visited("https://good.com@evil.com/", &["n"]).2.contains("on evil.com"));
    }
}
