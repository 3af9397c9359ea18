"""What simulated engines do not speak is never accepted silently."""

import re
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.cli.boundary import run
from llmd_ctl.plan import PlannedVariant
from llmd_ctl.profiles import Catalog
from tests.unit.plan.fleets import MACHINE, fleet_text, plan_text, planned, problems_of

CRATES = Path(__file__).parents[3] / "crates"
H100 = "accelerator: nvidia-h100"


def fleet(said: str) -> str:
    return fleet_text(f"- {{{H100}, {said}}}")


def variant(said: str, simulate: float | None = 1.0) -> PlannedVariant:
    here = replace(MACHINE, accelerators={"nvidia-h100": 1})
    return plan_text(fleet(said), simulate=simulate, observed=here).models[0].variants[0]


def test_the_profile_lists_what_the_simulated_engine_serves() -> None:
    served = (CRATES / "llmd-engine" / "src" / "http.rs").read_text()
    rows = (CRATES / "llmd-router" / "src" / "api.rs").read_text()
    paths = dict(re.findall(r'name: "([\w-]+)",\s*paths: &\["([^"]+)"', rows))
    assert len(paths) > 10
    spoken = [name for name, path in paths.items() if f'"{path}" => on(&post' in served]
    assert list(Catalog.load([]).engine("sim").spec.apis) == spoken


def test_an_api_that_simulation_lacks_is_warned_of_at_its_place() -> None:
    plan = plan_text(fleet("apis: [chat, messages, embeddings]"))
    [warning] = plan.warnings
    assert warning.code == "LC3027"
    assert warning.message.endswith("simulated engines do not speak messages, embeddings")
    assert warning.place is not None
    assert warning.place.path == "spec.models[0].variants[0].apis"
    assert plan.models[0].variants[0].apis == ("chat",)


@pytest.mark.parametrize("said", ["apis: [embeddings]", "apis: [embeddings], engine: {name: sim}"])
def test_a_variant_of_which_simulation_could_serve_nothing_is_refused(said: str) -> None:
    [problem] = problems_of(fleet(said))
    assert (problem.code, problem.found) == ("LC3028", "embeddings")
    assert problem.allowed == ("chat", "completions", "tokenize")
    assert "replicas: 0" in problem.remedy
    assert variant(f"{said}, replicas: 0").apis == ("embeddings",)


def test_the_router_asks_simulated_engines_for_what_they_speak_and_real_ones_for_anything() -> None:
    assert planned(f"{{{H100}}}").apis == ("chat", "completions", "tokenize")
    assert variant("replicas: 1", simulate=None).apis is None
    assert variant("apis: [embeddings]", simulate=None).apis == ("embeddings",)


def test_validate_does_not_hold_against_a_file_that_it_is_not_simulated(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    file = tmp_path / "fleet.yaml"
    file.write_text(fleet("apis: [embeddings]"))
    assert run(["validate", str(file)]) == 0
    assert capsys.readouterr().err == ""
    file.write_text(fleet("apis: [chat, messages], engine: {name: sim}"))
    assert run(["validate", str(file)]) == 0
    assert "warning[LC3027]" in capsys.readouterr().err
