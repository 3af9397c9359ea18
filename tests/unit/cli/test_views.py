"""What people read: the plan, a status, the demo. Nothing unknown reads as zero."""

import io
import re
from collections.abc import Iterable
from importlib import resources
from pathlib import Path
from typing import Any

import pytest
from msgspec.structs import replace
from rich.console import Console, RenderableType

from llmd_ctl.apply.changes import Change
from llmd_ctl.cli.apply import served_line
from llmd_ctl.cli.demo import script
from llmd_ctl.cli.demo.metrics import retried
from llmd_ctl.cli.demo.view import conclusion, summary_view, trace_view
from llmd_ctl.cli.plan_view import (
    command_line,
    fit_line,
    plan_document,
    plan_from_document,
    plan_table,
    plan_view,
    size,
    summary_line,
)
from llmd_ctl.cli.planning import load_one, make_plan
from llmd_ctl.plan import (
    HOST,
    PORT,
    Capacity,
    Fit,
    Parallel,
    Plan,
    PlannedModel,
    PlannedVariant,
    Setting,
    Simulate,
    Summary,
)
from tests.unit.plan.fleets import fleet_text, plan_text

GIB = 1 << 30
FIT = Fit(
    verdict="fits", memory_bytes=80 * GIB, utilization=0.9, budget_bytes=72 * GIB,
    weight_bytes=15 * GIB, reserve_bytes=3 * GIB, activation_bytes=GIB, window_in_flight_bytes=0,
    kv_bytes_limit=None, kv_bytes_free=53 * GIB, kv_bytes_per_token=131072,
    window_bytes_per_request=0, state_bytes_per_request=0, kv_tokens=434_176,
    max_model_len=8192, needed_tokens=8192,
    concurrency=53.0, max_sequences=256, lines=("a term of the arithmetic",),
)  # fmt: skip
VARIANT = PlannedVariant(
    name="h100", accelerator="nvidia-h100", vendor="nvidia", target="here", engine="vllm",
    engine_version="0.32.0", executable=None, simulated=False, replicas=3,
    parallelism=Parallel(tensor=2), devices_per_replica=2, endpoint_url=None, served_name=None,
    max_model_len=8192, settings={"--max-num-seqs": Setting(256, "profile", ("engine default",))},
    command=("vllm", "serve", "x"), fit=FIT,
    capacity=Capacity(9000.0, 4000.0, 12_340.0, 64, 50_000.0, 1000.0, 3.0),
    price_per_hour=17.7, reasons=("two devices hold it",), ruled_out=("tensor 1: too small",),
)  # fmt: skip
UNKNOWN = replace(
    VARIANT, name="old", endpoint_url="http://10.0.0.7:8000", fit=None, capacity=None,
    price_per_hour=None, command=(), settings={}, reasons=(), ruled_out=(),
)  # fmt: skip


def plan_of(*variants: PlannedVariant, simulate: float | None = None) -> Plan:
    model = PlannedModel(
        "chat", (), "hf://a/b", None, 8192, None, "latency", "round-robin", variants
    )
    summary = Summary(fits=True, price_per_hour=None, replicas=3, devices=6, unpriced=("chat/old",))
    return Plan("prod", "hash", Simulate(simulate) if simulate else None, summary, (model,))


def drawn(items: Iterable[RenderableType], width: int = 160) -> str:
    out = io.StringIO()
    console = Console(file=out, width=width, highlight=False)
    for item in items:
        console.print(item)
    return out.getvalue()


def test_the_table_counts_all_replicas_and_shows_the_arithmetic() -> None:
    shown = drawn(plan_view(plan_of(VARIANT)))
    for words in ("3 × 2 nvidia-h100", "vllm 0.32.0", "3,000", "12.3 ms @ 64", "17.70", "26%"):
        assert words in shown
    assert "80.0 GiB x 0.9 = 72.0 GiB, less 15.0 GiB weights and 4.0 GiB reserve: 53.0" in shown
    assert "two devices hold it" in shown
    assert "tensor 1: too small" in shown


def test_the_line_of_arithmetic_adds_up() -> None:
    memory, share, budget, weights, reserve, left = map(
        float, re.findall(r"\d+\.\d+", fit_line(VARIANT))[:6]
    )
    assert memory * share == pytest.approx(budget, abs=0.1)
    assert budget - weights - reserve == pytest.approx(left, abs=0.2)


