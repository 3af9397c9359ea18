# Shared by the programs in ci/: prints each step and its seconds, and stops at the first failure.
# Sourced, never run.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
ROOT=$PWD
BIN=$ROOT/.venv/bin
# One interpreter for every build of the extension: another one would build pyo3 anew each time.
export PYO3_PYTHON=$BIN/python

# step NAME COMMAND...: runs one step. Not inside an `if`: that would switch off `set -e` in it.
step() {
  STEP=$1 STEP_START=$SECONDS
  shift
  echo "==> $STEP"
  "$@"
  echo "==> $STEP: $((SECONDS - STEP_START)) s"
  STEP=
}
STEP=
trap '[ -z "$STEP" ] || echo "==> $STEP: FAILED after $((SECONDS - STEP_START)) s" >&2' EXIT

# The file is there and nothing of the other paths is newer than it.
is_newer_than() {
  local file=$1
  shift
  [ -e "$file" ] && [ -z "$(find "$@" -newer "$file" -type f -print -quit)" ]
}
