"""One model on every accelerator that comes with llmd-ctl, as a table that people review.

Qwen3-32B in bf16 with 32,768 tokens of context, in the smallest size that fits one machine; what
does not fit, or is not built yet, is refused in words that stand here whole.
"""

from pathlib import Path

import pytest

from llmd_ctl.errors import LlmdError
from llmd_ctl.plan import Observed, PlannedVariant, plan
from llmd_ctl.profiles import Catalog
from llmd_ctl.spec import load_fleets

TABLE = Path(__file__).with_name("table.txt")
FLEET = """apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {{name: test}}
spec:
  targets: [{{name: here, kind: local}}]
  models:
  - name: chat
    uri: hf://Qwen/Qwen3-32B
    maxModelLen: 32768
    variants: [{{name: v, accelerator: {accelerator}}}]
"""
MACHINE = Observed(memory_bytes=512 * 2**30, cores=64)
HEAD = (
    "accelerator           devices    used  KV tokens  tokens/s  prefill/s        $/h  confidence\n"
)


def fits(variant: PlannedVariant) -> str:
    fit, speed, facts = variant.fit, variant.capacity, variant.facts
    assert fit is not None
    assert speed is not None
    assert facts is not None
    assert fit.verdict == "fits"
    total = fit.weight_bytes + fit.activation_bytes + fit.reserve_bytes
    price = "unknown" if variant.price_per_hour is None else f"{variant.price_per_hour:.2f}"
    return (
        f"{variant.devices_per_replica:7}  {total / fit.budget_bytes:6.0%}  {fit.kv_tokens:9,}"
        f"  {speed.tokens_per_second:8,.0f}  {speed.prefill_tokens_per_second:9,.0f}"
        f"  {price:>9}  {facts['confidence']}"
    )


def row(folder: Path, name: str) -> str:
    fleet = folder / "fleet.yaml"
    fleet.write_text(FLEET.format(accelerator=name))
    (loaded,) = load_fleets([fleet])
    try:
        made = plan(loaded, Catalog.load(), MACHINE, 1.0)
    except LlmdError as error:
        (problem,) = error.problems
        hint = f"; {problem.hint}" if problem.hint else ""
        return f"{name:20}  {problem.code} {problem.message}{hint}"
    return f"{name:20}  {fits(made.models[0].variants[0])}"


def test_the_table_is_the_reviewed_one(tmp_path: Path, request: pytest.FixtureRequest) -> None:
    names = Catalog.load().names("AcceleratorProfile")
    text = HEAD + "\n".join(row(tmp_path, name) for name in names) + "\n"
    if request.config.getoption("--update-golden", default=False):
        TABLE.write_text(text)
    assert text == TABLE.read_text()
