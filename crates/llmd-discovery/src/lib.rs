//! Where the endpoints of a pool are, as one stream of whole snapshots.
//!
//! Called by the router, one [`Discovery`] for each model. It never decides which endpoint gets
//! a request, and never asks an endpoint whether it is well. A source publishes all it knows
//! each time; what is missing from a snapshot is gone.
//!
//! - `source`: the trait that each source has, and the sink that it writes to
//! - `sources`: those of today: static, file (llm-d's `endpoints.yaml`), process, dns
//! - `follow`: a thread that reads a file again when it changes
//! - `endpoint`, `error`: what comes out; `echo`: how others' text is told
//! - `fuzz`: the parser of files, for `fuzz/` only

mod echo;
mod endpoint;
mod error;
mod follow;
#[doc(hidden)]
pub mod fuzz;
mod source;
mod sources;

pub use echo::{echo, echo_quoted, printable};
pub use endpoint::{Endpoint, Snapshot, State};
pub use error::DiscoveryError;
pub use follow::follow;
pub use source::{Discovery, Reading, Sink, Source};
pub use sources::{
    DnsName, DnsSource, FileSource, ProcessSource, StaticSource, read_any, read_file,
    read_file_up_to, text,
};
