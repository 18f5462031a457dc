//! Open connection, with or without TLS.

use std::{
    fmt, io,
    pin::Pin,
    task::{Context, Poll},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
};

/// Connection to a host, with or without TLS, direct or through a proxy.
///
/// ```no_run
/// # async fn example() -> Result<(), Box<dyn std::error::Error>> {
/// use tokio::io::AsyncWriteExt;
/// use wharf_connect::{HostConnector, Origin};
///
/// let mut stream = HostConnector::new().connect(&Origin::parse("http://127.0.0.1:8000")?).await?;
/// stream.write_all(b"GET / HTTP/1.0\r\n\r\n").await?;
/// # Ok(())
/// # }
/// ```
pub struct HostStream {
    layer: StreamLayer,
    is_forwarded: bool,
}

/// Outermost layer of a connection. TLS through an `https` proxy is TLS within TLS.
pub(crate) enum StreamLayer {
    Plain(TcpStream),
    #[cfg(feature = "tls")]
    Encrypted(Box<tokio_rustls::client::TlsStream<StreamLayer>>),
}

impl HostStream {
    pub(crate) fn new(layer: StreamLayer, is_forwarded: bool) -> HostStream {
        HostStream { layer, is_forwarded }
    }

    /// Returns whether a proxy forwards the requests of this connection, which therefore need the absolute form
    /// of their URL (RFC 9112, section 3.2.2).
    pub fn is_forwarded(&self) -> bool {
        self.is_forwarded
    }

    /// Returns whether HTTP/2 was negotiated (ALPN).
    pub fn is_http2(&self) -> bool {
        match &self.layer {
            StreamLayer::Plain(_) => false,
            #[cfg(feature = "tls")]
            StreamLayer::Encrypted(stream) => stream.get_ref().1.alpn_protocol() == Some(b"h2"),
        }
    }
}

impl fmt::Debug for HostStream {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("HostStream")
            .field("is_forwarded", &self.is_forwarded)
            .finish_non_exhaustive()
    }
}

#[cfg(feature = "hyper")]
impl hyper_util::client::legacy::connect::Connection for HostStream {
    fn connected(&self) -> hyper_util::client::legacy::connect::Connected {
        let connected =
            hyper_util::client::legacy::connect::Connected::new().proxy(self.is_forwarded);
        if self.is_http2() { connected.negotiated_h2() } else { connected }
    }
}

/// Runs the same code on either layer.
macro_rules! each {
    ($layer:expr, $it:ident => $do:expr) => {
        match $layer {
            StreamLayer::Plain($it) => $do,
            #[cfg(feature = "tls")]
            StreamLayer::Encrypted($it) => $do,
        }
    };
}

/// Implements reading and writing by the stream that the expression selects.
macro_rules! delegate_io {
    ($name:ty, $this:ident => $each:expr) => {
        impl AsyncRead for $name {
            fn poll_read(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                buffer: &mut ReadBuf<'_>,
            ) -> Poll<io::Result<()>> {
                let $this = &mut *self;
                each!($each, it => Pin::new(it).poll_read(cx, buffer))
            }
        }

        impl AsyncWrite for $name {
            fn poll_write(
                mut self: Pin<&mut Self>,
                cx: &mut Context<'_>,
                bytes: &[u8],
            ) -> Poll<io::Result<usize>> {
                let $this = &mut *self;
                each!($each, it => Pin::new(it).poll_write(cx, bytes))
            }

            fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &mut *self;
                each!($each, it => Pin::new(it).poll_flush(cx))
            }

            fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
                let $this = &mut *self;
                each!($each, it => Pin::new(it).poll_shutdown(cx))
            }
        }
    };
}

delegate_io!(StreamLayer, this => this);
delegate_io!(HostStream, this => &mut this.layer);
