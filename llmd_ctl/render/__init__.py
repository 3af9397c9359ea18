"""From a plan to what runs: texts and command lines. Pure: no file, process or clock.

Called by the controller (which writes and starts the results), by `apply` for names, and by `cli`
for files.

- `targets.py`  which formats a target has, and who makes them;  `file.py`: what they make
- `layout.py`   the paths of a fleet's state folder
- `process.py`  replicas: name, command, environment, engine.json
- `router.py`   router.yaml and replicas.json
"""

from llmd_ctl.render.layout import Layout
from llmd_ctl.render.process import ReplicaSpec, replica_specs
from llmd_ctl.render.router import RouterPlace, external_name, render_replicas, render_router

__all__ = [
    "Layout",
    "ReplicaSpec",
    "RouterPlace",
    "external_name",
    "render_replicas",
    "render_router",
    "replica_specs",
]
