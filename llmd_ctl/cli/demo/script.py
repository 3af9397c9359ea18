"""What the demo does, in order, and the document of its numbers.

Called by `verb`. Each run starts from cold engines: apply, traffic, delete. The document is made
from the files of a folder that `--keep` leaves behind, so that anyone can compute it again.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from importlib import resources
from pathlib import Path
from typing import TYPE_CHECKING, Any

from msgspec import Struct
from msgspec.structs import replace

from llmd_ctl.cli import apply, delete, output
from llmd_ctl.cli.demo.metrics import retried
from llmd_ctl.cli.demo.numbers import VariantFacts, endings, variant_rows
from llmd_ctl.cli.demo.spans import SpanReceiver, tree
from llmd_ctl.cli.demo.traffic import Kill, Traffic, read_logs, send
from llmd_ctl.cli.document import schema_name
from llmd_ctl.cli.load.run import trace_context
from llmd_ctl.cli.load.traffic import BYTES_PER_TOKEN, plan_traffic
from llmd_ctl.cli.plan_view import plan_document, summary_line
from llmd_ctl.cli.planning import load_one, make_plan
from llmd_ctl.cli.progress import Progress

if TYPE_CHECKING:
    from llmd_ctl.cli.demo.protobuf import Span
    from llmd_ctl.cli.demo.sandbox import Sandbox
    from llmd_ctl.plan import Plan

Json = dict[str, Any]
SPEED = 0.25
LOAD = 1.0  # of the tokens that the plan says the fleet carries; half of them will be cached
SEED = 7
SCHEDULERS = ("expected-finish", "round-robin")
COLLECTOR = "http://127.0.0.1:4318"
SCHEDULER = "scheduler: expected-finish"
LOST = "endpoint_lost"  # the router's word for a connection that broke during a request


class Options(Struct, frozen=True):
    """What the user may choose."""

    seconds: float
    speed: float = SPEED
    profiles: Sequence[Path] = ()


def perform(options: Options, folder: Path, sandbox: Sandbox) -> Json:
    """Do all of it; `folder` gets the logs. Everything that is started is stopped, or swept."""
    traces: dict[str, list[Span]] = {}
    kills = []
    with SpanReceiver() as receiver:
        files = {
            name: _fleet_file(folder, receiver.url, name, options.profiles) for name in SCHEDULERS
        }
        plan = make_plan(load_one(str(files[SCHEDULERS[0]])), options.speed)
        output.note(f"The fleet is valid. Plan: {summary_line(plan)}")
        traffic = _traffic(plan, options.seconds)
        for name in SCHEDULERS:
            sandbox.room(name)
            kills.append(_run(files[name], options.speed, name, traffic, folder))
            traffic = replace(traffic, victim=kills[0].variant)  # the same engine in each run
            traces = traces or receiver.traces()  # the same requests have the same trace ids
    (folder / "runs.json").write_text(json.dumps(SCHEDULERS), "utf-8")
    return _document(plan, traffic, kills, traces, folder)


def _fleet_file(folder: Path, collector: str, scheduler: str, profiles: Sequence[Path]) -> Path:
    """The demo's fleet with this run's collector, scheduler and profiles written into it."""
    text = resources.files("llmd_ctl.cli.demo").joinpath("fleet.yaml").read_text("utf-8")
    text = text.replace(COLLECTOR, collector).replace(SCHEDULER, f"scheduler: {scheduler}")
    if profiles:
        listed = json.dumps([str(path.absolute()) for path in profiles])
        text = text.replace("spec:\n", f"spec:\n  profiles: {listed}\n", 1)
    path = folder / f"fleet-{scheduler}.yaml"
    path.write_text(text, "utf-8")
    return path


def _traffic(plan: Plan, seconds: float) -> Traffic:
    """As much traffic as loads the fleet to `LOAD` of what its plan says it carries."""
    [model] = plan.models
    carries = sum(v.capacity.tokens_per_second * v.replicas for v in model.variants if v.capacity)
    sample = plan_traffic(seed=SEED, rate=20.0, seconds=60.0)
    each = [r.prompt_bytes / BYTES_PER_TOKEN + r.max_tokens for r in sample]
    rate = LOAD * carries / (sum(each) / len(each))
    return Traffic(model.name, round(rate, 3), seconds, SEED)


def _run(file: Path, speed: float, scheduler: str, traffic: Traffic, folder: Path) -> Kill:
    """One run from cold: apply, traffic with a crash in it, delete."""
    output.note(f"\n{scheduler}: apply")
    plan = make_plan(load_one(str(file)), speed)
    apply.run(plan)
    place = folder / "runs" / scheduler
    with Progress() as progress:

        def show(text: str) -> None:
            progress.update(text, passing=True)

        output.note(f"{scheduler}: {traffic.seconds:g} s of traffic, {traffic.rate:g} requests/s")
        kill = send(plan.fleet, traffic, place, show)
        progress.done(f"{kill.variant} was killed after {kill.after_seconds:.1f} s (SIGKILL)")
    (place / "plan.json").write_text(json.dumps(plan_document(plan, ()), indent=2), "utf-8")
    delete.run(plan.fleet)
    return kill


def _document(
    plan: Plan,
    traffic: Traffic,
    kills: Sequence[Kill],
    traces: dict[str, list[Span]],
    folder: Path,
) -> Json:
    """Every number of the demo, from its files."""
    runs = [run_document(plan, folder / "runs" / name) for name in SCHEDULERS]
    assert plan.simulate is not None
    return {
        "schema": schema_name("demo"),
        "simulated": True,
        "fleet": plan.fleet,
        "model": traffic.model,
        "speed": plan.simulate.speed,
        "seed": traffic.seed,
        "seconds": traffic.seconds,
        "requestsPerSecond": traffic.rate,
        "plan": plan_document(plan, ()),
        "runs": runs,
        "killed": [
            {
                "scheduler": name,
                "variant": kill.variant,
                "replica": kill.replica,
                "afterSeconds": kill.after_seconds,
            }
            for name, kill in zip(SCHEDULERS, kills, strict=True)
        ],
        "trace": _trace(folder / "runs" / SCHEDULERS[0], traces),
    }


def run_document(plan: Plan, folder: Path) -> Json:
    """The numbers of one run, from its logs."""
    [model] = plan.models
    facts = [
        VariantFacts(v.name, v.accelerator, v.capacity.tokens_per_second * v.replicas)
        for v in model.variants
        if v.capacity is not None
    ]
    logs = read_logs(folder)
    rows, every = variant_rows(logs, facts)
    ended = endings(logs.load)
    return {
        "scheduler": folder.name,
        "requests": len(logs.load),
        "variants": rows,
        "all": every,
        "ended": ended,
        "retried": retried((folder / "metrics.txt").read_text("utf-8")),
        "streamsEndedByErrorEvent": ended["streams"]["error-event"],
        "silentEnds": ended["streams"]["silent"] + ended["nonStreams"]["silent"],
    }


def _trace(folder: Path, traces: dict[str, list[Span]]) -> Json | None:
    """One trace of the run: a request that survived the crash, if there is one, else any.

    Of several one that was under way at the engine, and not one that came when it was gone.
    """
    found: list[tuple[bool, int, str, str]] = []
    for line in read_logs(folder).load:
        trace_id = trace_context(line["requestId"]).split("-")[1]
        spans = traces.get(trace_id, [])
        attempts = sum(span.name == "attempt" for span in spans)
        under_way = any(span.attributes.get("error.type") == LOST for span in spans)
        if line["ended"] == "done" and attempts:
            found.append((under_way, attempts, trace_id, line["requestId"]))
    if not found:
        return None
    _, attempts, trace_id, request_id = max(found)
    why = "a request whose engine was killed" if attempts > 1 else "an ordinary request"
    spans = traces[trace_id]
    return {"traceId": trace_id, "requestId": request_id, "why": why, "spans": tree(spans)}