def test_the_columns_are_explained_and_each_row_says_how_far_to_trust_its_speeds() -> None:
    known = replace(VARIANT, facts={"confidence": "medium"})
    shown = drawn(plan_view(plan_of(known)))
    lines = shown.splitlines()
    assert "Confidence" in next(line for line in lines if "Tokens/s" in line)
    assert " medium " in next(line for line in lines if " h100 " in line)
    said = " ".join(shown.split())
    for words in (
        "Tokens/s: prompts and answers of all replicas, for requests of 1,024 + 256 tokens.",
        "Fit: share of the memory budget that is taken before any KV cache.",
        "ITL: between tokens, so many requests at once", "high is measured",
    ):  # fmt: skip
        assert words in said
    assert "Tokens/s:" not in drawn(plan_view(plan_of(UNKNOWN)))


def test_a_plan_that_holds_one_request_says_so_in_the_singular() -> None:
    line = fit_line(replace(VARIANT, fit=replace(FIT, kv_tokens=8300, concurrency=1.01)))
    assert line.endswith("That is 8,300 tokens, or 1 request of the full 8,192 at once")


def test_the_readme_shows_the_plan_of_the_demo_and_a_request_that_it_would_show(
    repo_root: Path,
) -> None:
    fleet = resources.files("llmd_ctl.cli.demo").joinpath("fleet.yaml")
    plan = make_plan(load_one(str(fleet)), script.SPEED)
    readme = (repo_root / "README.md").read_text()
    shown = drawn([plan_table(plan), summary_line(plan)]).strip("\n")
    assert "\n".join(line.rstrip() for line in shown.splitlines()) in readme
    assert f"variant gaudi, error {script.LOST}" in readme


def test_kv_that_is_limited_is_said_beside_what_would_be_left() -> None:
    assert "53.0 GiB for KV, of which it takes 1.0 GiB" in fit_line(
        replace(VARIANT, fit=replace(FIT, kv_bytes_limit=GIB))
    )


def test_what_does_not_apply_is_a_dash_and_a_price_is_unknown() -> None:
    shown = drawn(plan_view(plan_of(UNKNOWN)))
    row = next(line for line in shown.splitlines() if " old " in line)
    assert "runs already" in row
    assert row.split()[-5:] == ["-"] * 4 + ["unknown"]


def test_a_price_is_of_what_is_started_and_says_what_it_leaves_out() -> None:
    def line(*variants: PlannedVariant, price: float | None) -> str:
        plan = plan_of(*variants)
        return summary_line(replace(plan, summary=replace(plan.summary, price_per_hour=price)))

    assert line(VARIANT, price=17.7).endswith(", $17.70/h")
    assert line(VARIANT, UNKNOWN, price=17.7).endswith(", $17.70/h without what runs already")
    assert line(VARIANT, price=None).endswith(", price not known (chat/old without one)")
    outside = line(UNKNOWN, price=0.0)
    assert "$" not in outside
    assert outside.endswith(", nothing is priced (all of it runs already)")
    assert line(replace(VARIANT, replicas=0), price=0.0).endswith(", $0.00/h")


def test_a_revision_says_whom_it_serves_and_whom_nobody_does() -> None:
    def line(*models: PlannedModel) -> str:
        return served_line(replace(plan_of(), models=models), 9, "http://x:1")

    [chat] = plan_of(VARIANT).models
    [idle] = plan_of(replace(VARIANT, replicas=0)).models
    [old] = plan_of(UNKNOWN).models
    assert line(chat) == "Revision 9 of prod serves chat at http://x:1/v1"
    assert line(replace(old, name="old")) == "Revision 9 of prod serves old at http://x:1/v1"
    assert line(idle).startswith("Revision 9 of prod serves nobody: it has no replicas")
    plan = replace(plan_of(), models=(chat,))
    assert served_line(plan, 9, "http://x:1", ["chat/h100"]).endswith("; SIMULATED: all of it")
    plan = replace(plan_of(), models=(chat, replace(old, name="old")))
    assert served_line(plan, 9, "http://x:1", ["old/old"]).endswith("; SIMULATED: old/old")
    both = line(chat, replace(idle, name="code"))
    assert both.endswith("serves chat at http://x:1/v1; nobody serves code (no replicas)")


def test_explain_tells_every_setting_and_who_set_it() -> None:
    shown = drawn(plan_view(plan_of(VARIANT), explain=True))
    assert "--max-num-seqs = 256  (by profile, over engine default)" in shown
    assert "a term of the arithmetic" in shown
    assert "vllm serve x" in shown


def test_a_command_is_shown_without_placeholders() -> None:
    command = ("vllm", "serve", "a b", "--host", HOST, "--port", PORT)
    line = command_line(replace(VARIANT, command=command, env={"A": "1"}))
    said = "A=1 vllm serve 'a b' --host 127.0.0.1 --port PORT  (PORT is chosen when it starts)"
    assert line == said
    shown = drawn(plan_view(plan_of(replace(VARIANT, command=command)), explain=True))
    assert "{" not in shown


