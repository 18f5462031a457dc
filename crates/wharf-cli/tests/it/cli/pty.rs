//! Pseudo-terminal with simulated input.

use std::{
    fs::File,
    io::{Read, Write},
    process::{Child, Command, Stdio},
    sync::mpsc::{Receiver, RecvTimeoutError, channel},
    thread,
    time::{Duration, Instant},
};

use rustix::{
    process::{Pid, Signal, kill_process},
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};

use crate::cli::sandbox::PATIENCE;

/// Program at a pseudo-terminal.
pub(crate) struct Pty {
    child: KillOnDrop,
    keyboard: File,
    output: Receiver<Vec<u8>>,
    /// All output so far.
    pub(crate) shown: String,
    /// Length of the output that earlier waits have matched.
    seen: usize,
}

impl Pty {
    /// Starts `command` with its stdin, stdout and stderr at a terminal of 80 columns.
    pub(crate) fn start(mut command: Command) -> Self {
        let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).expect("a terminal");
        grantpt(&master).expect("it is ours");
        unlockpt(&master).expect("it is open");
        let size = Winsize { ws_row: 24, ws_col: 80, ws_xpixel: 0, ws_ypixel: 0 };
        tcsetwinsize(&master, size).expect("it has a size");
        let name = ptsname(&master, Vec::new()).expect("it has a name");
        let open = || {
            let name = name.to_str().expect("a path");
            Stdio::from(File::options().read(true).write(true).open(name).expect("it opens"))
        };
        let child = command.stdin(open()).stdout(open()).stderr(open()).spawn().expect("it runs");
        // The terminal closes once no other handle is open.
        drop(command);
        let keyboard = File::from(master);
        let mut screen = keyboard.try_clone().expect("it can be shared");
        let (send, output) = channel();
        thread::spawn(move || {
            let mut chunk = [0; 4096];
            while let Ok(count @ 1..) = screen.read(&mut chunk) {
                if send.send(chunk[..count].to_vec()).is_err() {
                    return;
                }
            }
        });
        Pty { child: KillOnDrop(child), keyboard, output, shown: String::new(), seen: 0 }
    }

    /// Waits until `text` appears in the output, after the text of the last wait.
    pub(crate) fn until(&mut self, text: &str) -> &mut Self {
        let deadline = Instant::now() + PATIENCE;
        loop {
            if let Some(at) = self.shown[self.seen..].find(text) {
                self.seen += at + text.len();
                return self;
            }
            let left = deadline.saturating_duration_since(Instant::now());
            match self.output.recv_timeout(left) {
                Ok(chunk) => self.shown.push_str(&String::from_utf8_lossy(&chunk)),
                Err(why) => panic!("{text:?} is not shown ({why}), but:\n{}", self.shown),
            }
        }
    }

    /// Types a line.
    pub(crate) fn type_line(&mut self, line: &str) -> &mut Self {
        self.type_keys(&format!("{line}\n"))
    }

    /// Presses keys.
    pub(crate) fn type_keys(&mut self, keys: &str) -> &mut Self {
        self.keyboard.write_all(keys.as_bytes()).expect("the terminal takes it");
        self
    }

    /// Sends Ctrl-C, as the terminal would.
    pub(crate) fn interrupt(&mut self) -> &mut Self {
        interrupt(&self.child.0);
        self
    }

    /// Waits for the end; returns the exit code and all output.
    pub(crate) fn end(mut self) -> (i32, String) {
        let deadline = Instant::now() + PATIENCE;
        let code = loop {
            if let Some(status) = self.child.0.try_wait().expect("it ends") {
                break status.code().expect("it was not killed");
            }
            assert!(Instant::now() < deadline, "it does not end, and showed:\n{}", self.shown);
            match self.output.recv_timeout(Duration::from_millis(20)) {
                Ok(chunk) => self.shown.push_str(&String::from_utf8_lossy(&chunk)),
                Err(RecvTimeoutError::Timeout) => {}
                Err(RecvTimeoutError::Disconnected) => thread::sleep(Duration::from_millis(20)),
            }
        };
        while let Ok(chunk) = self.output.recv_timeout(Duration::from_millis(200)) {
            self.shown.push_str(&String::from_utf8_lossy(&chunk));
        }
        (code, self.shown.replace("\r\n", "\n"))
    }
}

/// Child process, killed on drop.
struct KillOnDrop(Child);

impl Drop for KillOnDrop {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Sends what Ctrl-C sends.
pub(crate) fn interrupt(child: &Child) {
    send(child, Signal::INT);
}

/// Sends a signal.
pub(crate) fn send(child: &Child, signal: Signal) {
    let id = i32::try_from(child.id()).ok().and_then(Pid::from_raw).expect("it runs");
    kill_process(id, signal).expect("it takes signals");
}
