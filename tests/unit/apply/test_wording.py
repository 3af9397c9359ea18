"""`diff` speaks of the fleet file: its keys, its units; what no key says is called what it is."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import chain
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.apply.changes import DERIVED, compare
from llmd_ctl.apply.wording import Difference, differences, said
from llmd_ctl.plan import Plan
from llmd_ctl.spec.shape import SHAPE
from tests.unit.plan.fleets import fleet_text, plan_text

BEFORE = fleet_text(
    """
- {name: h100, accelerator: nvidia-h100}
- {name: old, accelerator: nvidia-l4, endpoint: {url: "http://127.0.0.1:9"}}
""",
    model="maxModelLen: 16384\nslo: {ttft: {p95: 800ms}}",
    spec="router: {resilience: {breaker: {open: 5s}, limits: {total: 2m, body: 64Mi}}}",
)
EDITS = [
    ("maxModelLen: 16384", "maxModelLen: 8192", "maxModelLen: 16384 → 8192"),
    ("800ms", "1.5ms", "slo.ttft: 800ms → 1.5ms"),
    ("open: 5s", "open: 1.5s", "spec.router.resilience.breaker.open: 5s → 1.5s"),
    ("total: 2m", "total: 90m", "spec.router.resilience.limits.total: 2m → 90m"),
    ("64Mi", "1Gi", "spec.router.resilience.limits.body: 64Mi → 1Gi"),
    ("limits:", "slowStart: 0s, limits:", "spec.router.resilience.slowStart: nothing → 0s"),
    ("127.0.0.1:9", "[::1]:9", "endpoint.url: http://127.0.0.1:9 → http://[::1]:9"),
    ("h100}", "h100, replicas: 2}", "replicas: 1 → 2"),
    ("h100}", "h100, apis: [chat]}", "apis: chat, completions, tokenize → chat"),
    (
        "{resil", "{routing: {objective: cost}, resil",
        "spec.router.routing.objective: latency → cost",
    ),
    (
        "h100}", "h100, engineArgs: {maxNumSeqs: 64}}",
        "engine flag --max-num-seqs: 1024 (profile nvidia-h100) → "
        "64 (engineArgs, over profile nvidia-h100: 1024)",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("old", "new", "reason"), EDITS)
def test_a_change_reads_as_it_is_written_in_the_file(old: str, new: str, reason: str) -> None:
    assert BEFORE.count(old) == 1
    changes = compare(plan_text(BEFORE), plan_text(BEFORE.replace(old, new)), None)
    assert reason in chain.from_iterable(change.reasons for change in changes)


def leaves(plan: Plan) -> Iterator[tuple[str, Difference]]:
    """Every leaf of a plan that a diff may name, with the section of the file that it is of."""
    document = plan.to_json()
    for name in ("traces", "resilience", "routerTls"):
        yield from (("", one) for one in differences(None, document[name], name))
    for model in document["models"]:
        for at, part in (("spec.models[]", model), *variants(model)):
            kept = {key: value for key, value in part.items() if value and key not in DERIVED}
            yield from ((at, one) for one in differences({}, kept))


def variants(model: dict[str, object]) -> Iterator[tuple[str, dict[str, object]]]:
    found = model["variants"]
    assert isinstance(found, list)
    yield from (("spec.models[].variants[]", variant) for variant in found)


def test_every_key_that_is_named_is_one_of_the_file(repo_root: Path) -> None:
    goldens = sorted((repo_root / "tests" / "golden" / "plan").glob("*.fleet.yaml"))
    texts = [
        BEFORE.replace("64Mi", "1Gi, idle: 3s, connect: 1s"),
        *(f.read_text() for f in goldens),
    ]
    seen = set()
    for text in texts:
        if "./" in text:  # its model is not beside the text
            continue
        for at, one in leaves(plan_text(text)):
            for reason in said([one]):
                if reason.key is not None:
                    seen.add(reason.key if reason.key.startswith("spec.") else f"{at}.{reason.key}")
    assert len(seen) > 20
    assert seen - set(SHAPE) == set()


def test_what_is_computed_is_one_reason_and_says_so() -> None:
    found = [Difference("facts.stepUs", 1.5, 2.0), Difference("facts.kvTokens", 10, 20)]
    assert [one.text for one in said(found)] == [
        "what is computed of it: stepUs 1.5 → 2, kvTokens 10 → 20"
    ]


def test_the_speed_of_simulation_is_named_as_its_option() -> None:
    plan = plan_text(BEFORE)
    (fleet, *_) = compare(replace(plan, simulate=None), plan, None)
    assert fleet.reasons == ("--simulate: nothing → 1",)
