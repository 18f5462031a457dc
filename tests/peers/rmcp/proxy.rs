//! TCP proxy that cuts its connections once.

use std::io;
use std::net::SocketAddr;

use tokio::io::{AsyncReadExt, AsyncWriteExt, copy};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;

/// Starts a proxy that cuts all connections when `server` first sends `mark`. Returns its address, and a flag that is
/// set after the cut.
pub(crate) async fn cutting_at(
    mark: &'static str,
    server: SocketAddr,
) -> io::Result<(SocketAddr, watch::Receiver<bool>)> {
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    let address = listener.local_addr()?;
    let (cut, has_cut) = watch::channel(false);
    tokio::spawn(async move {
        while let Ok((client, _)) = listener.accept().await {
            tokio::spawn(connection(client, server, mark, cut.clone()));
        }
    });
    Ok((address, has_cut))
}

/// Forwards one connection until either side closes it or it is cut.
async fn connection(
    mut client: TcpStream,
    server: SocketAddr,
    mark: &'static str,
    cut: watch::Sender<bool>,
) -> io::Result<()> {
    let mut cuts = cut.subscribe();
    let mut server = TcpStream::connect(server).await?;
    let (mut from_client, mut to_client) = client.split();
    let (mut from_server, mut to_server) = server.split();
    let replies = async {
        let mut chunk = vec![0; 1 << 16];
        loop {
            let length = from_server.read(&mut chunk).await?;
            let said = &chunk[..length];
            let at = said.windows(mark.len()).position(|window| window == mark.as_bytes());
            match at {
                _ if length == 0 => return Ok(()),
                Some(at) if !*cut.borrow() => {
                    to_client.write_all(&said[..at]).await?;
                    cut.send_replace(true);
                }
                _ => to_client.write_all(said).await?,
            }
        }
    };
    tokio::select! {
        _ = cuts.changed() => Ok(()),
        done = replies => done,
        done = copy(&mut from_client, &mut to_server) => done.map(drop),
    }
}