@pytest.mark.parametrize("width", [80, 100, 160])
def test_no_number_is_cut_on_a_narrow_terminal(width: int) -> None:
    shown = drawn(plan_view(plan_of(VARIANT)), width)
    assert "…" not in shown
    assert "12.3 ms @ 64" in shown


def test_simulated_is_said_first_with_its_speed() -> None:
    simulated = replace(VARIANT, simulated=True)
    shown = drawn(plan_view(plan_of(simulated, simulate=0.25)))
    assert "SIMULATED engines at 0.25 × the planned speed" in shown.splitlines()[0]
    assert "vllm" not in shown
    assert " simulated " in shown


def test_a_plan_document_counts_its_changes_and_reads_back_as_the_same_plan() -> None:
    plan = plan_text(fleet_text("- {name: h100, accelerator: nvidia-h100}"))
    document = plan_document(plan, [Change("add", "chat", "h100", ("3 × nvidia-h100",))])
    assert document["summary"]["changes"] == 1
    assert plan_from_document(document) == plan


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (2048, "2.0 KiB"), (3 << 20, "3.0 MiB"), (-GIB, "-1.0 GiB")]
)
def test_sizes_have_the_unit_that_reads_best(count: int, text: str) -> None:
    assert size(count) == text


def test_retries_of_streams_are_not_counted_as_those_of_non_streams() -> None:
    page = (
        '# TYPE llmd_router_retries counter\n'
        'llmd_router_retries_total{model="chat",stream="false"} 3\n'
        'llmd_router_retries_total{model="other",stream="false"} 1\n'
        'llmd_router_retries_total{model="chat",stream="true"} 40\n'
    )  # fmt: skip
    assert retried(page) == {"all": 44, "nonStreams": 4}


def test_the_demo_ends_with_its_schedulers_side_by_side() -> None:
    runs = demo_document()["runs"]
    assert conclusion(runs) == (
        "expected-finish against round-robin: TTFT p95 430 ms against 430 ms, "
        "ITL p95 430 ms against 430 ms, prefix hits 51% against 51%"
    )


def demo_document() -> dict[str, Any]:
    times = {"count": 3, "p50": 110_000, "p95": 430_000, "p99": None}
    row = {
        "requests": 90, "tokens": 120_300, "prefixHitRate": 0.51, "ttftUs": times, "itlUs": times,
        "tokenShare": 0.4, "capacityShare": 0.38, "name": "h100", "accelerator": "nvidia-h100",
    }  # fmt: skip
    ends = {"done": 5, "error-event": 0, "silent": 0, "refused": 1, "client-error": 2}
    run = {
        "requests": 240, "variants": [row], "all": row, "retried": {"all": 9, "nonStreams": 3},
        "ended": {"streams": ends, "nonStreams": ends}, "streamsEndedByErrorEvent": 4,
        "silentEnds": 0,
    }  # fmt: skip
    kill = {"variant": "h100", "replica": "x", "afterSeconds": 10.04}
    leaf = {
        "name": "pick", "service": "r", "kind": "internal", "startUs": 10, "durationUs": 20,
        "failed": False, "attributes": {"llmd.variant": "h100"}, "children": [],
    }  # fmt: skip
    root = {**leaf, "name": "llmd_router.request", "children": [leaf]}
    return {
        "speed": 0.25, "seconds": 20.0, "requestsPerSecond": 12.0,
        "runs": [{**run, "scheduler": "expected-finish"}, {**run, "scheduler": "round-robin"}],
        "killed": [kill, kill],
        "trace": {"traceId": "t", "requestId": "r", "why": "an ordinary request", "spans": [root]},
    }  # fmt: skip


def test_a_span_that_failed_stands_out_in_the_trace() -> None:
    trace = demo_document()["trace"]
    trace["spans"][0]["children"][0]["failed"] = True
    console = Console(force_terminal=True, color_system="standard", no_color=False, width=160)
    with console.capture() as shown:
        console.print(*trace_view(trace))
    assert "\x1b[1;31mpick" in shown.get()
    assert "\x1b[1mllmd_router.request" in shown.get()


@pytest.mark.parametrize("width", [100, 160])
def test_the_summary_says_what_its_document_says(width: int) -> None:
    shown = " ".join(drawn(summary_view(demo_document()), width).split())
    for words in (
        "SIMULATED at 0.25", "expected-finish", "round-robin", "120.3k", "38%", "51%",
        "0.11/0.43/-", "non-streams retried 3, streams ended by an error event 4, silent ends 0",
        "lost 6", "llmd_router.request", "variant h100",
    ):  # fmt: skip
        assert words in shown
