//! The `llmd-router` binary; the wheel calls [`llmd_router::router_main`] instead.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = llmd_router::router_main(std::env::args_os().skip(1).collect());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
