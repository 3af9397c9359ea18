"""The plan: will this fleet work, what runs, what it can carry, what it costs.

    planner     fleet, profiles and what was observed, to a `Plan`: the one entry, `plan`
    variant     one variant, from words to what runs;  models, engines: what it names, found
    settings    who decides each engine flag;  flags: checked against the engine's own table
    sizing      how a replica is split so that it fits;  split (in profiles): what is legal
    fit         the memory of one device, and the verdict;  memory: the formulas under it
    kept        what a device keeps, in the engine's blocks;  reading: what a step reads of it
    context     how long a context may be, in words
    room        little room, and what a larger size would give;  units: figures in words
    measure     how fast it is, by perf, from facts;  scene: what the parts hand each other
    facts       the numbers that `perf`, the router and the simulated engine work with
    command     argv and environment of a replica;  stock: inventory, this machine, prices
    records     what a plan says;  codec: its JSON;  check: what a plan file may not say
    elsewhere   a variant that does not run on this machine: its slice, hosts and place
    placement   where it runs, from profile and file;  place: that, as records
    dealing     which host, devices and port each replica gets where no cluster deals
    capabilities  what each kind of target and router can carry out, and what it cannot, told
    loopback    addresses that mean the router's own container
    observed    what the caller saw
    service     which percentile of a service level is placed by, and what of it does nothing
    report      every problem, placed

Called by `render`, `apply`, `controller` and `cli`. Pure: reads no file, clock or environment.
"""

from llmd_ctl.plan.observed import Observed
from llmd_ctl.plan.planner import plan
from llmd_ctl.plan.records import (
    CONFIG,
    HOST,
    PORT,
    PYTHON,
    SCHEMA,
    Capacity,
    EndpointTls,
    Fit,
    Idle,
    Multimodal,
    Parallel,
    Plan,
    PlannedModel,
    PlannedVariant,
    RouterTls,
    Setting,
    Simulate,
    Slo,
    Summary,
    Traces,
    Workload,
)
from llmd_ctl.plan.resilience import Resilience

__all__ = [
    "CONFIG",
    "HOST",
    "PORT",
    "PYTHON",
    "SCHEMA",
    "Capacity",
    "EndpointTls",
    "Fit",
    "Idle",
    "Multimodal",
    "Observed",
    "Parallel",
    "Plan",
    "PlannedModel",
    "PlannedVariant",
    "Resilience",
    "RouterTls",
    "Setting",
    "Simulate",
    "Slo",
    "Summary",
    "Traces",
    "Workload",
    "plan",
]
