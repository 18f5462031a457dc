//! Opens a page in the user's browser without a shell.

use std::{
    env,
    ffi::OsString,
    fmt, io,
    process::{Child, Command, Stdio},
    sync::Arc,
    thread,
    time::{Duration, Instant},
};

use url::{ParseError, Url};

/// Longest URL that is opened.
const MAX_URL_BYTES: usize = 16 << 10;

/// Time in which a program can report failure. Afterwards it counts as running.
const FAILURE_WINDOW: Duration = Duration::from_secs(2);

/// Characters with a meaning in a shell. Some systems' openers are shell scripts.
const SHELL_CHARACTERS: &[u8] = b"$`'\"\\()<>{}[]|;*!^~ ";

/// Error of opening a page.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub enum OpenError {
    /// The URL may not be opened; the string is the reason.
    Address(&'static str),
    /// The text is not a URL.
    NotUrl(ParseError),
    /// There is no browser, or no display. The error is that of the last program that was tried, if it did not start.
    NoBrowser(Option<Arc<io::Error>>),
}

impl fmt::Display for OpenError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            OpenError::Address(why) => write!(f, "the address is not opened: {why}"),
            OpenError::NotUrl(_) => f.write_str("the address is not opened: it is not a URL"),
            OpenError::NoBrowser(_) => f.write_str("no browser could be started"),
        }
    }
}

impl std::error::Error for OpenError {
    fn source(&self) -> Option<&(dyn std::error::Error + 'static)> {
        match self {
            OpenError::Address(_) => None,
            OpenError::NotUrl(error) => Some(error),
            OpenError::NoBrowser(error) => error.as_deref().map(|error| error as _),
        }
    }
}

/// Checks and encodes a URL for a browser: `http` or `https`, with a host, without a user, and with all
/// shell characters percent-encoded.
///
/// ```
/// use wharf_auth::client::browser::checked_url;
///
/// let url = checked_url("https://as.example/authorize?scope=a b&x=$(id)").unwrap();
/// assert_eq!(url, "https://as.example/authorize?scope=a%20b&x=%24%28id%29");
/// assert!(checked_url("javascript:alert(1)").is_err());
/// assert!(checked_url("--version").is_err());
/// ```
///
/// # Errors
/// If the URL is anything else.
pub fn checked_url(address: &str) -> Result<String, OpenError> {
    if address.len() > MAX_URL_BYTES {
        return Err(OpenError::Address("it is too long"));
    }
    if address.chars().any(char::is_control) {
        return Err(OpenError::Address("it has control characters"));
    }
    let url = Url::parse(address).map_err(OpenError::NotUrl)?;
    if !matches!(url.scheme(), "http" | "https") {
        return Err(OpenError::Address("only http and https are opened"));
    }
    let Some(host) = url.host_str().filter(|host| !host.is_empty()) else {
        return Err(OpenError::Address("it names no host"));
    };
    if !url.username().is_empty() || url.password().is_some() {
        return Err(OpenError::Address("it contains a user name, which can disguise the host"));
    }
    let plain = |byte: u8| byte.is_ascii_alphanumeric() || b"-._:[]".contains(&byte);
    if !host.bytes().all(plain) {
        return Err(OpenError::Address("its host contains invalid characters"));
    }
    let port = url.port().map(|port| format!(":{port}")).unwrap_or_default();
    let rest = &url[url::Position::BeforePath..];
    Ok(format!("{}://{host}{port}{}", url.scheme(), percent_encoded(rest)))
}

/// Percent-encodes all shell characters.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        match byte {
            byte if SHELL_CHARACTERS.contains(&byte) || !byte.is_ascii_graphic() => {
                out.push_str(&format!("%{byte:02X}"));
            }
            byte => out.push(char::from(byte)),
        }
    }
    out
}

