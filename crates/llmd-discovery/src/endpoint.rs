//! What discovery knows of an endpoint.

use serde::{Deserialize, Serialize};

/// Whether an endpoint may get requests.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum State {
    /// It is coming up: probes only.
    Starting,
    /// It gets requests.
    #[default]
    Ready,
    /// It gets nothing new; what runs there ends by itself.
    Draining,
}

/// One engine's address.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Endpoint {
    /// Unique in its pool.
    pub name: String,
    /// IP address.
    pub address: String,
    /// TCP port.
    pub port: u16,
    /// The variant it belongs to, where the source says so.
    pub variant: Option<String>,
    /// The accelerator's name (label `llm-d.ai/accelerator-variant`).
    pub accelerator: Option<String>,
    /// The profile its owner names (label `llmd-ctl.dev/profile`).
    pub profile: Option<String>,
    /// Its part in serving (label `llm-d.ai/role`).
    pub role: Option<String>,
    /// Whether it may get requests.
    pub state: State,
    /// The applied revision that started it.
    pub revision: Option<u64>,
}

/// All endpoints of a pool at one moment, in the order of the sources.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Snapshot {
    /// The endpoints; names are unique.
    pub endpoints: Vec<Endpoint>,
    /// What is wrong now, one sentence each with its place; for status.
    pub problems: Vec<String>,
    /// A source has not learnt anything yet: more may come, and what is not here may not be gone.
    pub pending: bool,
}
