//! Benchmark server without a framework: the minimum cost with serde_json, over hyper and over a blocking
//! stdio loop.
#![forbid(unsafe_code)]

mod answer;
mod http;
mod messages;
mod sessions;
mod stdio;

use std::error::Error;

use answer::Responder;
use bench::command_line::Serve;

type Fallible<T = ()> = Result<T, Box<dyn Error + Send + Sync>>;

fn main() -> Fallible {
    let serve = Serve::from_command_line()?;
    let responder = Responder::new(serve.tools())?;
    match serve {
        Serve::Stdio { .. } => stdio::serve(&responder),
        Serve::Http { address, .. } => http::serve(address, responder),
    }
}
