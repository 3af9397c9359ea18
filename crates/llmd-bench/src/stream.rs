//! Many streams at once: opened, held open, and what each costs the watched process.

use crate::body::{Bodies, Kind};
use crate::load::head;
use crate::process::{Use, rss};
use crate::wire::Reader;
use memchr::memmem::find;
use serde_json::{Value, json};
use std::io;
use std::net::SocketAddr;
use std::time::Duration;
use tokio::io::AsyncWriteExt;
use tokio::net::TcpStream;
use tokio::time::{sleep, timeout};

/// What `hold` takes.
#[derive(Debug, clap::Args)]
pub(crate) struct Options {
    /// Where requests go
    #[arg(long)]
    to: SocketAddr,
    /// Streams
    #[arg(long, default_value_t = 9_000)]
    streams: usize,
    /// For how long all are held
    #[arg(long, default_value_t = 3.0)]
    seconds: f64,
    /// The process that is looked at
    #[arg(long)]
    watch: Option<u32>,
}

/// Opened together; more would meet the limits of listening queues, not of routers.
const TOGETHER: usize = 50;
/// For a stream's first token.
const PATIENCE: Duration = Duration::from_secs(20);

/// Opens, holds, closes.
pub(crate) async fn run(options: Options) -> io::Result<Value> {
    let mut bodies = Bodies::new(Kind::Stream, "bench", 1_000_000);
    let (before, opening) = (rss(options.watch), Use::of(options.watch));
    let (mut held, mut failed, mut error) = (Vec::new(), 0, None);
    while held.len() + failed < options.streams {
        let together = TOGETHER.min(options.streams - held.len() - failed);
        let opened: Vec<_> = (0..together)
            .map(|_| {
                let body = bodies.next();
                let body = [body.begin, body.own.as_bytes(), body.end].concat();
                tokio::spawn(timeout(PATIENCE, open(options.to, body)))
            })
            .collect();
        for stream in opened {
            match stream.await.map_err(io::Error::other)? {
                Ok(Ok(socket)) => held.push(socket),
                Ok(Err(why)) => (failed, error) = (failed + 1, Some(why.to_string())),
                Err(_) => (failed, error) = (failed + 1, Some("no first token".into())),
            }
        }
    }
    let opened = Use::of(options.watch).since(opening, held.len() as u64);
    sleep(Duration::from_secs_f64(options.seconds)).await;
    let during = rss(options.watch);
    let open = held.iter().filter(|socket| is_open(socket)).count();
    let streams = held.len();
    drop(held);
    sleep(Duration::from_secs(2)).await;
    Ok(json!({
        "streams": streams, "still_open": open, "failed": failed, "error": error,
        "rss_before_bytes": before, "rss_bytes": during, "rss_after_bytes": rss(options.watch),
        "bytes_each": during.saturating_sub(before) / streams.max(1) as u64, "use": opened,
    }))
}

/// Opens a stream and waits for its first token.
async fn open(to: SocketAddr, body: Vec<u8>) -> io::Result<TcpStream> {
    let mut socket = TcpStream::connect(to).await?;
    socket.write_all(head(&to, body.len()).as_bytes()).await?;
    socket.write_all(&body).await?;
    let head = Reader::default().head(&mut socket).await?.unwrap_or_default();
    if head.status() == 200 {
        return Ok(socket);
    }
    Err(io::Error::other(head.start))
}

/// Whether nobody has closed it, and no stream has ended on it.
fn is_open(socket: &TcpStream) -> bool {
    let mut bytes = [0; 4_096];
    loop {
        match socket.try_read(&mut bytes) {
            Ok(0) => return false,
            Ok(count) if find(&bytes[..count], b"[DONE]").is_some() => return false,
            Ok(_) => {}
            Err(error) => return error.kind() == io::ErrorKind::WouldBlock,
        }
    }
}
