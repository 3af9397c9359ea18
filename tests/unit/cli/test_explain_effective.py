"""What holds in a fleet and who set it: equal to the plan, key by key, and placed in the file."""

from pathlib import Path

import pytest
from msgspec.structs import replace

from llmd_ctl.cli.explain.ask import Question, explain
from llmd_ctl.cli.explain.page import Effective
from llmd_ctl.errors import UsageError
from tests.unit.cli.explaining import question
from tests.unit.plan.fleets import fleet_text

MIXED = (Path(__file__).parents[2] / "golden" / "explain" / "mixed.fleet.yaml").read_text()
SEVERAL = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: test}
spec:
  targets: [{name: here, kind: local}]
  defaults: {engineArgs: {maxNumSeqs: 100}, env: {A: d}}
  models:
  - name: chat
    uri: hf://Qwen/Qwen3-0.6B
    maxModelLen: 8192
    engineArgs: {blockSize: 128, compilationConfig: '{"mode": 3}'}
    env: {A: m, B: m}
    variants:
    - {name: cpu, accelerator: cpu-x86, replicas: 1, engineArgs: {maxNumSeqs: 4}, env: {B: v}}
    - {name: gaudi, accelerator: intel-gaudi3, extraArgs: ["--seed", "7", "--max-num-seqs=8"]}
    - {name: wide, accelerator: nvidia-h100, parallelism: {tensor: 2}, maxModelLen: 4096}
"""


@pytest.fixture
def mixed(tmp_path: Path) -> Question:
    return question(tmp_path, MIXED)[0]


def rows(asked: Question, *words: str) -> list[Effective]:
    return list(explain(words, asked).effective)


def by(asked: Question, *words: str) -> dict[tuple[str, str], tuple[str, str]]:
    """The text and who set it, by what it is of and its name."""
    return {(row.of, row.name): (row.text, row.set_by) for row in rows(asked, *words)}


@pytest.mark.parametrize("text", [MIXED, SEVERAL], ids=["mixed", "several"])
def test_every_setting_is_the_plans_word_for_word(tmp_path: Path, text: str) -> None:
    asked, plan = question(tmp_path, text)
    told = {(row.of, row.name): row for row in rows(asked, "spec.defaults.engineArgs")}
    checked = 0
    for model in plan.models:
        for variant in model.variants:
            for flag, setting in variant.settings.items():
                row = told[(f"{model.name}/{variant.name}", flag)]
                assert (row.value, row.set_by) == (setting.value, setting.set_by)
                assert row.overruled == setting.overruled
                checked += 1
    assert checked >= 24


def test_a_flag_is_told_of_every_variant_whose_engine_has_it(mixed: Question) -> None:
    told = rows(mixed, "flag", "--max-num-seqs")
    assert [(row.of, row.value, row.set_by) for row in told] == [
        ("chat/h100", 128, "engineArgs"), ("chat/mi300x", 256, "model chat"),
    ]  # fmt: skip
    assert told[0].overruled == ("profile nvidia-h100: 1024", "defaults: 512", "model chat: 256")
    assert not rows(replace(mixed, engine="llamacpp"), "flag", "--parallel")


def test_whoever_set_a_flag_is_placed_where_it_is_written(tmp_path: Path) -> None:
    asked, _ = question(tmp_path, SEVERAL)
    lines = SEVERAL.splitlines()
    for path in ("spec.defaults.engineArgs", "spec.models[].maxModelLen"):
        for row in rows(asked, path):
            wrote = row.set_by.split()[0] in {
                "defaults",
                "model",
                "variant",
                "engineArgs",
                "extraArgs",
            }
            assert (row.place is not None) == wrote, row
            if row.place is not None:
                assert str(row.value).lower() in lines[row.place.line - 1].lower(), row


def test_a_setting_that_nobody_said_is_the_engines(mixed: Question) -> None:
    told = by(mixed, "flag", "--seed")
    assert told[("chat/h100", "--seed")] == ("7", "extraArgs")
    assert told[("chat/mi300x", "--seed")][1] == "engine default"


def test_a_choice_in_brackets_picks_by_name_and_by_number(mixed: Question) -> None:
    for chosen in ("spec.models[chat].variants[mi300x]", "spec.models[0].variants[1]"):
        (row,) = rows(mixed, f"{chosen}.engineArgs.maxNumSeqs")
        assert (row.of, row.value) == ("chat/mi300x", 256)
    with pytest.raises(UsageError) as raised:
        rows(mixed, "spec.models[0].variants[mi].replicas")
    (problem,) = raised.value.problems
    assert problem.allowed == ("h100", "mi300x", "old")


def test_levels_of_the_environment_are_those_of_the_plan(tmp_path: Path) -> None:
    """Planned for real: what is told is what the engine on this machine would get."""
    text = SEVERAL.split("    - {name: gaudi")[0]
    asked, plan = question(tmp_path, text, simulate=None)
    (variant,) = plan.models[0].variants
    told = rows(asked, "spec.defaults.env")
    assert {row.name.removeprefix("env."): row.value for row in told} == dict(variant.env)
    who = {row.name: (row.set_by, row.overruled) for row in told}
    assert who["env.A"] == ("model chat", ("defaults: d",))
    assert who["env.B"] == ("variant cpu", ("model chat: m",))
    assert who["env.VLLM_CPU_OMP_THREADS_BIND"][0] == "profile cpu-x86"


APART = """\
apiVersion: fleet.llmd-ctl.dev/v1alpha1
kind: Fleet
metadata: {name: test}
spec:
  targets: [{name: here, kind: kubernetes}]
  router: {kind: llm-d}
  models:
  - name: chat
    uri: hf://Qwen/Qwen3-32B
    maxModelLen: 8192
    disaggregation: {transport: ib}
    env: {UCX_TLS: tcp}
    variants:
    - {name: p, accelerator: nvidia-h100, role: prefill, parallelism: {tensor: 2}}
    - {name: d, accelerator: nvidia-h100, role: decode, parallelism: {tensor: 2}}
