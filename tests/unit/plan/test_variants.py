"""What a variant becomes: here, elsewhere, simulated, or refused."""

import json
import re
from collections.abc import Callable
from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.plan import EndpointTls, Observed, Plan, Resilience, plan
from llmd_ctl.plan.resilience import Checks, Limits
from llmd_ctl.plan.service import PATIENCE
from llmd_ctl.profiles import Catalog, LocalModel
from llmd_ctl.spec import load_fleets
from tests.unit.plan.fleets import (
    GIB,
    MACHINE,
    fleet_text,
    plan_text,
    planned,
    problems_of,
    refused,
    tiny,
    warned,
)

H100 = "{name: v, accelerator: nvidia-h100}"


# --- this machine ---


def test_an_accelerator_that_is_not_here_is_refused_and_simulation_is_offered() -> None:
    (problem,) = problems_of(fleet_text(f"- {H100}"), simulate=None)
    assert (problem.code, "--simulate" in problem.remedy) == ("LC3014", True)
    assert problem.allowed == ("cpu-x86",)
    assert plan_text(fleet_text(f"- {H100}"), simulate=1.0)


def test_an_accelerator_that_is_here_is_used() -> None:
    here = Observed(accelerators={"nvidia-h100": 2})
    variant = plan_text(fleet_text(f"- {H100}"), simulate=None, observed=here).models[0].variants[0]
    assert (variant.simulated, variant.engine) == (False, "vllm")


def test_more_devices_than_are_here_are_refused_with_both_numbers() -> None:
    here = Observed(accelerators={"nvidia-h100": 2})
    text = fleet_text("- {name: v, accelerator: nvidia-h100, replicas: 3}")
    (problem,) = problems_of(text, simulate=None, observed=here)
    assert problem.code == "LC3014"
    assert "2 nvidia-h100" in problem.message
    assert "3" in problem.message


def test_replicas_that_would_share_devices_of_this_machine_are_warned_about() -> None:
    def warned(text: str, simulate: float | None, **accelerators: int) -> bool:
        here = Observed(accelerators={n.replace("_", "-"): c for n, c in accelerators.items()})
        warnings = plan_text(text, simulate=simulate, observed=here).warnings
        return "LC3023" in [problem.code for problem in warnings]

    one = fleet_text(f"- {H100}")
    two = fleet_text("- {name: v, accelerator: nvidia-h100, replicas: 2}")
    assert warned(two, None, cpu_x86=1, nvidia_h100=8)
    assert warned(one, None, nvidia_h100=1, nvidia_l4=1), "which of the two kinds would it take?"
    assert not warned(one, None, cpu_x86=1, nvidia_h100=8)
    assert not warned(two, 1.0, nvidia_h100=8), "simulated replicas take no device"


def test_unsaid_parallelism_stays_within_what_is_here() -> None:
    here = Observed(accelerators={"nvidia-l4": 1})
    (problem,) = problems_of(
        fleet_text("- {name: v, accelerator: nvidia-l4}"), simulate=None, observed=here
    )
    assert problem.code == "LC3010"


def test_a_profile_that_extends_one_that_is_here_is_here() -> None:
    mine = (
        "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\n"
        "metadata: {name: mine}\nextends: nvidia-h100\nspec: {description: mine}\n"
    )
    here = Observed(accelerators={"nvidia-h100": 1})
    text = fleet_text("- {name: v, accelerator: mine}")
    assert plan_text(text, simulate=None, observed=here, profiles=[mine])
    assert problems_of(text, simulate=None, profiles=[mine])[0].code == "LC3014"


@pytest.mark.parametrize("name", ["nvidia-h100", "nvidia-l4"])
def test_a_profile_that_takes_the_place_of_a_built_in_one_is_named(name: str) -> None:
    mine = (
        "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\n"
        f"metadata: {{name: {name}}}\nextends: nvidia-h100\nspec: {{description: mine}}\n"
    )
    (warning,) = plan_text(fleet_text(f"- {H100}"), profiles=[mine]).warnings
    assert warning.code == "LC2035"
    assert warning.message.startswith(f"the AcceleratorProfile {name} of /")
    assert warning.message.endswith("profile-0.yaml takes the place of the built-in one")
    other = mine.replace(f"name: {name}", "name: mine")
    assert plan_text(fleet_text(f"- {H100}"), profiles=[other]).warnings == ()


