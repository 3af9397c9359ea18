//! The command line and the signals of the router process.
//!
//! Exit codes: 0 ended as told, 1 requests were cut or the router could not start, 64 usage,
//! 65 the configuration is wrong.

use crate::control::{self, Command};
use crate::error::{StartError, printable};
use crate::files;
use crate::log::{self, Format};
use crate::reload;
use clap::Parser;
use std::ffi::OsString;
use std::io::Write;
use std::path::PathBuf;
use tokio::signal::unix::{SignalKind, signal};

const OK: i32 = 0;
const FAILED: i32 = 1;
const USAGE: i32 = 64;
const BAD_CONFIG: i32 = 65;

/// Routes requests for models to the endpoints that serve them.
#[derive(Debug, Parser)]
#[command(name = "llmd-router", version, no_binary_name = true)]
struct Arguments {
    /// The configuration (router.yaml)
    #[arg(long, value_name = "FILE")]
    config: PathBuf,
    /// Check the configuration and all files that it names, and end
    #[arg(long)]
    check: bool,
    /// How log lines look; the variable `LLMD_LOG` sets their level
    #[arg(long, value_enum, default_value = "text")]
    log: Format,
}

/// Runs a router until a signal ends it; `arguments` are those behind the program's name.
pub fn router_main(arguments: Vec<OsString>) -> i32 {
    let code = run(arguments);
    log::end();
    code
}

fn run(arguments: Vec<OsString>) -> i32 {
    let arguments = match Arguments::try_parse_from(arguments) {
        Ok(arguments) => arguments,
        Err(error) => {
            let _ = error.print();
            return if error.use_stderr() { USAGE } else { OK };
        }
    };
    log::start(arguments.log);
    if arguments.check {
        return match reload::check(&arguments.config) {
            Ok(config) => {
                let models = config.models.len();
                let plural = if models == 1 { "" } else { "s" };
                let file = printable(&arguments.config.display().to_string());
                say(&format!("{file}: ok, {models} model{plural}"));
                OK
            }
            Err(error) => {
                say(&format!("error: {error}"));
                BAD_CONFIG
            }
        };
    }
    files::raise();
    let running = match control::start(&arguments.config) {
        Ok(running) => running,
        Err(error) => {
            say(&format!("error: {error}"));
            return if matches!(error, StartError::Config(_)) { BAD_CONFIG } else { FAILED };
        }
    };
    let (data, admin) = (running.data, running.admin);
    if let Err(error) = follow_signals(running.commands()) {
        tracing::error!(%error, "no signals");
        running.tell(Command::Cut);
        running.wait();
        return FAILED;
    }
    // Whoever reads this may send a signal, which must find its handler.
    tracing::info!(%data, %admin, "listening");
    if running.wait() > 0 { FAILED } else { OK }
}

fn say(line: &str) {
    let _ = writeln!(std::io::stderr(), "{line}");
}

/// SIGHUP reloads; the first SIGTERM or SIGINT drains, the second cuts.
fn follow_signals(commands: tokio::sync::mpsc::Sender<Command>) -> std::io::Result<()> {
    let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build()?;
    let (mut hangup, mut terminate, mut interrupt) = {
        let _inside = runtime.enter();
        let kinds = [SignalKind::hangup(), SignalKind::terminate(), SignalKind::interrupt()];
        let [hangup, terminate, interrupt] = kinds.map(signal);
        (hangup?, terminate?, interrupt?)
    };
    let follow = async move {
        let mut draining = false;
        loop {
            let command = tokio::select! {
                _ = hangup.recv() => Command::Reload,
                _ = terminate.recv() => if draining { Command::Cut } else { Command::Drain },
                _ = interrupt.recv() => if draining { Command::Cut } else { Command::Drain },
                () = commands.closed() => return,
            };
            draining |= command == Command::Drain;
            if commands.send(command).await.is_err() {
                return;
            }
        }
    };
    std::thread::Builder::new()
        .name("signals".into())
        .spawn(move || runtime.block_on(follow))
        .map(drop)
}
