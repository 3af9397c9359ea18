//! The simulated engine: an `OpenAI` server without a model.
//!
//! It answers like vLLM – API, metric names, prefix cache, continuous batching – and takes as
//! long as the replica it stands for would: all of its timing is `llmd_sim::engine` over
//! `llmd-perf` and the facts in `engine.json`, slowed by `facts.speed`. Text is filler, and every
//! answer says that it is simulated. It never decides where a request goes, and makes no
//! traces: `traceparent` is accepted and goes nowhere.
//!
//! - `config`: engine.json; `error`: why it cannot start
//! - `server`: sockets, drain; `http`: paths; `job`: one request from arrival to its log line
//! - `request`, `fields`, `api_error`: bodies in; `answer`, `filler`: bodies out
//! - `prompt`: the rule that counts tokens; `clockwork`: the engine model in real time
//! - `stats`: metrics; `access_log`: a line a request

mod access_log;
mod answer;
mod api_error;
mod clockwork;
mod config;
mod error;
mod fields;
mod filler;
mod http;
mod job;
mod prompt;
mod request;
mod server;
mod stats;

pub use config::Config;
pub use error::StartError;
pub use server::Server;

use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};
use tracing_subscriber::EnvFilter;

/// Exit code for a wrong command line.
const USAGE: i32 = 64;

/// A simulated engine: answers as fast as the accelerator that it stands for.
#[derive(Debug, Parser)]
#[command(name = "llmd-engine", version, no_binary_name = true)]
struct Arguments {
    /// The configuration (engine.json)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and end
    #[arg(long)]
    check: bool,
}

/// Runs the program with the arguments that follow its name, until a signal or an error;
/// returns the exit code. Messages go to stderr.
pub fn engine_main(arguments: Vec<OsString>) -> i32 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(told) => {
            let _ = told.print();
            return if told.use_stderr() { USAGE } else { 0 };
        }
    };
    start_logging();
    match run(&arguments) {
        Ok(()) => 0,
        Err(error) => {
            say(&format!("error: {error}"));
            error.exit_code()
        }
    }
}

/// Lines on stderr; `LLMD_LOG` sets their level. A second start in one process changes nothing.
fn start_logging() {
    let level = EnvFilter::try_from_env("LLMD_LOG").unwrap_or_else(|_| EnvFilter::new("info"));
    let lines = tracing_subscriber::fmt().with_writer(std::io::stderr).with_env_filter(level);
    let _ = lines.with_ansi(false).try_init();
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

fn run(arguments: &Arguments) -> Result<(), StartError> {
    let config = Config::load(&arguments.config)?;
    if arguments.check {
        say(&format!("{}: ok", arguments.config.display()));
        return Ok(());
    }
    // One thread: several engines share a machine, and one serves thousands of tokens a second.
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build()
        .map_err(StartError::Runtime)?;
    runtime.block_on(serve(config))
}

async fn serve(config: Config) -> Result<(), StartError> {
    let mut terminate = signal(SignalKind::terminate()).map_err(StartError::Runtime)?;
    let mut interrupt = signal(SignalKind::interrupt()).map_err(StartError::Runtime)?;
    let (accelerator, speed) = (config.accelerator.clone(), config.facts.speed);
    let server = Server::bind(config).await?;
    let address = server.address().map_err(StartError::Runtime)?;
    tracing::info!(%address, accelerator, speed, "simulated engine listens");
    let (stop, stop_now) = (tokio::sync::Notify::new(), tokio::sync::Notify::new());
    let signals = async {
        for told in [&stop, &stop_now] {
            tokio::select! { _ = terminate.recv() => {} _ = interrupt.recv() => {} }
            told.notify_one();
        }
        std::future::pending::<()>().await;
    };
    tokio::select! {
        () = server.serve(stop.notified(), stop_now.notified()) => {}
        () = signals => {}
    }
    tracing::info!("simulated engine ends");
    Ok(())
}