def test_an_engine_profile_of_a_built_in_name_is_named_once() -> None:
    mine = (
        "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: EngineProfile\n"
        "metadata: {name: vllm}\nextends: vllm\nspec: {version: 0.32.0}\n"
    )
    plan = plan_text(fleet_text(f"- {H100}"), profiles=[mine])
    assert [w.code for w in plan.warnings] == ["LC2035"]


def test_a_variant_without_replicas_needs_no_device_here() -> None:
    text = fleet_text("- {name: v, accelerator: nvidia-h100, replicas: 0}")
    plan = plan_text(text, simulate=None)
    assert plan.summary.replicas == 0


def test_engines_on_one_machine_share_its_memory(tmp_path: Path) -> None:
    text = fleet_text(
        "- {name: a, accelerator: cpu-x86, replicas: 2}\n"
        "- {name: b, accelerator: cpu-x86, replicas: 3}",
        uri="./tiny",
    )  # fmt: skip
    here = tiny(tmp_path)
    (problem,) = problems_of(text, simulate=None, observed=replace(here, memory_bytes=10 * GIB))
    assert problem.code == "LC3015"
    assert problem.found is not None
    assert re.fullmatch(r"[\d.]+ GiB", problem.found)
    assert re.fullmatch(r"up to [\d.]+ GiB", problem.allowed[0])
    assert "chat/a" in problem.message
    assert "chat/b" in problem.message
    assert plan_text(text, simulate=None, observed=replace(here, memory_bytes=16 * GIB))


def test_a_machine_in_the_inventory_is_shared_and_not_used_up(tmp_path: Path) -> None:
    text = fleet_text(
        "- {name: a, accelerator: cpu-x86}\n- {name: b, accelerator: cpu-x86, replicas: 2}",
        uri="./tiny", spec="inventory: [{accelerator: cpu-x86, devicesPerNode: 4}]",
    )  # fmt: skip
    plan = plan_text(text, simulate=None, observed=tiny(tmp_path))
    assert (plan.summary.replicas, plan.summary.devices, plan.idle) == (3, 1, ())
    (problem,) = problems_of(
        text.replace("replicas: 2", "parallelism: {tensor: 2}"),
        simulate=None, observed=tiny(tmp_path),
    )  # fmt: skip
    assert problem.code == "LC3011"


# --- inventory, idle, price ---


def test_the_inventory_must_hold_all_replicas_together() -> None:
    variants = (
        "- {name: a, accelerator: nvidia-h100, replicas: 5}\n"
        "- {name: b, accelerator: nvidia-h100, replicas: 2, parallelism: {tensor: 2}}"
    )
    item = "inventory: [{accelerator: nvidia-h100, nodes: %d, devicesPerNode: 4}]"
    (problem,) = problems_of(fleet_text(variants, spec=item % 2))
    assert problem.code == "LC3013"
    assert "9 nvidia-h100 are needed (chat/a: 5 x 1 + chat/b: 2 x 2)" in problem.message
    assert (problem.found, problem.allowed) == ("9", ("8",))
    assert plan_text(fleet_text(variants, spec=item % 3))


def test_the_devices_of_a_replica_lie_on_one_machine() -> None:
    variant = "- {name: a, accelerator: nvidia-h100, replicas: %d, parallelism: {tensor: 4}}"
    item = "inventory: [{accelerator: nvidia-h100, nodes: 2, devicesPerNode: 6}]"
    assert plan_text(fleet_text(variant % 2, spec=item))
    (problem,) = problems_of(fleet_text(variant % 3, spec=item))
    assert (problem.code, "do not fit on 2 nodes of 6" in problem.message) == ("LC3013", True)


