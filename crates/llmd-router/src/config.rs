//! `router.yaml`: its schema, its defaults and what makes it wrong. The only owner of both.
//!
//! Read at the start, on SIGHUP and when the file changes ([`crate::reload`]). Unknown keys are
//! refused with their path. All that is wrong with a well-formed file is told in one go. It
//! reads that file and no other: sources and keys are opened by those who use them.

mod check;
mod file;
mod resilience;
mod words;

pub(crate) use file::{first_text, next_text};
pub use resilience::{Breaker, Checks, Ejection, Resilience, Retry};

use crate::api::{self, Api};
use crate::error::ConfigError;
use llmd_types::{Objective, ReplicaFacts, Slo};
use serde::Deserialize;
use std::net::{IpAddr, SocketAddr};
use std::path::{Path, PathBuf};
use std::time::Duration;

/// The whole file.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Config {
    /// Of the schema; 1.
    pub version: u32,
    /// The fleet's name, for logs and traces.
    #[serde(default)]
    pub fleet: String,
    /// Where the router listens.
    #[serde(default)]
    pub listen: Listen,
    /// A file with the key for admin calls that change state; without it they are refused.
    #[serde(default)]
    pub admin_key_file: Option<PathBuf>,
    /// Sizes and times.
    #[serde(default)]
    pub limits: Limits,
    /// Attempts.
    #[serde(default)]
    pub retry: Retry,
    /// When an endpoint is out.
    #[serde(default)]
    pub resilience: Resilience,
    /// Reading the engines' metrics.
    #[serde(default)]
    pub scrape: Scrape,
    /// Where spans go; none are made without it.
    #[serde(default)]
    pub traces: Option<Traces>,
    /// What is served.
    #[serde(default)]
    pub models: Vec<Model>,
}

/// Socket addresses.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Listen {
    /// The `OpenAI` API.
    pub data: SocketAddr,
    /// Metrics, health, readiness, status.
    pub admin: SocketAddr,
    /// TLS on the data port; plain HTTP without it.
    pub tls: Option<ServerTls>,
    /// TLS on the admin port. Apart from `tls`: who scrapes metrics is not a client, and a
    /// client's certificate must not open the admin port.
    pub admin_tls: Option<ServerTls>,
}

/// How a port of the router speaks TLS. The files (PEM) are read again when they change.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct ServerTls {
    /// The certificate, with what leads to its authority.
    pub cert_file: PathBuf,
    /// Its key.
    pub key_file: PathBuf,
    /// Who signs the certificates of clients; with it, those without one are refused.
    #[serde(default)]
    pub client_ca_file: Option<PathBuf>,
}

/// How endpoints are spoken to under TLS; `{}` for all defaults. The files (PEM) are read again
/// when they change.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct EndpointTls {
    /// Who signs their certificates; without it those whom the system trusts.
    pub ca_file: Option<PathBuf>,
    /// Our own certificate, for endpoints that ask for one.
    pub cert_file: Option<PathBuf>,
    /// Its key.
    pub key_file: Option<PathBuf>,
    /// The name in their certificates; without it the endpoint's address.
    pub server_name: Option<String>,
}

impl Default for Listen {
    fn default() -> Self {
        let on = |port| SocketAddr::new(IpAddr::from([127, 0, 0, 1]), port);
        Self { data: on(8000), admin: on(9090), tls: None, admin_tls: None }
    }
}

/// Sizes and times of a request. 0 is refused: a limit that is wanted off is set high.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Limits {
    /// Largest request body.
    pub body_bytes: u64,
    /// For a client to send a request's head, and then its body without a pause this long.
    pub header_ms: u64,
    /// For a client to send another request on its connection.
    pub keep_alive_ms: u64,
    /// Client connections at a time; [`Limits::CONNECTIONS`] when it is not said. There are never
    /// more than half as many as the process may have files open (each may need one more to an
    /// endpoint) beyond some that are kept for other uses. What comes beyond is answered 503.
    pub connections: Option<u64>,
    /// To connect to an endpoint.
    pub connect_ms: u64,
    /// From sending a request to the first byte of the answer's body.
    pub first_byte_ms: u64,
    /// Between two pieces of an answer, and for a client to take in more of it.
    pub idle_ms: u64,
    /// For a request in all, retries included.
    pub total_ms: u64,
    /// From SIGTERM until what still runs is cut.
    pub drain_ms: u64,
    /// On the way out, how long no request may have been open before the listener closes: longer
    /// than whoever sends here takes to see that we are not ready. [`Limits::QUIET`] when it is not
    /// said, or what time there is.
    pub quiet_ms: Option<u64>,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            body_bytes: 64 << 20,
            header_ms: 10_000,
            keep_alive_ms: 75_000,
            connections: None,
            connect_ms: 1_000,
            first_byte_ms: 300_000,
            idle_ms: 60_000,
            total_ms: 3_600_000,
            drain_ms: 30_000,
            quiet_ms: None,
        }
    }
}

