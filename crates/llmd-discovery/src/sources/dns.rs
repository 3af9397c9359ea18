//! Source `dns`: each address of a name is an endpoint, at one port.
//!
//! Made for headless Services of Kubernetes, which name the ready pods; for any other name as well.
//! A thread of its own asks again and again, so that a name server that hangs holds up nothing
//! else. What the name server says counts, also that there is no address or no such name; what it
//! does not say (it fails, is silent, is not understood) leaves the endpoints as they were, those
//! of IPv4 and of IPv6 each by themselves. It never asks an endpoint whether it is well.

use crate::echo::echo;
use crate::sources::lookup::{self, Answer, Look};
use crate::{DiscoveryError, Endpoint, Reading, Sink, Source, State};
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

/// An answer is not asked for again sooner, whatever time its records are good for, unless the
/// interval is shorter.
const SHORTEST: Duration = Duration::from_secs(1);
/// After a look that failed, whatever the interval.
const AGAIN: Duration = Duration::from_secs(5);

/// What is looked up, and what its addresses are.
#[derive(Clone, Debug)]
pub struct DnsName {
    /// A host name; one that ends with a dot is whole.
    pub name: String,
    /// Where an engine listens at each of its addresses.
    pub port: u16,
    /// The variant of its endpoints.
    pub variant: Option<String>,
    /// The longest time between two looks; records that are good for less are looked up sooner.
    pub interval: Duration,
    /// The name server; those of the system without it.
    pub resolver: Option<SocketAddr>,
}

/// A name's addresses.
#[derive(Debug)]
pub struct DnsSource {
    asked: DnsName,
}

impl DnsSource {
    /// Follows this name.
    pub fn new(asked: DnsName) -> Self {
        Self { asked }
    }
}

impl Source for DnsSource {
    /// The first answer comes when it comes: until then the reading is pending.
    fn start(self: Box<Self>, sink: Sink) -> Result<(), DiscoveryError> {
        let asked = self.asked;
        let told = format!("dns {}", echo(&asked.name));
        let thread = |error: std::io::Error| DiscoveryError::Thread {
            file: told.clone(),
            reason: error.to_string(),
        };
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build();
        let runtime = runtime.map_err(thread)?;
        let problems = vec![format!("{told}: was not answered yet")];
        sink.publish(Reading { problems, pending: true, ..Reading::default() });
        let body = move || {
            runtime.block_on(async {
                tokio::select! {
                    () = sink.closing() => {}
                    () = follow(&asked, &sink) => {}
                }
            });
            // A look that hangs is left to itself.
            runtime.shutdown_background();
        };
        std::thread::Builder::new().name("discovery".into()).spawn(body).map(drop).map_err(thread)
    }
}

async fn follow(asked: &DnsName, sink: &Sink) {
    let mut known = Known::default();
    loop {
        let look = lookup::look(&asked.name, asked.resolver).await;
        let wait = known.take(look, asked);
        sink.publish(known.reading(asked));
        tokio::time::sleep(wait).await;
    }
}

/// What was learnt, until something else is.
#[derive(Debug, Default)]
struct Known {
    v4: Vec<IpAddr>,
    v6: Vec<IpAddr>,
    /// Whether there was any answer.
    answered: bool,
    problems: Vec<String>,
}

impl Known {
    /// Takes a look over; the time until the next one.
    fn take(&mut self, look: Look, asked: &DnsName) -> Duration {
        let mut wait = asked.interval;
        let mut problems = Vec::new();
        let told = echo(&asked.name);
        for (kind, answer, known) in [("A", look.v4, &mut self.v4), ("AAAA", look.v6, &mut self.v6)]
        {
            match answer {
                Answer::Addresses { found, ttl } => {
                    (*known, self.answered) = (found, true);
                    wait = wait.min(ttl.max(SHORTEST));
                }
                Answer::Nothing => (*known, self.answered) = (Vec::new(), true),
                Answer::Failed(why) => {
                    wait = wait.min(AGAIN);
                    problems.push(format!(
                        "dns {told}: {kind}: {why}; its endpoints stay as they were"
                    ));
                }
            }
        }
        if problems != self.problems {
            for problem in &problems {
                tracing::warn!("{problem}");
            }
            if problems.is_empty() {
                tracing::info!(name = %told, "dns answers again");
            }
            self.problems = problems;
        }
        wait
    }

    fn reading(&self, asked: &DnsName) -> Reading {
        let all = self.v4.iter().chain(&self.v6);
        Reading {
            endpoints: all.map(|address| endpoint(*address, asked)).collect(),
            problems: self.problems.clone(),
            pending: !self.answered,
        }
    }
}

/// Named by its address, so that it is the same one as long as it has that.
fn endpoint(address: IpAddr, asked: &DnsName) -> Endpoint {
    Endpoint {
        name: SocketAddr::new(address, asked.port).to_string(),
        address: address.to_string(),
        port: asked.port,
        variant: asked.variant.clone(),
        accelerator: None,
        profile: None,
        role: None,
        state: State::Ready,
        revision: None,
    }
}

#[cfg(test)]
mod tests;