def test_a_large_inventory_is_packed_at_once() -> None:
    item = "inventory: [{accelerator: nvidia-h100, nodes: 100000, devicesPerNode: 8}]"
    variant = "- {name: a, accelerator: nvidia-h100, replicas: 10000, parallelism: {tensor: 2}}"
    assert plan_text(fleet_text(variant, spec=item)).idle[0].idle == 780_000


def test_an_accelerator_that_the_inventory_lacks_is_refused() -> None:
    item = "inventory: [{accelerator: amd-mi300x}]"
    problem = refused(H100, spec=item)
    assert (problem.code, problem.allowed) == ("LC3013", ("amd-mi300x",))


def test_idle_devices_are_named_with_what_they_cost() -> None:
    item = "inventory: [{accelerator: nvidia-h100, devicesPerNode: 8, pricePerDeviceHour: 2}]"
    (idle,) = plan_text(fleet_text(f"- {H100}", spec=item)).idle
    assert (idle.devices, idle.used, idle.idle, idle.price_per_hour) == (8, 1, 7, 14.0)


INVENTORY = "inventory: [{accelerator: nvidia-h100, nodes: 2, devicesPerNode: 8}]"


@pytest.mark.parametrize(
    ("variant", "simulate", "here", "idle", "told"),
    [
        (H100, 1.0, 0, 15, None),
        (H100.replace("}", ", engine: {name: sim}}"), None, 0, 15, None),
        (H100, None, 16, 15, None),
        (H100, None, 8, 7, "8"),
        (H100.replace("}", ", replicas: 0}"), None, 0, 0, "none"),
    ],
)
def test_where_this_machine_can_tell_the_inventory_adds_nothing_to_it(
    variant: str, simulate: float | None, here: int, idle: int, told: str | None
) -> None:
    seen = Observed(accelerators={"cpu-x86": 1, "nvidia-h100": here})
    text = fleet_text(f"- {variant}", spec=INVENTORY)
    plan = plan_text(text, simulate=simulate, observed=seen)
    assert [one.idle for one in plan.idle] == ([idle] if idle else [])
    said = [p.message for p in plan.warnings if p.code == "LC3030"]
    expected = f"the inventory counts 16 nvidia-h100, this machine has {told}: "
    assert [message.startswith(expected) for message in said] == ([True] if told else [])


def test_a_machine_is_one_whatever_the_inventory_counts(tmp_path: Path) -> None:
    item = "inventory: [{accelerator: cpu-x86, nodes: 4, pricePerDeviceHour: 1}]"
    text = fleet_text("- {name: a, accelerator: cpu-x86}", uri="./tiny", spec=item)
    plan = plan_text(text, simulate=None, observed=tiny(tmp_path))
    assert [p.code for p in plan.warnings] == ["LC3030"]
    assert plan.summary.price_per_hour == 1
    plan = plan_text(text.replace("nodes: 4, ", ""), simulate=None, observed=tiny(tmp_path))
    assert plan.warnings == ()


def test_the_inventorys_price_beats_the_profiles() -> None:
    item = "inventory: [{accelerator: nvidia-h100, devicesPerNode: 8, pricePerDeviceHour: 2}]"
    variant = "{name: v, accelerator: nvidia-h100, replicas: 2, parallelism: {tensor: 2}}"
    assert planned(variant).price_per_hour == pytest.approx(2.95 * 4)
    mine = planned(variant, spec=item)
    assert mine.price_per_hour == pytest.approx(2 * 4)
    assert mine.facts is not None
    assert mine.facts["pricePerHour"] == pytest.approx(2 * 2)


def test_one_unknown_price_makes_the_sum_unknown_and_is_named() -> None:
    plan = plan_text(fleet_text(f"- {H100}\n- {{name: g, accelerator: intel-gaudi3}}"))
    assert plan.summary.price_per_hour is None
    assert plan.summary.unpriced == ("chat/g",)
    assert plan.models[0].variants[1].price_per_hour is None


