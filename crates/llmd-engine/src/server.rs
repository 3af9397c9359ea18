//! The listening socket and its connections, until the process is told to stop.

use crate::access_log::AccessLog;
use crate::clockwork::Clockwork;
use crate::config::Config;
use crate::error::StartError;
use crate::http::Service;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use std::convert::Infallible;
use std::net::SocketAddr;
use std::pin::pin;
use std::sync::Arc;
use std::time::Duration;
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinSet;

/// For a request's head to arrive, and for an idle connection to be used again.
const HEAD_TIMEOUT: Duration = Duration::from_mins(1);
/// For running answers to end once the server is told to stop.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(30);
/// Before the next try when the system gives out no more sockets.
const ACCEPT_PAUSE: Duration = Duration::from_millis(50);

/// A simulated engine that listens and does not answer yet.
#[derive(Debug)]
pub struct Server {
    listener: TcpListener,
    service: Arc<Service>,
}

impl Server {
    /// Takes the address and opens the access log.
    pub async fn bind(config: Config) -> Result<Self, StartError> {
        let address = config.listen;
        let listener = TcpListener::bind(address)
            .await
            .map_err(|cause| StartError::Listen { address, cause })?;
        let log = AccessLog::open(config.access_log.as_deref(), &config.name)?;
        let clockwork = Clockwork::new(config.facts.clone());
        let started_at_seconds = clockwork.unix_us(clockwork.now()) / 1_000_000;
        let service = Arc::new(Service { config, clockwork, log, started_at_seconds });
        Ok(Self { listener, service })
    }

    /// Where it listens.
    pub fn address(&self) -> std::io::Result<SocketAddr> {
        self.listener.local_addr()
    }

    /// Serves until `stop` is ready. Then nothing new is accepted, running answers end by
    /// themselves, and those that take longer than 30 seconds (or until `stop_now`) are cut.
    pub async fn serve(self, stop: impl Future<Output = ()>, stop_now: impl Future<Output = ()>) {
        let clockwork = tokio::spawn(self.service.clockwork.clone().drive());
        let (stopping, stopped) = watch::channel(());
        let mut connections = JoinSet::new();
        let mut stop = pin!(stop);
        loop {
            tokio::select! {
                () = &mut stop => break,
                Some(_) = connections.join_next() => {}
                accepted = self.listener.accept() => match accepted {
                    Ok((stream, _)) => {
                        let service = self.service.clone();
                        connections.spawn(connection(stream, service, stopped.clone()));
                    }
                    Err(error) => {
                        tracing::warn!(%error, "cannot accept a connection");
                        tokio::time::sleep(ACCEPT_PAUSE).await;
                    }
                },
            }
        }
        drop(self.listener);
        let _ = stopping.send(());
        let drained = async { while connections.join_next().await.is_some() {} };
        tokio::select! {
            () = drained => {}
            () = tokio::time::sleep(DRAIN_TIMEOUT) => {
                tracing::warn!("answers that did not end in time are cut");
            }
            () = stop_now => {}
        }
        connections.shutdown().await;
        clockwork.abort();
    }
}

/// Serves one connection; its running request ends first when the server stops.
async fn connection(stream: TcpStream, service: Arc<Service>, mut stopped: watch::Receiver<()>) {
    // A token that waits for the acknowledgement of the one before would come late.
    let _ = stream.set_nodelay(true);
    let answer = service_fn(move |request| {
        let service = service.clone();
        async move { Ok::<_, Infallible>(service.answer(request).await) }
    });
    let mut builder = http1::Builder::new();
    builder.timer(TokioTimer::new()).header_read_timeout(HEAD_TIMEOUT);
    // A token is a small piece: copied together with its frame it is one write.
    builder.writev(false);
    let mut connection = pin!(builder.serve_connection(TokioIo::new(stream), answer));
    let served = tokio::select! {
        served = connection.as_mut() => served,
        _ = stopped.changed() => {
            connection.as_mut().graceful_shutdown();
            connection.await
        }
    };
    if let Err(error) = served {
        tracing::debug!(%error, "a connection broke off");
    }
}
