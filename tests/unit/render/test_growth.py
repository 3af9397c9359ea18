"""A fleet twice as large is twice the work, to plan and to render: no part looks at all others.

Calls are counted, so that no clock has a say.
"""

from __future__ import annotations

import sys
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import yaml

from llmd_ctl.plan import Observed, Plan, plan
from llmd_ctl.profiles import Catalog
from llmd_ctl.render.targets import render_target
from llmd_ctl.spec import load_fleets

FEW = 25
FORMS = (
    ("local", "script"), ("kubernetes", "kustomize"), ("kubernetes", "helm"),
    ("systemd", "units"), ("compose", "compose"),
)  # fmt: skip
HOSTS = [f"host-{number}" for number in range(8)]
TWICE = 2.05


def planned(kind: str, count: int, folder: Path) -> Callable[[], Plan]:
    """Planning a fleet of so many models, each with an image that has no digest to warn of."""
    model = {
        "uri": "hf://Qwen/Qwen3-8B",
        "maxModelLen": 4096,
        "resources": {"shm": "1Gi"},
        "variants": [{"name": name, "accelerator": "nvidia-h100"} for name in "abc"],
    }
    hosts = {"hosts": HOSTS} if kind == "systemd" else {}
    fleet = {
        "apiVersion": "fleet.llmd-ctl.dev/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": "growing"},
        "spec": {
            "targets": [{"name": "there", "kind": kind, **hosts}],
            "inventory": [{"accelerator": "nvidia-h100", "devicesPerNode": 1024}],
            "models": [{"name": f"m{n}", **model} for n in range(count)],
        },
    }
    file = folder / f"{count}.yaml"
    file.write_text(yaml.safe_dump(fleet, sort_keys=False), "utf-8")
    (loaded,) = load_fleets([file])
    catalog = Catalog.load()
    return lambda: plan(loaded, catalog, Observed(), 1.0 if kind == "local" else None)


def calls(work: Callable[[], object]) -> int:
    """The calls that some work makes, of Python and of C, once it was done before."""
    work()
    counted = 0

    def count(_frame: Any, event: str, _argument: Any) -> None:
        nonlocal counted
        counted += event in ("call", "c_call")

    sys.setprofile(count)
    try:
        work()
    finally:
        sys.setprofile(None)
    return counted


@pytest.mark.parametrize("kind", sorted({kind for kind, _ in FORMS}))
def test_a_plan_takes_work_by_its_models(kind: str, tmp_path: Path) -> None:
    few, many = (calls(planned(kind, count, tmp_path)) for count in (FEW, 2 * FEW))
    assert many < TWICE * few


@pytest.mark.parametrize(("kind", "form"), FORMS)
def test_a_rendering_takes_work_by_its_models(kind: str, form: str, tmp_path: Path) -> None:
    plans = [planned(kind, count, tmp_path)() for count in (FEW, 2 * FEW)]
    few, many = (calls(partial(render_target, one, "there", form)) for one in plans)
    assert many < TWICE * few
