//! The scheduler: which endpoint of a pool serves a request, and what it remembers to decide so.
//!
//! Called by the router (real time) and by the simulator (virtual time) through one function,
//! [`step`]. It never does I/O, reads no clock, draws no randomness of its own and never
//! panics: time and randomness are arguments, so a decision can be repeated to the bit.
//!
//! Where to read first: [`cycle`] (how a request is placed), then `forecast` (what is predicted
//! for it at one endpoint), then `handlers` (what each event changes).
//!
//! - `event`: what goes in and out of [`step`]
//! - `config`: a pool's settings
//! - `pool`: the state, and the table of endpoints and variants
//! - `handlers`: one function for each event
//! - `health`: one endpoint's breaker, checks and slow start; `budget`: how much is retried
//! - `cycle`: one pick, in numbered steps
//! - `filters`, `forecast`, `scorers`: the steps' parts
//! - `load`: exact counts of what is in flight, reports of the endpoints kept apart
//! - `learn`: corrections of speeds, bytes in a token, length of answers
//! - `prefix`, `index`: which endpoint holds which prompt prefix
//! - `status`: the state as people and metrics see it

mod budget;
mod config;
pub mod cycle;
mod endpoint;
mod event;
mod filters;
mod forecast;
mod handlers;
mod health;
mod index;
mod learn;
mod load;
mod pool;
pub mod prefix;
mod request;
mod rng;
mod scorers;
mod status;

pub use config::{PoolConfig, Resilience, SchedulerKind};
pub use cycle::{Pick, Reasons, Tier};
pub use endpoint::EndpointState;
pub use event::{
    Action, Actions, Arrival, EndpointFacts, EndpointIndex, Event, Refusal, RetryCause,
};
pub use handlers::step;
pub use health::{BreakerState, HealthStatus, Why};
pub use pool::PoolState;
pub use rng::Rng;
pub use status::{EndpointStatus, PoolStatus};