# --- names that are not known ---


@pytest.mark.parametrize(
    ("variant", "code", "suggestion"),
    [
        ("{name: v, accelerator: nvidia-h10}", "LC2010", "nvidia-h100"),
        ("{name: v, accelerator: nvidia-h100, engine: {name: llamacpp}}", "LC2013", None),
        (
            "{name: v, accelerator: nvidia-h100, engine: {name: vllm, version: 0.32.1}}",
            "LC2011",
            "0.32.0",
        ),
    ],
)
def test_an_unknown_name_is_refused_with_the_known_ones(
    variant: str, code: str, suggestion: str | None
) -> None:
    problem = refused(variant, code=65)
    assert (problem.code, problem.suggestion) == (code, suggestion)
    assert problem.allowed


def test_an_unknown_accelerator_in_the_inventory_is_refused() -> None:
    text = fleet_text(f"- {H100}", spec="inventory: [{accelerator: nvidia-h10}]")
    assert "LC2010" in {p.code for p in problems_of(text, code=65)}


def test_an_unknown_model_says_how_to_make_it_known() -> None:
    problem = refused(H100, uri="hf://acme/secret", code=65)
    assert problem.code == "LC2012"
    assert "ModelProfile" in problem.remedy


def test_a_model_profile_makes_a_model_known() -> None:
    mine = (
        "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: ModelProfile\n"
        "metadata: {name: acme/secret}\nextends: Qwen/Qwen3-32B\n"
        "spec: {weightBytes: {value: 10, unit: GiB, source: its files}}\n"
    )
    plan = plan_text(fleet_text(f"- {H100}", uri="hf://acme/secret"), profiles=[mine])
    fit = plan.models[0].variants[0].fit
    assert fit is not None
    assert fit.weight_bytes == 10 * GIB


def test_a_version_that_goes_with_another_package_is_warned_of() -> None:
    gaudi = "{name: v, accelerator: intel-gaudi3, engine: {name: vllm%s}}"
    assert warned(gaudi % ", version: 0.32.0") == ("LC3021",)
    assert warned(gaudi % "") == warned(gaudi % ", version: 0.26.0") == ()


# --- local models ---


@pytest.fixture
def local() -> Callable[[LocalModel, str], Plan]:
    """Plan one CPU variant of a local model, for real."""

    def run(model: LocalModel, engine: str) -> Plan:
        observed = replace(MACHINE, models={"./m": model})
        variant = f"- {{name: v, accelerator: cpu-x86, engine: {{name: {engine}}}}}"
        return plan_text(fleet_text(variant, uri="./m"), simulate=None, observed=observed)

    return run


def test_one_folder_serves_both_engines(tmp_path: Path) -> None:
    text = fleet_text(
        "- {name: v, accelerator: cpu-x86}\n"
        "- {name: l, accelerator: cpu-x86, engine: {name: llamacpp}}",
        uri="./tiny",
    )  # fmt: skip
    vllm, llama = plan_text(text, simulate=None, observed=tiny(tmp_path)).models[0].variants
    assert str(tmp_path) in vllm.command
    assert f"{tmp_path}/tiny.gguf" in llama.command
    assert vllm.facts is not None
    assert llama.facts is not None
    assert vllm.facts["kvBytesPerToken"] == llama.facts["kvBytesPerToken"] == 512


NESTED = '{"text_config": ' * 900 + "{}" + "}" * 900


