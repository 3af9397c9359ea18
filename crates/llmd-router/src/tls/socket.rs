//! A socket with TLS or without, and how one becomes the other.

use super::{Dial, Port};
use std::io::{self, IoSlice};
use std::pin::Pin;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncWrite, AsyncWriteExt, ReadBuf, copy, sink};
use tokio::net::TcpStream;
use tokio_rustls::{TlsAcceptor, TlsConnector, TlsStream};

/// The first byte of a TLS connection: a record of the handshake.
const HANDSHAKE: u8 = 22;
/// What a client of plain HTTP is told on a port with TLS.
const NO_TLS: &[u8] = b"HTTP/1.1 400 Bad Request\r\ncontent-type: application/json\r\n\
    content-length: 124\r\nconnection: close\r\n\r\n\
    {\"error\":{\"message\":\"this port speaks TLS: use https\",\
    \"type\":\"invalid_request_error\",\"param\":null,\"code\":\"invalid_request\"}}";

/// For such a client to take that in.
const LINGER: Duration = Duration::from_secs(1);

/// A socket.
#[derive(Debug)]
pub(crate) enum Socket<S> {
    /// As it is.
    Plain(S),
    /// Under TLS.
    Tls(Box<TlsStream<S>>),
}

/// What TLS is laid over.
pub(crate) trait Raw: AsyncRead + AsyncWrite + Unpin {
    /// The system's socket.
    fn tcp(&self) -> &TcpStream;
}

impl Raw for TcpStream {
    fn tcp(&self) -> &TcpStream {
        self
    }
}

/// The handshake with a client, where the port has TLS; the error is the client's.
pub(crate) async fn accept<S: Raw>(port: Option<&Port>, mut socket: S) -> io::Result<Socket<S>> {
    let Some(port) = port else { return Ok(Socket::Plain(socket)) };
    let mut first = [0];
    if socket.tcp().peek(&mut first).await? == 0 {
        return Err(io::ErrorKind::UnexpectedEof.into());
    }
    if first != [HANDSHAKE] {
        socket.write_all(NO_TLS).await?;
        socket.shutdown().await?;
        // What it sent is read: else the system resets the connection, and the answer is lost.
        let _ = tokio::time::timeout(LINGER, copy(&mut socket, &mut sink())).await;
        return Err(io::Error::other("the client speaks no TLS"));
    }
    let stream = TlsAcceptor::from(port.0.current()).accept(socket).await?;
    Ok(Socket::Tls(Box::new(stream.into())))
}

/// The handshake with an endpoint at this address.
pub(crate) async fn dial(
    dial: Option<&Dial>,
    address: &str,
    socket: TcpStream,
) -> io::Result<Socket<TcpStream>> {
    let Some(dial) = dial else { return Ok(Socket::Plain(socket)) };
    let name = dial.name(address).map_err(io::Error::other)?;
    let stream = TlsConnector::from(dial.followed.current()).connect(name, socket).await?;
    Ok(Socket::Tls(Box::new(stream.into())))
}

impl<S> Socket<S> {
    /// Whether client and router agreed on HTTP/2; `None` without TLS.
    pub(crate) fn agreed_on_http2(&self) -> Option<bool> {
        let Self::Tls(stream) = self else { return None };
        Some(stream.get_ref().1.alpn_protocol() == Some(b"h2"))
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncRead for Socket<S> {
    fn poll_read(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: &mut ReadBuf<'_>,
    ) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_read(context, buffer),
            Self::Tls(socket) => Pin::new(socket).poll_read(context, buffer),
        }
    }
}

impl<S: AsyncRead + AsyncWrite + Unpin> AsyncWrite for Socket<S> {
    fn poll_write(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        bytes: &[u8],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write(context, bytes),
            Self::Tls(socket) => Pin::new(socket).poll_write(context, bytes),
        }
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        context: &mut Context<'_>,
        pieces: &[IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_write_vectored(context, pieces),
            Self::Tls(socket) => Pin::new(socket).poll_write_vectored(context, pieces),
        }
    }

    fn is_write_vectored(&self) -> bool {
        match self {
            Self::Plain(socket) => socket.is_write_vectored(),
            Self::Tls(socket) => socket.is_write_vectored(),
        }
    }

    fn poll_flush(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_flush(context),
            Self::Tls(socket) => Pin::new(socket).poll_flush(context),
        }
    }

    fn poll_shutdown(self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        match self.get_mut() {
            Self::Plain(socket) => Pin::new(socket).poll_shutdown(context),
            Self::Tls(socket) => Pin::new(socket).poll_shutdown(context),
        }
    }
}
