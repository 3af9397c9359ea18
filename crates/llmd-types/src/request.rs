//! What a scheduler needs to know of a request, and the names of its life.
//!
//! Used by the router (live), the simulator (virtual) and the scheduler between them.

use crate::Micros;
use serde::{Deserialize, Serialize};

/// A request's number, unique in one process.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct RequestId(pub u64);

/// The phases of a request's life; the same names in code, metrics, spans and docs.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Phase {
    /// Head read from the client.
    Receive,
    /// Body read and understood: model, stream, limits.
    Parse,
    /// The pool accepts it, or refuses.
    Admit,
    /// Prompt bytes turned into prefix keys and a token estimate.
    Tokenize,
    /// An endpoint is chosen.
    Pick,
    /// Sent to the endpoint, until its first byte.
    Forward,
    /// The answer passes by.
    Stream,
    /// Usage and load are settled.
    Account,
}

impl Phase {
    /// The phase's name in metrics, spans and docs.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Receive => "receive",
            Self::Parse => "parse",
            Self::Admit => "admit",
            Self::Tokenize => "tokenize",
            Self::Pick => "pick",
            Self::Forward => "forward",
            Self::Stream => "stream",
            Self::Account => "account",
        }
    }
}

/// How a request's stay at an endpoint ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Outcome {
    /// A whole answer reached the client.
    Done,
    /// The endpoint answered that it does not serve this request: 4xx (429 too), passed on.
    Refused,
    /// The endpoint answered that it failed: 5xx, passed on.
    Failed,
    /// The connection failed, or a time limit ran out.
    Lost,
    /// The client left.
    Cancelled,
}

/// Token counts as the engine told them; `None` where it did not.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Usage {
    /// Tokens of the prompt.
    pub prompt_tokens: Option<u32>,
    /// Of these, tokens found in the prefix cache.
    pub cached_tokens: Option<u32>,
    /// Tokens generated.
    pub completion_tokens: Option<u32>,
}

/// The service level a model promises; `None` promises nothing.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct Slo {
    /// Time to first token.
    #[serde(default)]
    pub ttft_us: Option<Micros>,
    /// Time between two tokens.
    #[serde(default)]
    pub itl_us: Option<Micros>,
}

/// What a model's requests are placed for, among the endpoints that meet its service level.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum Objective {
    /// The earliest expected finish.
    #[default]
    Latency,
    /// The least expected price.
    Cost,
    /// Finish time and price count alike.
    Balanced,
}
