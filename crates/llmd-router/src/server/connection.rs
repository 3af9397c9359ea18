//! One client's connection, from its first byte to its last.
//!
//! Started by a thread of `server`. It tells the protocol, and ends the connection when the
//! router ends, when a request on it asks for that, and when the client lets it rest too long.

use super::{Caller, Slot, Stop, WELCOME};
use crate::error::{Failure, Kind};
use crate::headers;
use crate::http2::{self, Answer, Streams};
use crate::patience::Patient;
use crate::phases;
use crate::stream::Reply;
use crate::tls::{self, Port, Socket};
use crate::wire::{self, Line, Running, Wire};
use crate::worker::{Closer, Worker};
use bytes::Bytes;
use http::{Request, Response};
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::TokioIo;
use std::convert::Infallible;
use std::io;
use std::pin::{Pin, pin};
use std::rc::Rc;
use std::task::{Context, Poll};
use std::time::Duration;
use tokio::io::{AsyncRead, AsyncReadExt, AsyncWrite};
use tokio::net::TcpStream;
use tokio::sync::watch;
use tokio::time::Instant;

/// Largest head of a request. Longest of what others take (Envoy 60 KiB, nginx 32).
const HEAD_BYTES: u32 = 64 << 10;
/// How a connection of HTTP/2 begins.
const PREFACE: &[u8; 24] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
/// From telling an HTTP/2 client without a request that its connection ends until it is cut. One
/// that is there answers sooner, and its connection ends then.
const GOODBYE: Duration = Duration::from_secs(2);

/// What is the same for all requests of a connection.
#[derive(Clone)]
struct Client {
    worker: Worker,
    line: Line,
    slot: Rc<Slot>,
}

/// Serves a client until its connection ends.
pub(super) async fn connection(caller: Caller, worker: Worker, mut stop: watch::Receiver<Stop>) {
    let Caller { socket, slot, arrived } = caller;
    let socket = TcpStream::from_std(socket).and_then(|socket| {
        socket.set_nodelay(true)?;
        Ok(socket)
    });
    let Ok(socket) = socket else { return };
    let limits = worker.router.table().config.limits.clone();
    let idle = Duration::from_millis(limits.idle_ms);
    let times = wire::Limits {
        header: Duration::from_millis(limits.header_ms),
        keep_alive: Duration::from_millis(limits.keep_alive_ms),
    };
    let socket = Patient::new(socket, idle, worker.closer.clone());
    let port = worker.router.table().tls.data.clone();
    let welcome = Instant::from_std(arrived + WELCOME);
    let begun = tokio::select! {
        biased;
        begun = arrive(socket, port.as_ref(), times.header, &worker) => begun,
        // It has sent nothing that is a request.
        () = leave(&mut stop, welcome) => return,
    };
    let Some((socket, http2, ahead)) = begun else { return };
    let client = Client { worker, line: Line::default(), slot: Rc::new(slot) };
    if http2 {
        let socket = Wire::http2(socket, ahead);
        serve_2(socket, client, idle, times, stop).await;
    } else {
        let socket = Wire::http1(socket, ahead, client.line.clone(), times);
        serve_1(socket, client, stop, welcome).await;
    }
}

/// Up to where it is known what the client speaks: its socket, whether that is HTTP/2, and what was
/// read. `None`: it failed, and there is nobody to tell.
async fn arrive(
    socket: Patient,
    port: Option<&Port>,
    limit: Duration,
    worker: &Worker,
) -> Option<(Socket<Patient>, bool, Vec<u8>)> {
    let Ok(Ok(mut socket)) = tokio::time::timeout(limit, tls::accept(port, socket)).await else {
        worker.router.metrics.tls_failures.inc();
        return None;
    };
    if let Some(agreed) = socket.agreed_on_http2() {
        return Some((socket, agreed, Vec::new()));
    }
    let ahead = tokio::time::timeout(limit, begin(&mut socket)).await.ok()?.ok()?;
    Some((socket, ahead == PREFACE, ahead))
}

/// From then on the connection is closed when it is without a request.
async fn leave(stop: &mut watch::Receiver<Stop>, welcome: Instant) {
    // An error is an end as well: nobody is left to say more.
    let _ = stop.wait_for(|stop| matches!(stop, Stop::Finish | Stop::Cut)).await;
    tokio::time::sleep_until(welcome).await;
}