/// How often the engines' metrics are read.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Scrape {
    /// Between two readings of one endpoint.
    pub interval_ms: u64,
    /// For one reading.
    pub timeout_ms: u64,
}

impl Default for Scrape {
    fn default() -> Self {
        Self { interval_ms: 200, timeout_ms: 1_000 }
    }
}

/// Where spans go.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Traces {
    /// The collector, as `http://host:port`.
    pub otlp: String,
    /// How it is spoken to.
    #[serde(default)]
    pub protocol: Protocol,
    /// Share of requests that begin a trace; a client's own decision goes before it.
    #[serde(default = "all")]
    pub sample_ratio: f64,
}

fn all() -> f64 {
    1.0
}

/// An OTLP transport.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
pub enum Protocol {
    /// Protobuf in HTTP POSTs (port 4318 by custom).
    #[default]
    #[serde(rename = "http/protobuf")]
    Http,
    /// gRPC (port 4317 by custom).
    #[serde(rename = "grpc")]
    Grpc,
}

/// One logical model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Model {
    /// The served name.
    pub name: String,
    /// Other names for it.
    #[serde(default)]
    pub aliases: Vec<String>,
    /// What requests are placed for.
    #[serde(default)]
    pub objective: Objective,
    /// How an endpoint is chosen.
    #[serde(default)]
    pub scheduler: Scheduler,
    /// The promised service level.
    #[serde(default)]
    pub slo: Slo,
    /// Of the random choices; for tests.
    #[serde(default)]
    pub seed: Option<u64>,
    /// Client credentials (`authorization`, cookies, API keys, tokens, the headers of cloud
    /// gateways) go on to the engines.
    #[serde(default)]
    pub passthrough: bool,
    /// How the tokens of a stream are counted.
    #[serde(default)]
    pub usage: UsageMode,
    /// What parts of a prompt that are no text count for.
    #[serde(default)]
    pub multimodal: Multimodal,
    /// The ways in which it is served.
    #[serde(default)]
    pub variants: Vec<Variant>,
    /// Where its endpoints are learnt from.
    #[serde(default)]
    pub sources: Vec<Source>,
}

/// How the tokens of a stream are counted.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum UsageMode {
    /// As the engine tells them where the client asked for it; else events are counted.
    #[default]
    AsTold,
    /// The engine is always asked; a client that did not ask does not see it.
    Exact,
}

/// Tokens that the parts of a prompt count for which are no text. Engines differ, and sizes are
/// not looked at; the scheduler learns a model's mean from the usage that engines tell.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields, default)]
pub struct Multimodal {
    /// A picture; about a square of 900 pixels at 28 by 28 a token (Qwen-VL).
    pub image_tokens: u32,
    /// A recording; 30 seconds at 25 tokens each (Whisper's encoder, Qwen-Audio).
    pub audio_tokens: u32,
    /// A film; 16 frames of 256 tokens.
    pub video_tokens: u32,
    /// A document; a few pages.
    pub file_tokens: u32,
}

impl Multimodal {
    /// Most tokens of one part.
    pub(crate) const MAX: u32 = 65_536;

    /// The numbers with their names in the file.
    pub(crate) const fn named(&self) -> [(&'static str, u32); 4] {
        [
            ("imageTokens", self.image_tokens),
            ("audioTokens", self.audio_tokens),
            ("videoTokens", self.video_tokens),
            ("fileTokens", self.file_tokens),
        ]
    }
}

impl Default for Multimodal {
    fn default() -> Self {
        Self { image_tokens: 1_024, audio_tokens: 750, video_tokens: 4_096, file_tokens: 2_048 }
    }
}

/// The rules by which an endpoint is chosen.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Scheduler {
    /// The earliest expected finish.
    #[default]
    ExpectedFinish,
    /// In turn.
    RoundRobin,
    /// By lot.
    Random,
    /// Fewest requests in flight.
    LeastRequest,
    /// The scorers and weights that llm-d uses when nothing is configured.
    LlmDDefault,
}

impl Scheduler {
    /// The name as it is configured.
    pub const fn name(self) -> &'static str {
        match self {
            Self::ExpectedFinish => "expected-finish",
            Self::RoundRobin => "round-robin",
            Self::Random => "random",
            Self::LeastRequest => "least-request",
            Self::LlmDDefault => "llm-d-default",
        }
    }
}

