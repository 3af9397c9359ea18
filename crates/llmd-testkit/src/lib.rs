//! What tests of the router talk to: a scripted engine and a plain client, both on raw sockets.
//!
//! A dev-dependency only. Nothing here uses an HTTP library, so that bytes, half-closed
//! connections and deaths are exactly what the script says. A test helper may fail loudly.
//!
//! - `engine`: the fake engine; `behaviour`: the table of what it can do
//! - `client`: requests whose every byte is the test's own; `session`: many on one connection
//! - `mixture`: all that can become of a request, for very many of them
//! - `names`: a name server
//! - `collector`: keeps the bodies that a trace exporter sends

mod behaviour;
mod client;
mod collector;
mod engine;
pub mod mixture;
mod names;
mod session;
mod wire;

pub use behaviour::{Behaviour, Then};
pub use client::{Client, Reply};
pub use collector::Collector;
pub use engine::{FakeEngine, Received};
pub use names::{NameServer, Says};
pub use session::Session;
