//! A TCP proxy: a load balancer, or a connection that can be cut.

use std::{
    io,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::Duration,
};

use tokio::{
    io::{AsyncRead, AsyncReadExt, AsyncWrite, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::watch,
    time::{sleep, timeout},
};

/// State of the connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum WireState {
    /// Data is forwarded.
    Whole,
    /// The first half of the next data is forwarded; then the connection ends. New connections are
    /// closed.
    Cut,
    /// Nothing is forwarded, without an error.
    Silent,
}

/// Accepts connections and forwards them to the backends in turn.
#[derive(Clone)]
pub struct Proxy {
    address: SocketAddr,
    shared: Arc<ProxyState>,
}

struct ProxyState {
    backends: Mutex<Vec<SocketAddr>>,
    turn: AtomicUsize,
    wire: watch::Sender<WireState>,
}

impl Proxy {
    /// Starts a proxy at its own port.
    ///
    /// # Errors
    /// If there is no port.
    pub async fn start(backends: Vec<SocketAddr>) -> io::Result<Proxy> {
        let listener = TcpListener::bind(("127.0.0.1", 0)).await?;
        let address = listener.local_addr()?;
        let shared = Arc::new(ProxyState {
            backends: Mutex::new(backends),
            turn: AtomicUsize::new(0),
            wire: watch::Sender::new(WireState::Whole),
        });
        let proxy = Proxy { address, shared: shared.clone() };
        tokio::spawn(async move {
            while let Ok((client, _)) = listener.accept().await {
                tokio::spawn(shared.clone().carry(client));
            }
        });
        Ok(proxy)
    }

    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Replaces a backend that restarted at another port.
    pub fn replace(&self, index: usize, backend: SocketAddr) {
        if let Some(place) = self.shared.backends().get_mut(index) {
            *place = backend;
        }
    }

    pub fn set(&self, wire: WireState) {
        self.shared.wire.send_replace(wire);
    }
}

impl ProxyState {
    fn backends(&self) -> std::sync::MutexGuard<'_, Vec<SocketAddr>> {
        self.backends.lock().unwrap_or_else(PoisonError::into_inner)
    }

    async fn carry(self: Arc<Self>, client: TcpStream) {
        if *self.wire.borrow() == WireState::Cut {
            return;
        }
        let Some(server) = self.connect().await else { return };
        let _ = (client.set_nodelay(true), server.set_nodelay(true));
        let (from_client, to_client) = client.into_split();
        let (from_server, to_server) = server.into_split();
        let up = self.pump(from_client, to_server);
        let down = self.pump(from_server, to_client);
        // Each direction ends when its side is done; a failure ends both.
        let _ = tokio::try_join!(up, down);
    }

    /// Connects to the next backend that accepts.
    async fn connect(&self) -> Option<TcpStream> {
        for _ in 0..40 {
            let backend = {
                let backends = self.backends();
                let turn = self.turn.fetch_add(1, Ordering::Relaxed);
                *backends.get(turn % backends.len())?
            };
            if let Ok(Ok(stream)) =
                timeout(Duration::from_millis(500), TcpStream::connect(backend)).await
            {
                return Some(stream);
            }
            sleep(Duration::from_millis(25)).await;
        }
        None
    }

    async fn pump(
        &self,
        mut from: impl AsyncRead + Unpin,
        mut to: impl AsyncWrite + Unpin,
    ) -> io::Result<()> {
        let mut buffer = vec![0; 16 * 1024];
        let mut wire = self.wire.subscribe();
        loop {
            let read = from.read(&mut buffer).await?;
            if read == 0 {
                return to.shutdown().await;
            }
            let gone = |_| io::Error::from(io::ErrorKind::BrokenPipe);
            let wire = *wire.wait_for(|wire| *wire != WireState::Silent).await.map_err(gone)?;
            if wire == WireState::Cut {
                to.write_all(&buffer[..read / 2]).await?;
                return Err(io::ErrorKind::ConnectionReset.into());
            }
            to.write_all(&buffer[..read]).await?;
        }
    }
}