/// One way to serve a model.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Variant {
    /// Unique in its model.
    pub name: String,
    /// The accelerator's profile.
    #[serde(default)]
    pub accelerator: String,
    /// The engine's name.
    #[serde(default)]
    pub engine: String,
    /// Whether its engines are simulated.
    #[serde(default)]
    pub simulated: bool,
    /// The name its engines know the model by, where it is another one.
    #[serde(default)]
    pub served_name: Option<String>,
    /// TLS towards its endpoints; plain HTTP without it.
    #[serde(default)]
    pub tls: Option<EndpointTls>,
    /// The APIs that its engines speak; all of them when it is not said.
    #[serde(default)]
    pub apis: Option<Vec<String>>,
    /// What a replica of it can do; without it the scheduler learns from a neutral prior.
    #[serde(default)]
    pub facts: Option<ReplicaFacts>,
}

/// Where endpoints are learnt from.
#[derive(Clone, Debug, PartialEq, Deserialize)]
#[serde(rename_all = "lowercase", tag = "kind", deny_unknown_fields)]
pub enum Source {
    /// Written here.
    Static {
        /// The endpoints.
        endpoints: Vec<StaticEndpoint>,
    },
    /// llm-d's `endpoints.yaml`.
    File {
        /// The file; relative to `router.yaml`.
        path: PathBuf,
    },
    /// The controller's `replicas.json`.
    Process {
        /// The file; relative to `router.yaml`.
        path: PathBuf,
    },
    /// The addresses of a name.
    Dns(DnsName),
}

/// A name whose addresses are endpoints, such as a headless Service of Kubernetes.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct DnsName {
    /// A host name; one that ends with a dot is whole.
    pub name: String,
    /// TCP port of all of them.
    pub port: u16,
    /// The variant that they belong to.
    #[serde(default)]
    pub variant: Option<String>,
    /// The longest time between two looks.
    #[serde(default = "five_seconds")]
    pub interval_ms: u64,
    /// The name server that is asked; without it those of the system.
    #[serde(default)]
    pub resolver: Option<SocketAddr>,
}

fn five_seconds() -> u64 {
    5_000
}

/// An endpoint written in the configuration.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct StaticEndpoint {
    /// Unique in its model.
    pub name: String,
    /// A host name or an IP address.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// The variant it belongs to.
    #[serde(default)]
    pub variant: Option<String>,
    /// TLS towards it, where that is another than its variant's.
    #[serde(default)]
    pub tls: Option<EndpointTls>,
}

impl Model {
    /// What it may be asked for by, each with its key.
    pub(crate) fn names(&self) -> impl Iterator<Item = (String, &str)> {
        let aliases = self.aliases.iter().enumerate();
        let aliases = aliases.map(|(at, name)| (format!("aliases[{at}]"), name.as_str()));
        std::iter::once(("name".to_owned(), self.name.as_str())).chain(aliases)
    }

    /// Whether some engine of it may speak this API.
    pub(crate) fn speaks(&self, api: &Api) -> bool {
        self.variants.is_empty() || self.variants.iter().any(|v| v.offers() & api.bit() != 0)
    }
}

impl Variant {
    /// The APIs that its engines speak, a bit each.
    pub(crate) fn offers(&self) -> u32 {
        let Some(names) = &self.apis else { return u32::MAX };
        let bits = names.iter().filter_map(|name| api::named(name)).map(Api::bit);
        bits.fold(0, |all, bit| all | bit)
    }
}

impl Limits {
    /// Client connections that nobody asked to be more or less: as many as fit, up to these.
    pub(crate) const CONNECTIONS: u64 = 65_536;

    /// Client connections at a time, as far as they fit.
    pub(crate) fn connections(&self) -> u64 {
        self.connections.unwrap_or(Self::CONNECTIONS)
    }

    /// Of the way out, in milliseconds, where nobody asked for more or less: requests that were
    /// sent before anyone saw that we are not ready are still on their way.
    const QUIET: u64 = 200;

    /// Without a request for so long, the listener closes on the way out.
    pub(crate) fn quiet(&self) -> Duration {
        Duration::from_millis(self.quiet_ms.unwrap_or(Self::QUIET))
    }

    /// To connect to an endpoint.
    pub fn connect(&self) -> Duration {
        Duration::from_millis(self.connect_ms)
    }
}

impl Config {
    /// Of the text of the file at `path`; the paths in it are made absolute or relative to the
    /// caller.
    pub(crate) fn at(path: &Path, text: &str) -> Result<Self, ConfigError> {
        let mut config = Self::parse(text).map_err(|problems| ConfigError::new(path, &problems))?;
        config.resolve(path);
        Ok(config)
    }

    /// Reads a text; the error is every problem in it, each with its path.
    pub fn parse(text: &str) -> Result<Self, Vec<String>> {
        let document = serde_yaml_ng::Deserializer::from_str(text);
        let config: Self = serde_path_to_error::deserialize(document)
            .map_err(|error| vec![words::told(&error)])?;
        let problems = check::problems(&config);
        if problems.is_empty() { Ok(config) } else { Err(problems) }
    }
}

#[cfg(test)]
mod tests;
