//! The program `llmd-engine`: see the library.

use std::process::ExitCode;

fn main() -> ExitCode {
    let code = llmd_engine::engine_main(std::env::args_os().skip(1).collect());
    ExitCode::from(u8::try_from(code).unwrap_or(1))
}
