//! Blocking loop over lines, which flushes its output when the input is drained.

use std::io::{self, BufRead, BufReader, BufWriter, Write};
use std::thread;

use bench::work::WAIT;

use crate::Fallible;
use crate::answer::{Answer, Responder};

const BUFFER: usize = 64 * 1024;
const UNREADABLE: &[u8] =
    br#"{"jsonrpc":"2.0","id":null,"error":{"code":-32700,"message":"unreadable"}}"#;

pub(crate) fn serve(responder: &Responder) -> Fallible {
    let mut input = BufReader::with_capacity(BUFFER, io::stdin().lock());
    // Stdout by itself would flush at every newline.
    let mut output = BufWriter::with_capacity(BUFFER, io::stdout().lock());
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line)? > 0 {
        write(&mut output, responder.answer(&line))?;
        line.clear();
        if input.buffer().is_empty() {
            output.flush()?;
        }
    }
    output.flush()?;
    Ok(())
}

fn write(output: &mut impl Write, answer: Answer) -> io::Result<()> {
    let reply = match answer {
        Answer::Accepted => return Ok(()),
        Answer::Reply(reply) | Answer::SessionStart(reply) => reply,
        Answer::Progress(progress, reply) => {
            for notification in progress.notifications() {
                output.write_all(notification.as_bytes())?;
                output.write_all(b"\n")?;
            }
            reply
        }
        Answer::Waiting(reply) => {
            thread::sleep(2 * WAIT);
            reply
        }
        Answer::Invalid => UNREADABLE.to_vec(),
    };
    output.write_all(&reply)?;
    output.write_all(b"\n")
}