"""


@pytest.mark.parametrize("simulate", [1.0, None])
def test_what_roles_and_transports_set_is_told_with_who_set_it(
    tmp_path: Path, simulate: float | None
) -> None:
    asked, plan = question(tmp_path, APART, simulate=simulate)
    told = {(row.of, row.name): row for row in rows(asked, "spec.models[].env")}
    for variant in plan.models[0].variants:
        for name, value in variant.env.items():
            assert told[f"chat/{variant.name}", f"env.{name}"].value == value
        address = told[f"chat/{variant.name}", "env.VLLM_NIXL_SIDE_CHANNEL_HOST"]
        assert (address.value, address.set_by) == (None, "profile nvidia-h100")
    alive = told["chat/p", "env.VLLM_HTTP_TIMEOUT_KEEP_ALIVE"]
    assert (alive.value, alive.set_by) == ("120", "engine vllm, role prefill")
    assert ("chat/d", "env.VLLM_HTTP_TIMEOUT_KEEP_ALIVE") not in told
    tls = told["chat/d", "env.UCX_TLS"]
    assert (tls.value, tls.set_by) == ("tcp", "model chat")
    (over,) = tls.overruled
    assert over.startswith("profile nvidia-h100, transport ib: ")
    others = [
        row.set_by for (of, _), row in told.items() if of == "chat/d" and "transport" in row.set_by
    ]
    assert set(others) == {"profile nvidia-h100, transport ib"}


def test_a_variable_of_several_hosts_is_the_profiles(tmp_path: Path) -> None:
    text = APART.replace("router: {kind: llm-d}", "defaults: {}").split("    disaggregation")[0]
    variant = "{accelerator: google-tpu-v6e, parallelism: {tensor: 16}, topology: 4x4}"
    text += f"    variants: [{variant}]\n"
    asked, _ = question(tmp_path, text)
    (row,) = rows(asked, "spec.models[].env.TPU_MULTIHOST_BACKEND")
    assert (row.value, row.set_by) == ("ray", "profile google-tpu-v6e")


def test_a_variable_over_the_profiles_says_so(mixed: Question) -> None:
    told = {row.of: row for row in rows(mixed, "spec.models[].env.VLLM_ROCM_USE_AITER")}
    assert told["chat/mi300x"].overruled == ("profile amd-mi300x: 1",)
    assert told["chat/mi300x"].set_by == "variant mi300x"


def test_a_place_is_the_one_of_real_engines(tmp_path: Path) -> None:
    asked, _ = question(tmp_path, MIXED)
    plan = question(tmp_path, MIXED, simulate=None)[1]
    images = {row.of: row.value for row in rows(asked, "spec.models[].variants[].engine.image")}
    labels = {(row.of, row.name): row.value for row in rows(asked, "spec.defaults.nodeSelector")}
    taints = {row.of: row.value for row in rows(asked, "spec.defaults.tolerations")}
    for variant in plan.models[0].variants[:2]:
        of, place = f"chat/{variant.name}", variant.place
        assert place is not None
        assert place.image is not None
        assert images[of] == place.image.pinned
        assert [taint["key"] for taint in taints[of]] == [t.key for t in place.nodes.tolerations]
        (label,) = place.nodes.labels
        assert labels[of, f"nodeSelector.{label.key}"] == list(label.values)


def test_resources_are_those_of_the_place(tmp_path: Path) -> None:
    asked, _ = question(tmp_path, MIXED)
    plan = question(tmp_path, MIXED, simulate=None)[1]
    told = {(row.of, row.name): row for row in rows(asked, "spec.models[].variants[].resources")}
    for variant in plan.models[0].variants[:2]:
        assert variant.place is not None
        have = variant.place.container
        of = f"chat/{variant.name}"
        assert told[(of, "resources.cpu")].value == have.cpu == 8
        assert told[(of, "resources.memory")].value == have.memory_bytes
        assert told[(of, "resources.shm")].value == have.shm_bytes
    assert told[("chat/h100", "resources.cpu")].set_by == "target gke"
    assert told[("chat/mi300x", "resources.memory")].set_by == "variant mi300x"
    assert told[("chat/h100", "resources.shm")].set_by == "profile nvidia-h100"


def test_replicas_by_rule_and_by_number(mixed: Question) -> None:
    assert by(mixed, "spec.models[].variants[].replicas") == {
        ("chat/h100", "replicas"): ("4", "variant h100"),
        ("chat/mi300x", "replicas"): ("1 to 4, by autoscale", "defaults"),
        ("chat/old", "replicas"): ("runs already: not managed", "whoever started it"),
    }


def test_the_split_and_the_length_are_the_plans(tmp_path: Path) -> None:
    asked, plan = question(tmp_path, SEVERAL)
    for number, variant in enumerate(plan.models[0].variants):
        at = f"spec.models[0].variants[{number}]"
        split = {row.name: row.value for row in rows(asked, f"{at}.parallelism")}
        for key in ("tensor", "pipeline", "data", "expert"):
            assert split[f"parallelism.{key}"] == getattr(variant.parallelism, key)
        assert rows(asked, f"{at}.maxModelLen")[0].value == variant.max_model_len
    assert by(asked, "spec.models[].variants[wide].parallelism.tensor") == {
        ("chat/wide", "parallelism.tensor"): ("2", "variant wide")
    }


def test_the_engine_is_the_one_that_would_run(mixed: Question) -> None:
    told = by(mixed, "spec.models[].variants[h100].engine")
    assert told[("chat/h100", "engine.name")] == ("vllm", "default")
    assert told[("chat/h100", "engine.image")][1] == "profile nvidia-h100"


def test_on_this_machine_a_place_says_that_it_does_nothing(tmp_path: Path) -> None:
    asked, _ = question(tmp_path, SEVERAL)
    for key in ("tolerations", "cache", "secretRefs", "resources.shm"):
        assert {row.text for row in rows(asked, f"spec.defaults.{key}")} == {
            "nothing on this machine"
        }


def test_other_keys_are_written_filled_in_or_left_to_their_default(tmp_path: Path) -> None:
    text = fleet_text("- accelerator: nvidia-h100", model="slo: {ttft: {p95: 800ms}}")
    asked, _ = question(tmp_path, text)
    ((row),) = rows(asked, "spec.models[].slo.ttft.p95")
    assert (row.of, row.text, row.set_by) == (
        "spec.models[0].slo.ttft.p95",
        "800ms",
        "the fleet file",
    )
    assert row.value == 800_000
    assert row.place is not None
    assert "800ms" in text.splitlines()[row.place.line - 1]
    (row,) = rows(asked, "spec.models[].variants[].name")
    assert (row.value, row.set_by) == ("h100" if row.value == "h100" else row.value, "filled in")
    (row,) = rows(asked, "spec.models[].usage")
    assert (row.value, row.set_by) == ("as-told", "default")
    (row,) = rows(asked, "spec.router.replicas")
    assert (row.value, row.set_by) == (1, "plan")
    (row,) = rows(asked, "spec.router.resilience.retry.attempts")
    assert (row.text, row.set_by) == ("none (3)", "default")


def test_every_field_of_the_format_can_be_asked_of_a_fleet(mixed: Question) -> None:
    from llmd_ctl.spec.shape import SHAPE

    for path in SHAPE:
        assert explain([path], mixed).file is not None, path
