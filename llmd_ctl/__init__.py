"""llmd-ctl: one fleet file, many accelerators, one service.

The control plane. It says what should run and makes it so; it is never on the request path.

    cli -> controller -> apply -> render -> router, sim -> plan -> perf, profiles -> spec -> errors

An arrow means "may import". The hot path is Rust, in `crates/`; Python reaches it only through
`llmd_ctl._native`, and only from `perf`, `router` and `sim`.
"""
