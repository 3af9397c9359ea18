"""Target local as a script: run.sh starts engines and router by hand, and stops them at its end.

For those who want no controller: one process tree on a terminal or under a supervisor of theirs.
Nothing is restarted: when one part ends, all do. Found by `targets`. Pure.
"""

from __future__ import annotations

from llmd_ctl.plan import CONFIG, HOST, PORT, PYTHON, Plan
from llmd_ctl.plan.dealing import Seat
from llmd_ctl.plan.place import PlannedTarget
from llmd_ctl.render.addresses import (
    device_env,
    engine_text,
    is_router_here,
    listen_on,
    router_yaml,
    seats,
)
from llmd_ctl.render.file import RenderedFile, header
from llmd_ctl.render.router import Listen
from llmd_ctl.render.shell import command_line, quoted

DATA, ADMIN = "127.0.0.1:8000", "127.0.0.1:9090"
KEY = "run/admin.key"
START = r"""# Starts what follows, and stops all of it when one part ends or this script does.
# Logs are in run/. PYTHON is a Python that llmd-ctl is installed in, python3 where it is not set;
# GRACE_SECONDS is how long the router, and then the engines, may take to end.
set -u
here=$(CDPATH='' cd -- "$(dirname -- "$0")" && pwd) || exit 1
python=${PYTHON:-python3}
engines=
router=

say() { printf '%s\n' "$*" >&2; }

alive() { kill -0 "$1" 2>/dev/null; }

# Asks processes to end, and insists when the time is over.
stop() {
    left=${GRACE_SECONDS:-40}
    for pid in "$@"; do kill -TERM "$pid" 2>/dev/null; done
    for pid in "$@"; do
        while alive "$pid" && [ "$left" -gt 0 ]; do sleep 1; left=$((left - 1)); done
        alive "$pid" && say "$pid does not end: it is killed" && kill -KILL "$pid"
        wait "$pid" 2>/dev/null
    done
}

# The router first: what it has taken in is answered before the engines go.
stop_all() {
    trap '' INT TERM HUP
    stop $router
    stop $engines
}

trap stop_all EXIT
trap 'exit 129' HUP
trap 'exit 130' INT
trap 'exit 143' TERM
mkdir -p -- "$here/run" || exit 1
"""
PYTHON_CHECK = """
"$python" -P -c 'import llmd_ctl' || {
    say "llmd-ctl is not installed in $python: set PYTHON to a Python that has it"
    exit 1
}
"""
ROUTER = r"""
[ -s "$here/%(key)s" ] ||
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$here/%(key)s") || exit 1
"$python" -P -m llmd_ctl.router --config "$here/router.yaml" \
    </dev/null >"$here/run/router.log" 2>&1 &
router=$!
say "router: pid $!, %(url)s, log $here/run/router.log"
"""
WATCH = """
# A job of the shell is gone for `kill` once the shell has waited for another one.
while sleep 1; do
    for pid in $engines $router; do
        alive "$pid" || { say "$pid ended: see its log"; exit 1; }
    done
done
"""


def render(plan: Plan, target: PlannedTarget) -> tuple[RenderedFile, ...]:
    """The script, the router's configuration and those of simulated engines."""
    found = seats(plan, target)
    has_router = is_router_here(plan, target)
    parts = ["#!/bin/sh\n", header(plan, target.name), START]
    if has_router or any(PYTHON in seat.variant.command for seat in found):
        parts.append(PYTHON_CHECK)
    parts += [_engine(plan, target, seat) for seat in found]
    files = [
        RenderedFile(_config(seat), engine_text(seat, listen_on(plan, target, seat), seat.port))
        for seat in found
        if seat.variant.simulated
    ]
    if has_router:
        url = f"{'http' if plan.router_tls is None else 'https'}://{DATA}"
        parts.append(ROUTER % {"key": KEY, "url": url})
        text = router_yaml(plan, target, Listen(DATA, ADMIN), KEY)
        files.append(RenderedFile("router.yaml", text))
    files.append(RenderedFile("run.sh", "".join((*parts, WATCH)), executable=True))
    return tuple(sorted(files, key=lambda file: file.path))


def _config(seat: Seat) -> str:
    return f"engines/{seat.name}.json"


def _engine(plan: Plan, target: PlannedTarget, seat: Seat) -> str:
    """Starts one engine; `exec`, so that its pid is the engine's own."""
    host = listen_on(plan, target, seat)
    env = {**device_env(seat), **seat.variant.env}
    open_places = {
        HOST: host,
        PORT: str(seat.port),
        PYTHON: '"$python"',
        CONFIG: f'"$here/{_config(seat)}"',
    }
    log = f"$here/run/{seat.name}.log"
    lines = (
        "",
        f"# {seat.name}",
        "(",
        *(f"    export {name}={quoted(value)}" for name, value in sorted(env.items())),
        f"    exec {command_line(seat.variant.command, open_places)}",
        f') </dev/null >"{log}" 2>&1 &',
        'engines="$engines $!"',
        f'say "{seat.name}: pid $!, {host}:{seat.port}, log {log}"',
    )
    return "\n".join(lines) + "\n"
