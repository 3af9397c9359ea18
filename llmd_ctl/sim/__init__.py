"""The simulated engine seen from Python: it is only started from here.

The engine itself is `crates/llmd-engine`; its speed comes from `crates/llmd-perf` over the facts
that `render` writes into its engine.json. Nothing it answers is said to be real.
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run a simulated engine in this process: `llmd-engine --config engine.json`."""
    # Loaded here, so that importing the package needs no compiled module.
    from llmd_ctl import _native

    return _native.engine_main(sys.argv[1:])
