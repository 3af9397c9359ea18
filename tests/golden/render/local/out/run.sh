#!/bin/sh
# Written by llmd-ctl 0.1.0 from fleet prod, target here.
# spec 0000000000000000000000000000000000000000000000000000000000000000
# Edits are overwritten: change the fleet and render again.
# Starts what follows, and stops all of it when one part ends or this script does.
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

"$python" -P -c 'import llmd_ctl' || {
    say "llmd-ctl is not installed in $python: set PYTHON to a Python that has it"
    exit 1
}

# chat-h100-0
(
    export CUDA_VISIBLE_DEVICES=0
    export DO_NOT_TRACK=1
    export GREETING='it'\''s $HOME'
    export VLLM_NO_USAGE_STATS=1
    exec vllm serve meta-llama/Llama-3.1-8B-Instruct --served-model-name chat assistant --host 127.0.0.1 --port 18000 --block-size 16 --max-model-len 8192 --max-num-batched-tokens 8192 --max-num-seqs 1024
) </dev/null >"$here/run/chat-h100-0.log" 2>&1 &
engines="$engines $!"
say "chat-h100-0: pid $!, 127.0.0.1:18000, log $here/run/chat-h100-0.log"

# chat-h100-1
(
    export CUDA_VISIBLE_DEVICES=1
    export DO_NOT_TRACK=1
    export GREETING='it'\''s $HOME'
    export VLLM_NO_USAGE_STATS=1
    exec vllm serve meta-llama/Llama-3.1-8B-Instruct --served-model-name chat assistant --host 127.0.0.1 --port 18001 --block-size 16 --max-model-len 8192 --max-num-batched-tokens 8192 --max-num-seqs 1024
) </dev/null >"$here/run/chat-h100-1.log" 2>&1 &
engines="$engines $!"
say "chat-h100-1: pid $!, 127.0.0.1:18001, log $here/run/chat-h100-1.log"

# chat-sim-0
(
    exec "$python" -m llmd_ctl.sim --config "$here/engines/chat-sim-0.json"
) </dev/null >"$here/run/chat-sim-0.log" 2>&1 &
engines="$engines $!"
say "chat-sim-0: pid $!, 127.0.0.1:18002, log $here/run/chat-sim-0.log"

[ -s "$here/run/admin.key" ] ||
    (umask 077 && od -An -N32 -tx1 /dev/urandom | tr -d ' \n' >"$here/run/admin.key") || exit 1
"$python" -P -m llmd_ctl.router --config "$here/router.yaml" \
    </dev/null >"$here/run/router.log" 2>&1 &
router=$!
say "router: pid $!, http://127.0.0.1:8000, log $here/run/router.log"

# A job of the shell is gone for `kill` once the shell has waited for another one.
while sleep 1; do
    for pid in $engines $router; do
        alive "$pid" || { say "$pid ended: see its log"; exit 1; }
    done
done
