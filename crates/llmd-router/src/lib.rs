//! The router: HTTP in, an endpoint picked, the answer streamed out.
//!
//! Where to read first: `phases` (the life of a request), then `forward` and `stream` (how an
//! answer comes back), then `pool` (the scheduler behind its lock). It does I/O and nothing
//! else: who gets a request is decided by `llmd-sched`, where endpoints are is told by
//! `llmd-discovery`.
//!
//! - `config`: `router.yaml`; `reload`: from there to pools, at the start and at every change
//! - `control`: start, drain, end; `server`: sockets and threads; `tasks`: where tasks start;
//!   `files`: how many there may be
//! - `tls`, `wire`, `heads`, `patience`, `http2`: what is asked of a client's connection
//! - `api`: the APIs that it speaks, a row each
//! - `phases`, `routes`, `receive`, `body`, `forward`, `stream`, `sse`, `flight`: a request
//! - `prompt`, `usage`, `include`: what is counted of it; `responses`: who can continue it
//! - `upstream`, `places`, `headers`, `json`, `error`: what it uses on its way
//! - `pool`, `endpoint`, `scrape`, `checks`, `health`: what it is placed on
//! - `admin`, `metrics`, `trace`, `log`, `repeats`, `date`: what people see of it
//! - `fuzz`: its parsers, for `fuzz/` only

mod admin;
mod api;
mod body;
mod checks;
mod command;
pub mod config;
pub mod control;
mod date;
mod endpoint;
mod error;
mod files;
mod flight;
mod forward;
#[doc(hidden)]
pub mod fuzz;
mod headers;
mod heads;
mod health;
mod http2;
mod ids;
mod include;
mod json;
mod log;
mod metrics;
mod patience;
mod phases;
mod places;
mod pool;
mod process;
mod prompt;
mod receive;
mod reload;
mod repeats;
mod responses;
mod router;
mod routes;
mod scrape;
mod server;
mod sse;
mod stream;
mod tasks;
mod tls;
mod trace;
mod upstream;
mod usage;
mod wire;
mod worker;

pub use command::router_main;
pub use config::Config;
pub use error::{ConfigError, StartError};