@pytest.mark.parametrize(
    ("model", "engine", "words"),
    [
        (LocalModel(path="/m", config="{}"), "llamacpp", "GGUF"),
        (LocalModel(gguf_path="/m.gguf", gguf_config="{}"), "vllm", "config.json"),
        (LocalModel(problem="/m does not exist"), "vllm", "config.json"),
        (LocalModel(path="/m", config="{"), "vllm", "no JSON"),
        (LocalModel(path="/m", config="[]"), "vllm", "no JSON object"),
        (LocalModel(path="/m", config="[" * 3000 + "]" * 3000), "vllm", "nested deeper than 64"),
        (LocalModel(path="/m", config=NESTED), "vllm", "nested deeper than 64"),
        (LocalModel(path="/m", config=""), "vllm", "config.json is empty"),
        (LocalModel(path="/m", config=" \n"), "vllm", "config.json is empty"),
    ],
)
def test_weights_that_the_engine_cannot_read_are_refused(
    local: Callable[[LocalModel, str], Plan], model: LocalModel, engine: str, words: str
) -> None:
    from llmd_ctl.errors import SpecInvalid

    with pytest.raises(SpecInvalid) as raised:
        local(model, engine)
    (problem,) = raised.value.problems
    assert problem.code == "LC2034"
    assert words in problem.message


def test_a_model_that_was_not_looked_at_is_refused_and_not_guessed() -> None:
    assert refused("{name: v, accelerator: cpu-x86}", uri="./m", code=65).code == "LC2034"


def test_a_model_of_a_foreign_kind_is_refused_at_its_uri(tmp_path: Path) -> None:
    here = tiny(tmp_path, kv_lora_rank=512)
    (problem,) = problems_of(
        fleet_text("- {name: v, accelerator: cpu-x86}", uri="./tiny"), code=65, observed=here
    )
    assert problem.code == "LC2031"
    assert problem.place is not None
    assert problem.place.path == "spec.models[0].uri"


# --- simulation ---


def test_simulation_replaces_the_engine_and_says_so() -> None:
    plan = plan_text(fleet_text(f"- {H100}"), simulate=0.25)
    variant = plan.models[0].variants[0]
    assert plan.simulate is not None
    assert plan.simulate.speed == 0.25
    assert (variant.simulated, variant.engine) == (True, "sim")
    assert variant.command == ("{python}", "-m", "llmd_ctl.sim", "--config", "{config}")
    assert variant.facts is not None
    assert variant.facts["speed"] == 0.25
    assert variant.reasons[0] == "simulated: stands for vllm 0.32.0 (vllm)"


def test_a_simulated_engine_may_be_asked_for_by_name_alone() -> None:
    text = fleet_text("- {name: v, accelerator: nvidia-h100, engine: {name: sim}}")
    variant = plan_text(text, simulate=None).models[0].variants[0]
    assert (variant.simulated, variant.engine) == (True, "sim")


def test_speed_slows_every_planned_time() -> None:
    text = fleet_text(f"- {H100}")
    fast, slow = (plan_text(text, simulate=s).models[0].variants[0].capacity for s in (1.0, 0.1))
    assert fast is not None
    assert slow is not None
    assert slow.itl_us == pytest.approx(10 * fast.itl_us)
    assert slow.ttft_us == pytest.approx(10 * fast.ttft_us)


def test_flags_are_checked_in_simulation_as_for_real() -> None:
    variant = "{name: v, accelerator: nvidia-h100, engineArgs: {maxNumSeqz: 3}}"
    assert refused(variant, code=65).code == "LC2020"


# --- what runs already ---


def test_files_of_an_endpoints_tls_are_found_from_the_fleet_file(tmp_path: Path) -> None:
    for name in ("ca.crt", "own.crt", "own.key"):
        (tmp_path / name).touch()
    tls = "{caFile: ./ca.crt, certFile: own.crt, keyFile: own.key, serverName: e.lan}"
    endpoint = f'{{url: "https://10.0.0.7", tls: {tls}}}'
    old = f"- {H100}\n- {{name: old, accelerator: nvidia-l4, endpoint: {endpoint}}}"
    file = tmp_path / "fleet.yaml"
    file.write_text(fleet_text(old))
    (loaded,) = load_fleets([file])
    made = plan(loaded, Catalog.load([]), Observed({"nvidia-h100": 1}), None)
    folder = str(tmp_path)
    assert made.models[0].variants[1].endpoint_tls == EndpointTls(
        f"{folder}/ca.crt", f"{folder}/own.crt", f"{folder}/own.key", "e.lan"
    )


