"""The fleets that the bench of the control plane takes: fifty models, and five hundred.

Made for `benchmarks.control_plane`. The five hundred are the catalogue's models, each on one of
eight accelerators that can serve it; which can, a plan of all models on each accelerator says
first. They differ in name and in model, length or accelerator, so that nothing is measured that was
remembered of another one. It measures nothing.
"""

from __future__ import annotations

import re
from itertools import cycle, product
from pathlib import Path
from typing import Any

import yaml

from llmd_ctl.cli.planning import make_plan
from llmd_ctl.errors import LlmdError
from llmd_ctl.profiles import Catalog
from llmd_ctl.spec import load_fleets

FIFTY = 50
FIVE_HUNDRED = 500
VENDORS = ("nvidia-h100", "amd-mi300x", "google-tpu-v6e", "intel-gaudi3")
EIGHT = (
    "nvidia-h100", "amd-mi300x", "google-tpu-v6e", "intel-gaudi3",
    "nvidia-h200", "amd-mi355x", "google-tpu-v5p", "nvidia-b200",
)  # fmt: skip
LENGTHS = tuple(range(2048, 8192 + 1, 256))
# No image is published for it, so a fleet has to name one.
IMAGES = {"intel-gaudi3": "registry.example/llmd-ctl/gaudi:0.26.0"}
HOSTS = 128  # of each accelerator, with eight devices each
DEVICES = 1024  # of each accelerator on the one machine that compose knows
MODEL = re.compile(r"models\[([0-9]+)\]")


def fifty() -> str:
    """A fleet file of fifty models, four variants each."""
    variants = [{"name": name.split("-")[1], "accelerator": name} for name in VENDORS]
    models = [
        {
            "name": f"chat-{number}",
            "uri": "hf://meta-llama/Llama-3.1-8B-Instruct",
            "maxModelLen": 8192,
            "slo": {"ttft": {"p95": "800ms"}, "itl": {"p95": "60ms"}},
            "variants": variants,
        }
        for number in range(FIFTY)
    ]
    return _text("fifty", [{"name": "here", "kind": "local"}], models)


def five_hundred(kind: str, folder: Path) -> str:
    """A fleet file of five hundred models on eight accelerators, for targets of a kind.

    `folder` takes the files that are planned in order to learn who serves what.
    """
    served = {name: cycle(product(LENGTHS, _served(name, kind, folder))) for name in EIGHT}
    models = []
    for number, accelerator in zip(range(FIVE_HUNDRED), cycle(EIGHT), strict=False):
        length, uri = next(served[accelerator])
        models.append(_model(f"model-{number}", uri, length, accelerator, kind))
    return _text("five-hundred", _targets(kind), models, _inventory(kind))


def _served(accelerator: str, kind: str, folder: Path) -> list[str]:
    """The catalogue's models that an accelerator serves at the greatest length."""
    uris = [f"hf://{name}" for name in Catalog.load().names("ModelProfile")]
    models = [
        _model(f"model-{number}", uri, LENGTHS[-1], accelerator, kind)
        for number, uri in enumerate(uris)
    ]
    file = folder / f"{accelerator}.yaml"
    file.write_text(_text("served", _targets(kind), models, _inventory(kind)), "utf-8")
    try:
        make_plan(load_fleets([file])[0], 1.0, rehearsal=True)
    except LlmdError as error:
        places = [one.place.path for one in error.problems if one.place is not None]
        refused = {int(found[1]) for place in places if (found := MODEL.search(place))}
        return [uri for number, uri in enumerate(uris) if number not in refused]
    return uris


def _model(name: str, uri: str, length: int, accelerator: str, kind: str) -> dict[str, Any]:
    return {
        "name": name,
        "uri": uri,
        "maxModelLen": length,
        "slo": {"ttft": {"p95": "20s"}, "itl": {"p95": "500ms"}},
        "variants": [_variant(accelerator, kind)],
    }


def _variant(accelerator: str, kind: str) -> dict[str, Any]:
    variant: dict[str, Any] = {"name": accelerator.split("-", 1)[1], "accelerator": accelerator}
    if kind == "systemd":
        variant["target"] = accelerator
    elif accelerator in IMAGES:
        variant["engine"] = {"name": "vllm", "image": IMAGES[accelerator]}
    return variant


def _targets(kind: str) -> list[dict[str, Any]]:
    """One target; hosts of units are of one kind in each target."""
    if kind != "systemd":
        return [{"name": "there", "kind": kind}]
    return [
        {"name": name, "kind": kind, "hosts": [f"{name}-{host}" for host in range(HOSTS)]}
        for name in EIGHT
    ]


def _inventory(kind: str) -> list[dict[str, Any]]:
    if kind != "compose":
        return []
    return [{"accelerator": name, "devicesPerNode": DEVICES} for name in EIGHT]


def _text(
    name: str,
    targets: list[dict[str, Any]],
    models: list[dict[str, Any]],
    inventory: list[dict[str, Any]] | None = None,
) -> str:
    spec: dict[str, Any] = {"targets": targets, "models": models}
    if inventory:
        spec["inventory"] = inventory
    fleet = {
        "apiVersion": "fleet.llmd-ctl.dev/v1alpha1",
        "kind": "Fleet",
        "metadata": {"name": name},
        "spec": spec,
    }
    return yaml.dump(fleet, Dumper=_NoAliases, sort_keys=False)


class _NoAliases(yaml.CSafeDumper):
    """Writes what is there twice twice, as people do."""

    def ignore_aliases(self, _data: Any) -> bool:
        """Whether to write it again: always."""
        return True