/// Reads up to where the preface of HTTP/2 ends, or what comes is another beginning.
async fn begin(socket: &mut (impl AsyncRead + Unpin)) -> io::Result<Vec<u8>> {
    let mut ahead = Vec::with_capacity(PREFACE.len());
    while ahead.len() < PREFACE.len() && PREFACE.starts_with(&ahead) {
        let left = (PREFACE.len() - ahead.len()) as u64;
        if socket.take(left).read_buf(&mut ahead).await? == 0 {
            break;
        }
    }
    Ok(ahead)
}

async fn serve_1(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    client: Client,
    mut stop: watch::Receiver<Stop>,
    welcome: Instant,
) {
    let (closer, line) = (client.worker.closer.clone(), client.line.clone());
    let service = service_fn(move |request| {
        let client = client.clone();
        let (running, fault) = client.line.begin();
        async move {
            let response = client.answer(request, fault).await;
            Ok::<_, Infallible>(response.map(|reply| Held { reply, _running: running }))
        }
    });
    let serving = http1::Builder::new()
        .header_read_timeout(None)
        .max_header_size(HEAD_BYTES as usize)
        .serve_connection(TokioIo::new(socket), service);
    let mut serving = pin!(serving);
    let mut leave = pin!(leave(&mut stop, welcome));
    let mut leaving = false;
    loop {
        tokio::select! {
            biased;
            // An error is the client's: it left, took nothing in, or spoke no HTTP.
            _ = serving.as_mut() => return,
            () = closer.closed() => serving.as_mut().graceful_shutdown(),
            () = leave.as_mut(), if !leaving => {
                leaving = true;
                serving.as_mut().graceful_shutdown();
                // The library waits for the rest of a head.
                if line.is_half() {
                    return;
                }
            }
        }
    }
}

async fn serve_2(
    socket: impl AsyncRead + AsyncWrite + Unpin,
    client: Client,
    idle: Duration,
    times: wire::Limits,
    mut stop: watch::Receiver<Stop>,
) {
    let (line, streams) = (client.line.clone(), Streams::new(idle));
    let builder = http2::builder(HEAD_BYTES, &streams);
    let service = service_fn(move |request| {
        // What ends one answer must not end those beside it.
        let worker = Worker { closer: Closer::default(), ..client.worker.clone() };
        let client = Client { worker, ..client.clone() };
        let (running, _) = client.line.begin();
        let watch = streams.watch(client.worker.closer.clone());
        async move {
            let response = client.answer(request, None).await;
            Ok::<_, Infallible>(response.map(|reply| Answer::new(reply, watch, running)))
        }
    });
    let mut serving = pin!(builder.serve_connection(TokioIo::new(socket), service));
    let mut leave = pin!(stop.wait_for(|stop| *stop != Stop::Run));
    let mut leaving = false;
    let mut look = pin!(tokio::time::sleep(times.header));
    loop {
        tokio::select! {
            biased;
            _ = serving.as_mut() => return,
            _ = leave.as_mut(), if !leaving => {
                leaving = true;
                serving.as_mut().graceful_shutdown();
                look.as_mut().reset(Instant::now() + GOODBYE);
            }
            () = look.as_mut() => {
                let times = if leaving { wire::Limits::both(GOODBYE) } else { times };
                let end = line.rest_ends(times);
                if end.is_some_and(|end| end <= Instant::now()) {
                    if !leaving {
                        serving.as_mut().graceful_shutdown();
                        let _ = tokio::time::timeout(GOODBYE, serving).await;
                    }
                    return;
                }
                look.as_mut().reset(end.unwrap_or_else(|| Instant::now() + times.keep_alive));
            }
        }
    }
}

impl Client {
    /// The answer to a request; `fault` is why it cannot be served.
    async fn answer(
        &self,
        request: Request<Incoming>,
        fault: Option<&'static str>,
    ) -> Response<Reply> {
        let failure = if !self.slot.entered().await {
            self.slot.refuse();
            Failure::new(Kind::TooManyConnections, "the router has too many connections open")
        } else if let Some(why) = fault.or_else(|| headers::host_problem(&request)) {
            Failure::bad_request(why.to_owned())
        } else {
            return phases::respond(&self.worker, request).await;
        };
        phases::refuse(&self.worker, request.headers(), &failure)
    }
}

/// An answer under HTTP/1; its request runs until it is sent.
struct Held {
    reply: Reply,
    _running: Running,
}

impl Body for Held {
    type Data = Bytes;
    type Error = io::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<io::Result<Frame<Bytes>>>> {
        Pin::new(&mut self.reply).poll_frame(context)
    }

    fn is_end_stream(&self) -> bool {
        self.reply.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.reply.size_hint()
    }
}
