//! All that a store has been given.

use std::{
    fs,
    io::{Read, Write},
    net::TcpStream,
    path::Path,
    thread::JoinHandle,
    time::Duration,
};

/// Sees every command that Redis gets, what is only said included.
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
            // Cut off by us, at the end.
            let _ = reading.read_to_end(&mut heard);
            heard
        });
        Monitor { stream, heard }
    }

    pub fn stop(self) -> Vec<u8> {
        // What Redis has sent is here first.
        self.stream.shutdown(std::net::Shutdown::Write).unwrap();
        self.heard.join().unwrap()
    }
}

/// All that Redis ever kept: it writes down every change.
pub fn everything(port: u16) -> Vec<u8> {
    let mut stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
    stream.set_read_timeout(Some(Duration::from_secs(5))).unwrap();
    stream.write_all(b"CONFIG GET dir\r\nQUIT\r\n").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    let directory = answer.lines().find(|line| line.starts_with('/')).unwrap();
    all_files(Path::new(directory))
}

/// What is in the files of a directory.
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
