"""Variables that a fleet says twice, by value and by secret: refused, with both places."""

from __future__ import annotations

import pytest

from tests.unit.spec.told import Complain, Load, caret

FLEET = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: test}
spec:
  targets: [{name: here, kind: kubernetes TARGET}]
  defaults: {engine: {name: vllm} DEFAULTS}
  models:
  - name: chat
    uri: hf://Qwen/Qwen3-32B
    MODEL
    variants:
    - {name: a, accelerator: nvidia-h100 VARIANT}
    - {name: b, accelerator: nvidia-l4, endpoint: {url: "http://h:1"}}
  router: {kind: llmd-ctl ROUTER}
"""
SECRET = "secretRefs: [{name: other}, {name: hf, env: TOKEN}]"
ENV = "env: {TOKEN: x}"


def fleet(**said: str) -> str:
    text = FLEET
    for word in ("TARGET", "DEFAULTS", "VARIANT", "ROUTER"):
        text = text.replace(f" {word}", f", {said[word.lower()]}" if word.lower() in said else "")
    return text.replace("MODEL", said.get("model", "maxModelLen: 8192"))


TWICE = [
    ({"variant": f"{ENV}, {SECRET}"}, 12),
    ({"defaults": SECRET, "variant": ENV}, 12),
    ({"defaults": ENV, "variant": SECRET}, 6),
    ({"target": ENV, "model": SECRET}, 5),
    ({"target": f"{ENV}, {SECRET}", "variant": "secretRefs: []"}, 5),  # the router's still
    ({"router": f"{ENV}, {SECRET}"}, 14),
    ({"target": ENV, "router": SECRET}, 5),
]


@pytest.mark.parametrize(("said", "line"), TWICE, ids=[str(said) for said, _ in TWICE])
def test_a_variable_has_one_value(complain: Complain, said: dict[str, str], line: int) -> None:
    (problem,) = complain(fleet(**said))
    assert (problem.code, problem.found, caret(problem)) == ("LC1077", "TOKEN", "TOKEN")
    assert problem.message == f"TOKEN has a value already, by line {line}"
    assert problem.place is not None
    assert ".secretRefs[" in problem.place.path


@pytest.mark.parametrize(
    "said",
    [
        {"variant": "env: {OTHER: x}, secretRefs: [{name: hf, env: TOKEN}]"},
        {"defaults": SECRET, "variant": "env: {TOKEN: x}, secretRefs: []"},
        {"defaults": ENV, "router": SECRET},  # defaults are of engines
        {"model": "secretRefs: [{name: a, env: TOKEN}]", "router": ENV},
        {"variant": "env: {TOKEN: x}, secretRefs: [{name: whole}]"},
    ],
)
def test_what_does_not_meet_may_have_one_name(load: Load, said: dict[str, str]) -> None:
    assert load(fleet(**said))
