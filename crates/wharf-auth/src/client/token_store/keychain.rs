//! Key in the system's keychain, accessed with the system's own program. The key is passed by stdin and
//! stdout only, because other users can read command lines.

use std::{
    ffi::OsString,
    fmt,
    io::{Read as _, Write as _},
    path::Path,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
    time::{Duration, Instant},
};

use base64::{Engine as _, engine::general_purpose::URL_SAFE_NO_PAD};
use ring::digest;

/// The user may have to unlock the keychain first.
const COMMAND_TIMEOUT: Duration = Duration::from_mins(1);

/// Service name of the entry.
const SERVICE: &str = "wharf";

/// Label of the entry, for display.
const LABEL: &str = "Wharf logins";

/// Exit code of `security` for a missing entry.
const NOT_FOUND: i32 = 44;

/// Key of the token file. Omitted from `Debug`.
#[derive(Clone, PartialEq, Eq)]
pub(crate) struct EncryptionKey(pub(crate) [u8; 32]);

impl fmt::Debug for EncryptionKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("EncryptionKey(***)")
    }
}

/// The system's keychain: the Secret Service by `secret-tool`, or the macOS keychain by `security`.
///
/// It stores one key, which encrypts the token file. Keychains limit the size of an entry, and logins are
/// larger.
#[derive(Clone, Debug)]
pub struct Keychain {
    kind: KeychainKind,
    program: OsString,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum KeychainKind {
    SecretTool,
    Security,
}

/// Error of a keychain.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct KeychainError(pub(crate) String);

impl Keychain {
    /// The system's keychain, if it is supported. Errors appear on first use.
    #[must_use]
    pub fn of_system() -> Option<Self> {
        if cfg!(target_os = "macos") {
            Some(Self::security("/usr/bin/security"))
        } else if cfg!(unix) {
            Some(Self::secret_tool("secret-tool"))
        } else {
            None
        }
    }

    /// The Secret Service, accessed with this program: `secret-tool` of libsecret.
    #[must_use]
    pub fn secret_tool(program: impl Into<OsString>) -> Self {
        Keychain { kind: KeychainKind::SecretTool, program: program.into() }
    }

    /// The macOS keychain, accessed with this program: `security`.
    #[must_use]
    pub fn security(program: impl Into<OsString>) -> Self {
        Keychain { kind: KeychainKind::Security, program: program.into() }
    }

    /// Reads the key for `file`, if there is one.
    pub(crate) fn get(&self, file: &Path) -> Result<Option<EncryptionKey>, KeychainError> {
        let account = account(file);
        let output = match self.kind {
            KeychainKind::SecretTool => {
                self.run(&["lookup", "service", SERVICE, "account", &account], "")?
            }
            KeychainKind::Security => {
                self.run(&["find-generic-password", "-s", SERVICE, "-a", &account, "-w"], "")?
            }
        };
        let missing = match self.kind {
            KeychainKind::SecretTool => output.status.code() == Some(1) && output.err.is_empty(),
            KeychainKind::Security => output.status.code() == Some(NOT_FOUND),
        };
        if missing {
            return Ok(None);
        }
        let text = output.into_stdout()?;
        let bytes = URL_SAFE_NO_PAD.decode(text.trim()).ok();
        let key = bytes.and_then(|bytes| bytes.try_into().ok()).map(EncryptionKey);
        key.map(Some).ok_or_else(|| KeychainError(format!("its entry {LABEL:?} contains no key")))
    }

    /// Stores the key for `file`, and reads it back.
    pub(crate) fn put(&self, file: &Path, key: &EncryptionKey) -> Result<(), KeychainError> {
        let account = account(file);
        let secret = URL_SAFE_NO_PAD.encode(key.0);
        let output = match self.kind {
            KeychainKind::SecretTool => {
                let label = format!("--label={LABEL}");
                let words = ["store", &label, "service", SERVICE, "account", &account];
                self.run(&words, &secret)?
            }
            // Interactive mode reads commands from stdin. Nothing in this command needs quotes.
            KeychainKind::Security => {
                let line = format!(
                    "add-generic-password -U -s {SERVICE} -a {account} -l \"{LABEL}\" -w {secret}\n"
                );
                self.run(&["-i"], &line)?
            }
        };
        output.into_stdout()?;
        match self.get(file)? {
            Some(kept) if kept == *key => Ok(()),
            _ => Err(KeychainError("it does not store the key".to_owned())),
        }
    }

    /// Removes the key for `file`.
    pub(crate) fn remove(&self, file: &Path) -> Result<(), KeychainError> {
        let account = account(file);
        match self.kind {
            KeychainKind::SecretTool => {
                self.run(&["clear", "service", SERVICE, "account", &account], "")?
            }
            KeychainKind::Security => {
                self.run(&["delete-generic-password", "-s", SERVICE, "-a", &account], "")?
            }
        };
        Ok(())
    }

    fn run(&self, words: &[&str], input: &str) -> Result<CommandOutput, KeychainError> {
        let mut command = Command::new(&self.program);
        // Messages in English.
        command.args(words).env("LC_ALL", "C");
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(Stdio::piped());
        let program = self.program.to_string_lossy();
        let mut child =
            command.spawn().map_err(|error| KeychainError(format!("{program}: {error}")))?;
        let (out, err) = (read_in_thread(child.stdout.take()), read_in_thread(child.stderr.take()));
        if let Some(mut stdin) = child.stdin.take() {
            // A program that does not read stdin reports its own error.
            let _ = stdin.write_all(input.as_bytes());
        }
        let status = wait_with_timeout(&mut child)
            .ok_or_else(|| KeychainError(format!("{program} timed out")))?;
        let text = |thread: thread::JoinHandle<String>| thread.join().unwrap_or_default();
        Ok(CommandOutput { status, out: text(out), err: text(err) })
    }
}

struct CommandOutput {
    status: ExitStatus,
    out: String,
    err: String,
}

impl CommandOutput {
    fn into_stdout(self) -> Result<String, KeychainError> {
        if self.status.success() {
            return Ok(self.out);
        }
        let said =
            self.err.trim().lines().last().unwrap_or("it failed without a message").to_owned();
        Err(KeychainError(said))
    }
}

/// Reads in a thread, so that a full pipe does not block the program.
fn read_in_thread(from: Option<impl std::io::Read + Send + 'static>) -> thread::JoinHandle<String> {
    thread::spawn(move || {
        let mut bytes = Vec::new();
        let _ = from.map(|from| from.take(64 << 10).read_to_end(&mut bytes));
        String::from_utf8_lossy(&bytes).into_owned()
    })
}

/// Waits for the exit status; kills the program after the time limit.
fn wait_with_timeout(child: &mut Child) -> Option<ExitStatus> {
    let deadline = Instant::now() + COMMAND_TIMEOUT;
    while Instant::now() < deadline {
        if let Some(status) = child.try_wait().ok()? {
            return Some(status);
        }
        thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    let _ = child.wait();
    None
}

/// Account name for the file that needs no quotes.
fn account(file: &Path) -> String {
    let digest = digest::digest(&digest::SHA256, file.as_os_str().as_encoded_bytes());
    URL_SAFE_NO_PAD.encode(&digest.as_ref()[..12]).replace('-', "_")
}
