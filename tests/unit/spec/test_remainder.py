"""What is left of a wrong fleet: the parts without a fault, at the places that they have."""

from __future__ import annotations

from pathlib import Path

import pytest

from llmd_ctl.spec import read_fleets

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: small}
spec:
  targets: [{name: here, kind: local}]
  models:
  - name: one
    uri: hf://ORG/ONE
    variants:
    - {name: a, accelerator: nvidia-h100}
    - {name: b, accelerator: nvidia-h100, engineArgs: {maxNumSeqs: 4, blockSize: 16}}
  - name: two
    uri: hf://ORG/TWO
    variants:
    - {name: c, accelerator: nvidia-l4}
"""

# What is wrong, and what of the fleet is left: variants by model, with their engine arguments.
ROWS = [
    ("{name: a, acc", "{name: a, axx: 1, acc", {"one": {"b": 2}, "two": {"c": 0}}),
    ("maxNumSeqs: 4", "max-num-seqs: 4", {"one": {"a": 0, "b": 1}, "two": {"c": 0}}),
    ("uri: hf://ORG/ONE", "uri: ftp://x", {"two": {"c": 0}}),
    ("  models:", "  router: {routing: 3}\n  models:", {"one": {"a": 0, "b": 2}, "two": {"c": 0}}),
    ("kind: local", "kind: moon", None),
    ("  models:", "  defaults: 3\n  models:", None),
    ("name: small", "name: Small One", None),
    ("kind: Fleet", "kind: Fleet\nkind: Fleet", None),
    ("{name: c, accelerator: nvidia-l4}", "3", {"one": {"a": 0, "b": 2}}),
]


@pytest.mark.parametrize(("good", "bad", "left"), ROWS)
def test_the_parts_without_a_fault_are_left(
    tmp_path: Path, good: str, bad: str, left: dict[str, dict[str, int]] | None
) -> None:
    assert FLEET.count(good) == 1 or good in ("  models:",)
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET.replace(good, bad))
    reading = read_fleets([file])
    assert reading.problems
    assert not reading.sound
    found = {
        model.name: {v.name: len(v.engine_args) for v in model.variants}
        for one in reading.rest
        for model in one.fleet.spec.models
    }
    assert found == (left or {})
    for one in reading.rest:
        for i, model in enumerate(one.fleet.spec.models):
            for j, variant in enumerate(model.variants):
                place = one.place(("spec", "models", i, "variants", j, "name"))
                line = file.read_text().splitlines()[place.line - 1]
                assert f"name: {variant.name}," in line
                assert place.path == _path(model.name, variant.name)


def _path(model: str, variant: str) -> str:
    at = {"a": 0, "b": 1, "c": 0}[variant]
    return f"spec.models[{'one two'.split().index(model)}].variants[{at}].name"


def test_a_fleet_without_a_fault_is_sound_and_leaves_no_rest(tmp_path: Path) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(FLEET)
    reading = read_fleets([file])
    assert (len(reading.sound), reading.rest, reading.problems) == (1, [], [])
