"""Recipes that are known to work: every one of them is planned, by what its source says of it."""

import re
from collections import Counter
from pathlib import Path

import pytest

from llmd_ctl.errors import LlmdError
from llmd_ctl.plan import Observed, plan
from llmd_ctl.profiles import Catalog
from llmd_ctl.spec import load_fleets

RECIPES = Path(__file__).parents[2] / "fixtures" / "recipes"
FILES = sorted(path.name for path in RECIPES.glob("*.yaml"))
LEAST = 5
# A Xeon with two sockets, for what runs on processors.
XEON = Observed(accelerators={"cpu-x86": 1}, memory_bytes=1024 * 2**30, cores=128)


NEWEST = "0.33.0"  # of vLLM


def of_the_newest(file: str, folder: Path) -> list[Path]:
    """A file's recipes for accelerators that follow vLLM's versions, by the newest of them."""
    catalog, made = Catalog(), []
    for index, text in enumerate((RECIPES / file).read_text("utf-8").split("\n---\n")):
        (name,) = re.findall(r"accelerator: ([a-z0-9-]+)", text)
        if NEWEST in catalog.accelerator(name).spec.engines["vllm"].images:
            made.append(folder / f"{index}-{file}")
            engine = f"\nspec:\n  defaults: {{engine: {{name: vllm, version: {NEWEST}}}}}\n"
            made[-1].write_text(text.replace("\nspec:\n", engine), "utf-8")
    return made


@pytest.mark.parametrize("file", FILES)
def test_each_recipe_is_planned_and_fits(file: str, tmp_path: Path) -> None:
    catalog = Catalog()
    newest = of_the_newest(file, tmp_path)
    fleets = [*load_fleets([RECIPES / file]), *(load_fleets(newest) if newest else ())]
    for loaded in fleets:
        try:
            made = plan(loaded, catalog, XEON, 1.0, rehearsal=True)
        except LlmdError as error:
            name = loaded.fleet.metadata.name
            pytest.fail(f"{name}: {[problem.message for problem in error.problems]}")
        (variant,) = made.models[0].variants
        assert variant.fit is not None
        assert variant.fit.verdict == "fits"


def test_each_vendor_that_is_planned_for_has_its_recipes_and_each_its_source() -> None:
    catalog = Catalog()
    found: Counter[str] = Counter()
    for file in FILES:
        fleets = load_fleets([RECIPES / file])
        sources = re.findall(r"(?m)^# source: .*\d", (RECIPES / file).read_text("utf-8"))
        assert len(sources) == len(fleets), file
        for loaded in fleets:
            variant = loaded.fleet.spec.models[0].variants[0]
            found[catalog.accelerator(variant.accelerator).spec.vendor] += 1
    known = [catalog.accelerator(name).spec for name in catalog.names("AcceleratorProfile")]
    planned = {one.vendor for one in known if any(not on.not_yet for on in one.engines.values())}
    assert {vendor for vendor, count in found.items() if count >= LEAST} == planned
