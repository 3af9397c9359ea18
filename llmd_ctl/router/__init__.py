"""The router seen from Python: the typed config it is started with, and its admin API.

The data plane itself is `crates/llmd-router`, the choice of an endpoint `crates/llmd-sched`; this
package only configures, starts and asks. It never sees a user's request.

- `config.py`   RouterConfig: what `render` writes as router.yaml
- `answer.py`   what it answers, as records
- `admin.py`    RouterAdmin: status, probe and one completion over HTTP
"""

from __future__ import annotations

import sys


def main() -> int:
    """Run the router in this process: `llmd-router --config router.yaml [--check]`."""
    # Loaded here, so that rendering a config needs no compiled module.
    from llmd_ctl import _native

    return _native.router_main(sys.argv[1:])
