//! The server of the benchmarks without a framework: what parsing and answering cost at least with
//! serde_json, over hyper and over a blocking loop.
#![forbid(unsafe_code)]

mod answer;
mod http;
mod messages;
mod sessions;
mod stdio;

use std::error::Error;

use answer::Answers;
use bench::command_line::Serve;

type Fallible<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible {
    let serve = Serve::from_command_line()?;
    let answers = Answers::new(serve.tools())?;
    match serve {
        Serve::Stdio { .. } => stdio::serve(&answers),
        Serve::Http { address, .. } => http::serve(address, answers),
    }
}
