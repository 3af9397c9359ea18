//! The two ends of a bench of HTTP routers: stand-in engines, and a load that knows what a right
//! answer is. Called by `benchmarks/router.py`; never part of what is measured.
//!
//! Both are one thread each, over plain sockets, so that they cost less than any router between
//! them and fit on the one processor that the router under test has not.

mod body;
mod engine;
mod load;
mod process;
mod stream;
mod tally;
mod wire;

use clap::Parser;
use std::io::{self, Write as _};

/// Stand-in engines and load for the router's bench.
#[derive(Debug, Parser)]
enum Program {
    /// Answers as engines do, on several ports
    Engines(engine::Options),
    /// Sends requests and prints what came of them as one JSON object
    Load(load::Options),
    /// Opens streams, holds them open and prints what each costs the watched process
    Hold(stream::Options),
    /// Prints what a process and its children use in some seconds
    Watch(process::Options),
}

fn main() -> io::Result<()> {
    let program = Program::parse();
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let report = match program {
        Program::Engines(options) => return runtime.block_on(engine::run(options)),
        Program::Load(options) => runtime.block_on(load::run(options))?,
        Program::Hold(options) => runtime.block_on(stream::run(options))?,
        Program::Watch(options) => runtime.block_on(process::run(options))?,
    };
    writeln!(io::stdout(), "{report}")
}
