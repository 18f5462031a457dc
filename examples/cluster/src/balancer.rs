//! Round-robin TCP load balancer: it forwards each connection to the next reachable node, without session affinity.

use std::net::SocketAddr;

use tokio::io::copy_bidirectional;
use tokio::net::{TcpListener, TcpStream};

pub(crate) async fn run(listener: TcpListener, mut nodes: Vec<SocketAddr>) {
    while let Ok((client, _)) = listener.accept().await {
        nodes.rotate_left(1);
        tokio::spawn(forward(client, nodes.clone()));
    }
}

async fn forward(mut client: TcpStream, nodes: Vec<SocketAddr>) {
    for node in nodes {
        if let Ok(mut node) = TcpStream::connect(node).await {
            let _ = copy_bidirectional(&mut client, &mut node).await;
            return;
        }
    }
}
