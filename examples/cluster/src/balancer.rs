//! A plain balancer: each connection goes to the next node that is there. It knows no MCP, and nobody's session.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

pub(crate) async fn run(listener: TcpListener, mut nodes: Vec<SocketAddr>) {
    while let Ok((client, _)) = listener.accept().await {
        nodes.rotate_left(1);
        tokio::spawn(carry(client, nodes.clone()));
    }
}

async fn carry(mut client: TcpStream, nodes: Vec<SocketAddr>) {
    for node in nodes {
        if let Ok(mut node) = TcpStream::connect(node).await {
            let _ = copy_bidirectional(&mut client, &mut node).await;
            return;
        }
    }
}
