"""How fast a sized replica is, by `llmd_ctl.perf`, and whether it keeps what was promised.

Called by `variant`. It makes the facts and asks perf; no time is computed here. Pure.
"""

from __future__ import annotations

from llmd_ctl import perf
from llmd_ctl.plan.facts import Replica, facts_of
from llmd_ctl.plan.records import Capacity, Slo, Workload
from llmd_ctl.plan.report import Path, Report
from llmd_ctl.plan.scene import Ready, Scene
from llmd_ctl.plan.sizing import Sized
from llmd_ctl.plan.units import about, duration

Measured = tuple[perf.ReplicaFacts, Capacity, tuple[str, ...]]


def measure(
    scene: Scene, ready: Ready, sized: Sized, slo: Slo | None, price: float | None
) -> Measured | None:
    """Return facts, capacity, and what is not known of them; None is reported."""
    replica = Replica(
        accelerator=ready.accelerator,
        engine=ready.chosen.engine,
        shape=ready.shape,
        parallel=sized.parallel,
        load=sized.load,
        cores=ready.cores or 1,
        speed=(scene.simulate or 1.0) if ready.simulated else 1.0,
        prefix_caching=ready.settings.value("prefixCaching") is not False,
        price_per_hour=price,
    )
    try:
        facts, notes = facts_of(replica, sized.fit)
        perf.check(facts)
    except ValueError as error:
        message = f"the figures of {ready.accelerator.name} make no possible replica: {error}"
        scene.report.add("LC2008", message, (*ready.path, "accelerator"))
        return None
    return facts, capacity_of(facts, slo), notes


def capacity_of(facts: perf.ReplicaFacts, slo: Slo | None) -> Capacity:
    """Return what a replica carries under the stated workload, cut to what its context takes."""
    whole = Workload()
    total = min(whole.prompt_tokens + whole.output_tokens, facts.max_model_len)
    output = max(1, total * whole.output_tokens // (whole.prompt_tokens + whole.output_tokens))
    workload = Workload(max(1, total - output), output)
    promised = None if slo is None or slo.itl_us is None else float(slo.itl_us)
    found = perf.capacity(facts, workload.prompt_tokens, workload.output_tokens, promised)
    return Capacity(
        prefill_tokens_per_second=found.prefill_tokens_per_second,
        decode_tokens_per_second=found.decode_tokens_per_second,
        itl_us=found.itl_us,
        itl_batch=found.batch,
        ttft_us=perf.request_us(facts) + perf.prefill_us(facts, workload.prompt_tokens),
        tokens_per_second=found.tokens_per_second,
        requests_per_second=found.requests_per_second,
        workload=workload,
    )


def check_promises(report: Report, title: str, capacity: Capacity, slo: Slo, path: Path) -> None:
    """Warn of a service level that the planned speeds cannot keep even for one request."""
    kept = (("ttft", capacity.ttft_us, slo.ttft_us), ("itl", capacity.itl_us, slo.itl_us))
    for name, planned, promised in kept:
        if promised is not None and planned > promised:
            message = (
                f"{title} cannot keep slo.{name} of {duration(promised)}: "
                f"an idle replica takes {about(planned)}"
            )
            report.warn("LC3020", message, (*path, "slo", name))