/// Opens `address` in the user's browser: `$BROWSER`, or the system's default.
///
/// # Errors
/// If the URL is not allowed, or there is no browser or display. Blocks for up to two seconds, so call it
/// in a thread of its own.
pub fn open(address: &str) -> Result<(), OpenError> {
    let started = start(address)?;
    if started.check_running() { Ok(()) } else { Err(OpenError::NoBrowser(None)) }
}

/// Starts a browser with `address`.
pub(super) fn start(address: &str) -> Result<BrowserProcess, OpenError> {
    let address = checked_url(address)?;
    start_first(&programs(&|name| env::var_os(name)), &address)
}

/// Starts the first of the programs that can be started.
fn start_first(programs: &[BrowserProgram], address: &str) -> Result<BrowserProcess, OpenError> {
    let mut last = None;
    for program in programs {
        match spawn(program, address) {
            Ok(started) => return Ok(started),
            Err(error) => last = Some(Arc::new(error)),
        }
    }
    Err(OpenError::NoBrowser(last))
}

/// A started browser, or a program that opens one.
pub(super) struct BrowserProcess(Child);

impl BrowserProcess {
    /// Returns true unless the program fails within two seconds.
    pub(super) fn check_running(mut self) -> bool {
        let deadline = Instant::now() + FAILURE_WINDOW;
        while Instant::now() < deadline {
            match self.0.try_wait() {
                Ok(Some(status)) => return status.success(),
                Ok(None) => thread::sleep(Duration::from_millis(20)),
                Err(_) => break,
            }
        }
        // The child must be waited for, to avoid a zombie process.
        let waiting = thread::Builder::new().name("browser".into());
        let _ = waiting.spawn(move || self.0.wait());
        true
    }
}

/// A program and its argument before the URL.
#[derive(Debug, PartialEq, Eq)]
struct BrowserProgram {
    name: OsString,
    first: Option<&'static str>,
}

/// Programs to try, in order; none without a display.
fn programs(variable: &dyn Fn(&str) -> Option<OsString>) -> Vec<BrowserProgram> {
    let set = |name: &str| variable(name).is_some_and(|value| !value.is_empty());
    let plain = |name: OsString| BrowserProgram { name, first: None };
    if let Some(browser) = variable("BROWSER").filter(|value| !value.is_empty()) {
        return split_browser_list(&browser).into_iter().map(plain).collect();
    }
    if cfg!(windows) {
        // `start` would need cmd, which parses the URL again; this does not.
        let name = OsString::from("rundll32.exe");
        return vec![BrowserProgram { name, first: Some("url.dll,FileProtocolHandler") }];
    }
    // A remote (SSH) user does not see this display.
    let is_remote = set("SSH_CONNECTION") || set("SSH_TTY");
    if cfg!(target_os = "macos") {
        return if is_remote { Vec::new() } else { vec![plain("open".into())] };
    }
    let screen = set("DISPLAY") || set("WAYLAND_DISPLAY");
    if screen { vec![plain("xdg-open".into())] } else { Vec::new() }
}

/// Splits `$BROWSER` at colons. Options and `%s` are not supported, because they would need a shell.
fn split_browser_list(browser: &OsString) -> Vec<OsString> {
    match browser.to_str() {
        Some(names) if !cfg!(windows) => {
            names.split(':').filter(|name| !name.is_empty()).map(OsString::from).collect()
        }
        _ => vec![browser.clone()],
    }
}