def test_an_endpoint_is_routed_to_with_facts_and_not_managed() -> None:
    text = fleet_text(
        f"- {H100}\n- {{name: old, accelerator: nvidia-l4, endpoint: "
        '{url: "http://10.0.0.7:8000", servedName: llama}}'
    )
    plan = plan_text(text, simulate=None, observed=Observed({"nvidia-h100": 1}))
    old = plan.models[0].variants[1]
    assert not old.managed
    assert (old.endpoint_url, old.served_name) == ("http://10.0.0.7:8000", "llama")
    assert (old.fit, old.command, old.target, old.simulated) == (None, (), None, False)
    assert old.facts is not None
    assert old.facts["speed"] == 1.0
    assert plan.summary.replicas == 1
    assert plan.warnings == ()


def test_what_the_router_is_told_of_an_endpoints_price_is_what_the_plan_shows() -> None:
    text = fleet_text(
        '- {name: old, accelerator: nvidia-h200, endpoint: {url: "http://10.0.0.7:8000"}}',
        spec="inventory: [{accelerator: nvidia-h200, pricePerDeviceHour: 3.1}]",
    )
    (old,) = plan_text(text).models[0].variants
    assert old.price_per_hour is None
    assert old.facts is not None
    assert old.facts.get("pricePerHour") is None
    assert any("price" in reason and "size" in reason for reason in old.reasons)


@pytest.mark.parametrize(
    ("accelerator", "uri"),
    [("nvidia-b9", "hf://meta-llama/Llama-3.1-8B"), ("nvidia-l4", "hf://acme/secret")],
)
def test_an_endpoint_of_which_nothing_is_known_is_warned_of(accelerator: str, uri: str) -> None:
    variant = f'- {{accelerator: {accelerator}, endpoint: {{url: "http://10.0.0.7:8000"}}}}'
    plan = plan_text(fleet_text(variant, uri=uri))
    assert plan.models[0].variants[0].facts is None
    assert [w.code for w in plan.warnings] == ["LC3022"]


# --- service levels, routing, traces ---


def test_a_promise_bounds_the_batch() -> None:
    loose, tight = (
        planned(H100, model=model).capacity for model in ("", "slo: {itl: {p95: 20ms}}")
    )
    assert loose is not None
    assert tight is not None
    assert tight.itl_us <= 20_000 < loose.itl_us
    assert tight.itl_batch < loose.itl_batch


@pytest.mark.parametrize("slo", ["itl: {p95: 1ms}", "ttft: {p95: 1ms}"])
def test_a_promise_that_cannot_be_kept_is_warned_of(slo: str) -> None:
    assert warned(H100, model=f"slo: {{{slo}}}") == ("LC3020",)


def test_times_and_amounts_are_told_as_people_write_them() -> None:
    text = fleet_text(f"- {H100}", model="slo: {itl: {p95: 1ms}, ttft: {p95: 1.5s}}")
    plan = plan_text(text, simulate=0.001)
    said = [problem.message for problem in plan.warnings]
    assert any(re.search(r"slo\.itl of 1ms: an idle replica takes [\d.]+m?s$", m) for m in said)
    assert any(re.search(r"slo\.ttft of 1\.5s: an idle replica takes [\d.]+s$", m) for m in said)
    kept = planned(f"{H100}", model="slo: {itl: {p95: 1.5s}}")
    assert any(reason.endswith(" requests at once keep slo.itl, 1.5s") for reason in kept.reasons)
    item = "inventory: [{accelerator: nvidia-h100, pricePerDeviceHour: 2.7}]"
    priced = planned(H100, spec=item)
    assert "$2.70 a device and hour, by the inventory" in priced.reasons


