//! Lines over Unix sockets.

use std::{
    fs, io,
    os::unix::fs::{FileTypeExt, PermissionsExt},
    path::{Path, PathBuf},
    sync::Arc,
};

use tokio::net::{UnixListener, UnixStream};
use wharf_model::Scope;

use crate::{
    Host, Shutdown,
    sockets::{self, Accept},
};

pub use crate::sockets::CONNECTIONS;

/// A listening Unix socket; dropping it removes its file.
#[derive(Debug)]
pub struct Socket {
    listener: UnixListener,
    path: PathBuf,
}

/// Listens at `path`, for this user's programs only. A socket that a dead server left behind there
/// is replaced; anything else is not.
pub async fn bind(path: impl AsRef<Path>) -> io::Result<Socket> {
    let path = path.as_ref().to_owned();
    let is_socket = fs::symlink_metadata(&path).is_ok_and(|it| it.file_type().is_socket());
    if is_socket && UnixStream::connect(&path).await.is_err() {
        fs::remove_file(&path)?;
    }
    let socket = Socket { listener: UnixListener::bind(&path)?, path };
    fs::set_permissions(&socket.path, fs::Permissions::from_mode(0o600))?;
    Ok(socket)
}

/// Serves every client that comes, at most `connections` at a time, until `shutdown` stops.
pub async fn serve(host: Arc<Host>, socket: Socket, connections: usize, shutdown: Shutdown) {
    sockets::serve(host, socket, connections, shutdown).await;
}

impl Accept for Socket {
    type Stream = UnixStream;

    async fn accept(&self) -> io::Result<(UnixStream, Scope)> {
        let (stream, _) = self.listener.accept().await?;
        Ok((stream, Scope::new()))
    }
}

impl Drop for Socket {
    fn drop(&mut self) {
        let _ = fs::remove_file(&self.path);
    }
}
