"""The controller: the loop that outlives `apply` and keeps a fleet on this machine as desired.

- `run.py`      one controller: lock, signals, ticks
- `loop.py`     one tick: read, decide, move on, write
- `decide.py`   which replicas start and which go (pure)
- `replica.py`, `router.py`, `child.py`   the life of one replica, of the router, of a process
- `adopt.py`    what a new controller takes over
- `wish.py`     the desired revision, parsed once

It never talks to the command line: it is told through desired.json and tells through
observed.json. It is not on the path of a request.
"""
