//! One message in, its reply out: for serverless functions and transports of your own.
//!
//! No runtime is needed but the caller's; here it is the smallest there is.
use std::{
    future::Future,
    io,
    pin::pin,
    sync::Arc,
    task::{Context, Poll, Wake},
    thread::{self, Thread},
};

use wharf::{Scope, prelude::*};

/// Who the outer layer says is calling.
#[derive(Clone)]
struct Caller(String);

/// Greets whoever is calling.
#[tool]
async fn greet(Extension(Caller(name)): Extension<Caller>) -> String {
    format!("Hello, {name}!")
}

fn main() -> wharf::Result<()> {
    let server = Server::new("greeter", "1.0.0").tool::<greet>().build()?;
    for line in io::stdin().lines() {
        let mut scope = Scope::new();
        scope.insert(Caller("embedder".to_owned()));
        let reply = block_on(server.handle(line?, scope));
        if let Some(reply) = reply {
            println!("{}", String::from_utf8_lossy(&reply));
        }
    }
    Ok(())
}

/// The smallest runtime: a thread that sleeps until its future can go on.
fn block_on<T>(future: impl Future<Output = T>) -> T {
    struct Unpark(Thread);
    impl Wake for Unpark {
        fn wake(self: Arc<Self>) {
            self.0.unpark();
        }
    }
    let waker = Arc::new(Unpark(thread::current())).into();
    let mut future = pin!(future);
    loop {
        match future.as_mut().poll(&mut Context::from_waker(&waker)) {
            Poll::Ready(value) => return value,
            Poll::Pending => thread::park(),
        }
    }
}