def test_the_promise_is_p95_else_p99_else_p50() -> None:
    def promise(bounds: str) -> object:
        plan = plan_text(fleet_text(f"- {H100}", model=f"slo: {{itl: {{{bounds}}}}}"))
        return plan.models[0].slo and plan.models[0].slo.itl_us

    assert promise("p50: 30ms, p95: 40ms, p99: 90ms") == 40_000
    assert promise("p50: 30ms, p99: 90ms") == 90_000
    assert promise("p50: 30ms") == 30_000


@pytest.mark.parametrize(
    ("bounds", "unused", "used"),
    [
        ("p50: 1s, p99: 3s", ["p50"], "p99"),
        ("p50: 1s, p95: 2s", ["p50"], "p95"),
        ("p50: 1s, p95: 2s, p99: 3s", ["p50", "p99"], "p95"),
        ("p50: 1s", [], "p50"),
    ],
)
@pytest.mark.parametrize("latency", ["ttft", "itl"])
def test_a_percentile_that_is_not_placed_by_is_named(
    bounds: str, unused: list[str], used: str, latency: str
) -> None:
    plan = plan_text(fleet_text(f"- {H100}", model=f"slo: {{{latency}: {{{bounds}}}}}"))
    assert [(w.code, w.message) for w in plan.warnings] == [
        ("LC3024", f"slo.{latency}.{name} is not used for placing yet: {used} is")
        for name in unused
    ]
    for warning, name in zip(plan.warnings, unused, strict=True):
        assert warning.place is not None
        assert warning.place.path.endswith(f"slo.{latency}.{name}")
    reasons = plan.models[0].variants[0].reasons
    assert f"requests are placed so that each keeps slo.{latency}.{used}" in reasons


def routed(objective: str, scheduler: str, model: str = "") -> list[tuple[str, str]]:
    """The warnings of a fleet that is routed so."""
    spec = f"router: {{routing: {{objective: {objective}, scheduler: {scheduler}}}}}"
    warnings = plan_text(fleet_text(f"- {H100}", model=model, spec=spec)).warnings
    return [(w.code, w.message) for w in warnings]


@pytest.mark.parametrize("objective", ["cost", "balanced"])
def test_without_a_service_level_the_bound_of_saving_money_is_said(objective: str) -> None:
    ((code, message),) = routed(objective, "expected-finish")
    assert code == "LC3025"
    assert f"objective {objective} lets a request finish up to 4 times later" in message
    assert routed(objective, "expected-finish", "slo: {itl: {p95: 1s}}") == []
    assert routed("latency", "expected-finish") == []


@pytest.mark.parametrize("objective", ["cost", "balanced", "latency"])
def test_a_variant_without_a_price_is_named_where_money_is_to_be_saved(objective: str) -> None:
    gaudi = "{name: g, accelerator: intel-gaudi3}"
    old = '{name: old, accelerator: nvidia-l4, endpoint: {url: "http://10.0.0.7:8000"}}'
    spec = f"router: {{routing: {{objective: {objective}}}}}"
    slo = "slo: {itl: {p95: 10s}}"

    def told(*variants: str, more: str = "") -> list[tuple[str, str, str]]:
        text = fleet_text("\n".join(f"- {v}" for v in variants), model=slo, spec=spec + more)
        return [(w.code, w.message, w.remedy) for w in plan_text(text).warnings]

    assert told(H100) == told(gaudi) == told(H100, H100.replace("v,", "w,")) == []
    if objective == "latency":
        assert told(H100, gaudi, old) == []
        return
    ((code, message, remedy),) = told(H100, gaudi)
    assert code == "LC3025"
    assert message == f"chat/g has no price: objective {objective} takes it for the dearest of chat"
    assert "pricePerDeviceHour" in remedy
    listed = "{accelerator: nvidia-h100}, {accelerator: intel-gaudi3, pricePerDeviceHour: 2.0}"
    priced = f"\ninventory: [{listed}]"
    assert told(H100, gaudi, more=priced) == []
    ((_, message, remedy),) = told(H100, old)
    assert message.startswith("chat/old has no price")
    assert "endpoint" in remedy
    ((_, message, _),) = told(gaudi, old)
    assert message == f"no variant of chat has a price: objective {objective} goes by time alone"


