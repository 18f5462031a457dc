//! TCP proxy in front of Redis that cuts connections.

use std::sync::{
    Arc,
    atomic::{AtomicI64, Ordering},
};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    task::AbortHandle,
};

/// Forwards bytes to a Redis until its byte budget is used up, also in the middle of a message.
pub struct CuttingProxy {
    pub port: u16,
    /// Bytes left until all connections are cut.
    budget: Arc<AtomicI64>,
    accepting: AbortHandle,
}

impl CuttingProxy {
    pub async fn start(to: u16) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let port = listener.local_addr().unwrap().port();
        let budget = Arc::new(AtomicI64::new(i64::MAX));
        let left = budget.clone();
        let accepting = tokio::spawn(async move {
            loop {
                let (near, _) = listener.accept().await.unwrap();
                let Ok(far) = TcpStream::connect(("127.0.0.1", to)).await else { continue };
                let (near, far) = (near.into_split(), far.into_split());
                let left = left.clone();
                tokio::spawn(async move {
                    tokio::select! {
                        () = pass(near.0, far.1, &left) => {}
                        () = pass(far.0, near.1, &left) => {}
                    }
                });
            }
        });
        CuttingProxy { port, budget, accepting: accepting.abort_handle() }
    }

    pub fn url(&self, prefix: &str) -> String {
        format!("redis://127.0.0.1:{}/0?prefix={prefix}", self.port)
    }

    /// Cuts the connections after this many more bytes.
    pub fn cut_after(&self, bytes: i64) {
        self.budget.store(bytes, Ordering::SeqCst);
    }

    /// Returns whether the connections were cut.
    pub fn is_cut(&self) -> bool {
        self.budget.load(Ordering::SeqCst) <= 0
    }

    /// Forwards everything again.
    pub fn restore(&self) {
        self.cut_after(i64::MAX);
    }
}

impl Drop for CuttingProxy {
    fn drop(&mut self) {
        self.accepting.abort();
    }
}

async fn pass(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, budget: &AtomicI64) {
    let mut buffer = vec![0; 16 * 1024];
    loop {
        let Ok(read @ 1..) = from.read(&mut buffer).await else { return };
        let left = budget.fetch_sub(i64::try_from(read).unwrap(), Ordering::SeqCst);
        let passed = read.min(usize::try_from(left).unwrap_or(0));
        let sent = to.write_all(&buffer[..passed]).await;
        if sent.is_err() || passed < read {
            return;
        }
    }
}
