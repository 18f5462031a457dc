//! JSON lines over Unix sockets.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::net::{UnixListener, UnixSocket, UnixStream};
use wharf_model::{ObservedTransport, RequestExtensions};

use crate::{
    ServerContext, Shutdown,
    server::{
        limits::write_timeout::limit_send_buffer,
        listener,
        listener::{SocketListener, with_subject},
    },
};

pub use crate::server::listener::CONNECTIONS;

/// Maximum number of connections that wait to be accepted.
const BACKLOG: u32 = 1024;

/// A listening Unix socket; dropping it removes its file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// Listens at `path`, for programs of this user only. Replaces the socket of a server that has
/// exited; any other file is an error.
pub async fn bind(path: impl AsRef<Path>) -> io::Result<Socket> {
    let path = path.as_ref();
    listen(path).await.map_err(with_subject(path.display()))
}

async fn listen(path: &Path) -> io::Result<Socket> {
    let is_socket = fs::symlink_metadata(path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket && is_dead(path).await {
        fs::remove_file(path)?;
    }
    let socket = UnixSocket::new_stream()?;
    socket.bind(path)?;
    // Connections are possible only after `listen`, so the permissions apply to all of them.
    fs::set_permissions(path, fs::Permissions::from_mode(0o600))?;
    Ok(Socket { listener: socket.listen(BACKLOG)?, path: path.to_owned() })
}

/// True if the server of this socket has exited. A busy server refuses with a different error.
async fn is_dead(path: &Path) -> bool {
    let refused = UnixStream::connect(path).await.err();
    refused.is_some_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Serves all connections, at most `connections` at a time (see [`CONNECTIONS`]), until `shutdown`
/// stops.
pub async fn serve(
    context: Arc<ServerContext>,
    socket: Socket,
    connections: usize,
    shutdown: Shutdown,
) {
    let listener = (socket, ObservedTransport::Unix);
    listener::serve(context, listener, connections, shutdown).await;
}

impl SocketListener for Socket {
    type Stream = UnixStream;

    fn address(&self) -> String {
        self.path.display().to_string()
    }

    async fn accept(&self) -> io::Result<(UnixStream, RequestExtensions)> {
        let (stream, _) = self.listener.accept().await?;
        limit_send_buffer(&stream);
        let mut scope = RequestExtensions::new();
        scope.insert(ObservedTransport::Unix);
        Ok((stream, scope))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