def test_the_bound_of_saving_money_is_the_schedulers() -> None:
    scorers = Path(__file__).parents[3] / "crates" / "llmd-sched" / "src" / "scorers.rs"
    assert f"const PATIENCE: f64 = {PATIENCE}.0;" in scorers.read_text()


def test_what_a_scheduler_does_not_go_by_is_named() -> None:
    assert routed("cost", "random", "slo: {itl: {p95: 1s}}") == [
        ("LC3026", "objective cost does nothing with scheduler random"),
        ("LC3026", "scheduler random does not place by the slo of chat"),
    ]
    assert routed("latency", "random") == []


@pytest.mark.parametrize(
    ("where", "variant"),
    [
        ("variants[0].engine.version", "engine: {name: vllm, version: 0.3.2}"),
        ("defaults.engine.version", ""),
    ],
)
def test_an_unknown_version_is_told_where_it_stands(where: str, variant: str) -> None:
    spec = "" if variant else "defaults: {engine: {name: vllm, version: 0.3.2}}"
    text = fleet_text(f"- {{name: v, accelerator: nvidia-h100, {variant}}}", spec=spec)
    (problem,) = problems_of(text, code=65)
    assert problem.code == "LC2011"
    assert problem.place is not None
    assert problem.place.path.endswith(where)
    assert problem.place.text[problem.place.column - 1 :].startswith("0.3.2")


def test_what_the_router_needs_is_in_the_plan() -> None:
    spec = (
        "router: {routing: {objective: cost, scheduler: random}, resilience: {slowStart: 0s, "
        "checks: {interval: 5s, path: /ready}, limits: {body: 1Gi, quiet: 5s}}}\n"
        'observability: {traces: {otlp: "http://c:4317"}}'
    )
    plan = plan_text(fleet_text(f"- {H100}", model="aliases: [x]", spec=spec))
    model = plan.models[0]
    assert (model.objective, model.scheduler, model.aliases) == ("cost", "random", ("x",))
    assert plan.traces is not None
    assert (plan.traces.otlp, plan.traces.protocol) == ("http://c:4317", "grpc")
    assert plan.resilience == Resilience(
        slow_start_ms=0,
        checks=Checks(interval_ms=5_000, path="/ready"),
        limits=Limits(body_bytes=1 << 30, quiet_ms=5_000),
    )


# --- the document ---


def test_a_plan_survives_its_json_and_is_the_same_bytes_each_time() -> None:
    text = fleet_text(
        f"- {H100}\n- {{name: g, accelerator: intel-gaudi3}}", model="slo: {itl: {p95: 1ms}}"
    )
    one, two = plan_text(text), plan_text(text)
    first, second = (
        json.dumps({**p.to_json(), "warnings": []}) for p in (one, two)
    )  # a place names the file, which differs here
    assert first == second
    assert Plan.from_json(json.loads(json.dumps(one.to_json()))) == one


@pytest.mark.parametrize(
    "change",
    [
        lambda d: d.update(schema="other"),
        lambda d: d.update(extra=1),
        lambda d: d.pop("fleet"),
        lambda d: d.update(models={}),
        lambda d: d["models"][0].update(name=5),
        lambda d: d["models"][0]["variants"][0].update(replicas="two"),
        lambda d: d["models"][0]["variants"][0]["fit"].update(verdict="perhaps"),
        lambda d: d["models"][0]["variants"][0]["settings"].update({"--x": 3}),
        lambda d: d.update(warnings=[3]),
        lambda d: d.update(warnings=[{}]),
    ],
)
def test_a_plan_file_that_was_broken_is_refused(
    change: Callable[[dict[str, object]], object],
) -> None:
    from llmd_ctl.errors import SpecInvalid

    document = plan_text(fleet_text(f"- {H100}")).to_json()
    change(document)
    with pytest.raises(SpecInvalid) as raised:
        Plan.from_json(document)
    assert raised.value.problems[0].code == "LC3001"