fn spawn(program: &BrowserProgram, address: &str) -> io::Result<BrowserProcess> {
    let mut command = Command::new(&program.name);
    command.args(program.first).arg(address);
    command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null());
    command.spawn().map(BrowserProcess)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_web_addresses_are_opened() {
        for address in [
            "javascript:alert(1)",
            "JaVaScRiPt:alert(1)",
            "file:///etc/passwd",
            "data:text/html,x",
            "ssh://a.b",
            "ms-settings:x",
            "-x://a",
            "--new-window",
            "",
            "https://",
            "http:///",
            "https://user@a.b/",
            "https://good.example:pw@evil.example/",
            "https://a.b/\nhttps://c.d/",
            "https://a.b/\u{0}",
            "https://$(id)/",
            "https://a`id`/",
            "https://a;id/",
            "calc.exe",
            "/usr/bin/id",
            "C:\\Windows\\calc.exe",
            "\\\\host\\share",
        ] {
            assert!(
                matches!(checked_url(address), Err(OpenError::Address(_) | OpenError::NotUrl(_))),
                "{address}"
            );
        }
        let long = format!("https://a.b/{}", "x".repeat(MAX_URL_BYTES));
        assert!(checked_url(&long).is_err());
    }

    #[test]
    fn the_error_of_a_program_that_does_not_start_is_the_source() {
        use std::error::Error as _;
        let absent = BrowserProgram { name: "/nonexistent/browser".into(), first: None };
        let error = start_first(&[absent], "https://a.b/").err().unwrap();
        let source = error.source().and_then(|source| source.downcast_ref::<io::Error>()).unwrap();
        assert_eq!(source.kind(), io::ErrorKind::NotFound);
        let error = checked_url("calc.exe").unwrap_err();
        assert!(error.source().is_some_and(|source| source.is::<ParseError>()));
    }

    #[test]
    fn shell_characters_are_percent_encoded() {
        for (given, opened) in [
            ("https://a.b", "https://a.b/"),
            (" https://a.b/c ", "https://a.b/c"),
            ("https://a.b/x?y=1&z=%20#f", "https://a.b/x?y=1&z=%20#f"),
            ("https://a.b/$(id)`id`;id|id", "https://a.b/%24%28id%29%60id%60%3Bid%7Cid"),
            ("https://a.b/?q='\"\\ <x>", "https://a.b/?q=%27%22%5C%20%3Cx%3E"),
            ("https://a.b/?q={a,b}[1]*!^~", "https://a.b/?q=%7Ba,b%7D%5B1%5D%2A%21%5E%7E"),
            ("http://[::1]:8080/x", "http://[::1]:8080/x"),
            ("https://exаmple.com/ü", "https://xn--exmple-4nf.com/%C3%BC"),
        ] {
            assert_eq!(checked_url(given).unwrap(), opened);
        }
    }

    fn tried(variables: &[(&str, &str)]) -> Vec<String> {
        let get = |name: &str| {
            let found = variables.iter().find(|(known, _)| *known == name);
            found.map(|(_, value)| OsString::from(value))
        };
        programs(&get).into_iter().map(|it| it.name.to_string_lossy().into_owned()).collect()
    }

    #[test]
    fn the_browser_of_the_environment_goes_first() {
        assert_eq!(
            tried(&[("BROWSER", "/opt/my browser"), ("DISPLAY", ":0")]),
            ["/opt/my browser"]
        );
    }

    #[cfg(all(unix, not(target_os = "macos")))]
    #[test]
    fn without_a_screen_nothing_is_started() {
        assert_eq!(tried(&[]), <[&str; 0]>::default());
        assert_eq!(tried(&[("DISPLAY", ""), ("BROWSER", "")]), <[&str; 0]>::default());
        assert_eq!(tried(&[("DISPLAY", ":0")]), ["xdg-open"]);
        assert_eq!(tried(&[("WAYLAND_DISPLAY", "w")]), ["xdg-open"]);
        assert_eq!(tried(&[("BROWSER", "a::b")]), ["a", "b"]);
    }

    #[cfg(unix)]
    #[test]
    fn a_program_that_fails_at_once_is_no_browser() {
        let program = |name: &str| BrowserProgram { name: name.into(), first: None };
        let check_running =
            |name: &str| spawn(&program(name), "https://a.b/").map(BrowserProcess::check_running);
        assert!(check_running("true").unwrap());
        assert!(!check_running("false").unwrap());
        assert!(check_running("/no/such/program").is_err());
    }
}
