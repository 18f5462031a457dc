//! Dump of everything that a store received.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    thread::JoinHandle,
    time::Duration,
};

/// Records every command that Redis receives, including published messages.
pub struct Monitor {
    stream: TcpStream,
    heard: JoinHandle<Vec<u8>>,
}

impl Monitor {
    pub fn start(port: u16) -> Self {
        let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.write_all(b"MONITOR\r\n").unwrap();
        stream.read_exact(&mut [0; 5]).unwrap();
        let mut reading = stream.try_clone().unwrap();
        let heard = std::thread::spawn(move || {
            let mut heard = Vec::new();
            // The test cuts this connection at the end.
            let _ = reading.read_to_end(&mut heard);
            heard
        });
        Monitor { stream, heard }
    }

    pub fn stop(self) -> Vec<u8> {
        // Data that Redis has already sent is still received.
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.heard.join().unwrap()
    }
}

/// Everything that Redis ever stored: its append-only file records every change.
pub fn everything(port: u16) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"CONFIG GET dir\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let directory = answer.lines().find(|line| line.starts_with('/')).unwrap();
    all_files(Path::new(directory))
}

/// Contents of all files in a directory.
pub fn all_files(directory: &Path) -> Vec<u8> {
    let mut all = Vec::new();
    for entry in fs::read_dir(directory).unwrap() {
        let path = entry.unwrap().path();
        all.extend(if path.is_dir() { all_files(&path) } else { fs::read(&path).unwrap() });
    }
    all
}

pub fn is_in(bytes: &[u8], text: &str) -> bool {
    bytes.windows(text.len()).any(|window| window == text.as_bytes())
}
