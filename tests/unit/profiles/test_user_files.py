"""A user's profile file: strict, placed, and able to change single figures."""

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from llmd_ctl.errors import Problem, SpecInvalid
from llmd_ctl.profiles import Catalog, UnknownProfile

HEAD = "apiVersion: fleet.llmd-ctl.dev/v1alpha1\nkind: AcceleratorProfile\n"


def load(tmp_path: Path, text: str) -> Catalog:
    path = tmp_path / "mine.yaml"
    path.write_text(text)
    return Catalog.load([path])


def problems(tmp_path: Path, text: str) -> list[Problem]:
    with pytest.raises(SpecInvalid) as raised:
        load(tmp_path, text)
    return list(raised.value.problems)


def profile(spec: str, *, extends: str = "nvidia-h100", name: str = "mine") -> str:
    return f"{HEAD}metadata: {{name: {name}}}\nextends: {extends}\nspec:\n  {spec}\n"


def test_a_profile_that_extends_another_changes_what_it_says(tmp_path: Path) -> None:
    catalog = load(tmp_path, profile("memoryBytes: {value: 96, unit: GB, source: me}"))
    mine, theirs = catalog.accelerator("mine"), catalog.accelerator("nvidia-h100")
    assert mine.spec.memory_bytes.value == 96e9
    assert mine.spec.memory_bytes.confidence == "low"
    assert mine.spec.memory_bandwidth == theirs.spec.memory_bandwidth
    assert mine.lineage == ("mine", "nvidia-h100")


def test_a_profile_can_change_a_built_in_one_of_its_own_name(tmp_path: Path) -> None:
    text = profile("pricePerDeviceHour: {value: 1.5, unit: $/h, source: us}", name="nvidia-h100")
    catalog = load(tmp_path, text)
    assert catalog.accelerator("nvidia-h100").spec.price_per_device_hour.value == 1.5
    assert catalog.accelerator("nvidia-h100").spec.memory_bytes.value == 80 * 2**30


def test_a_figure_without_a_source_is_said_to_come_from_its_file(tmp_path: Path) -> None:
    catalog = load(tmp_path, profile("memoryBytes: {value: 96, unit: GB}"))
    assert catalog.accelerator("mine").spec.memory_bytes.source == str(tmp_path / "mine.yaml")


def test_several_profiles_stand_in_one_file_and_build_on_each_other(tmp_path: Path) -> None:
    first = profile("memoryBytes: {value: 96, unit: GB}", name="one")
    second = profile("description: two", name="two", extends="one")
    catalog = load(tmp_path, f"{first}---\n{second}")
    assert catalog.accelerator("two").spec.memory_bytes.value == 96e9
    assert catalog.accelerator("two").lineage == ("two", "one", "nvidia-h100")


def test_one_name_stands_once_unless_the_later_builds_on_the_earlier(tmp_path: Path) -> None:
    one = profile("description: one", name="one")
    (problem,) = problems(tmp_path, f"{one}---\n{one}")
    assert (problem.code, problem.place and problem.place.line) == ("LC2014", 10)
    assert load(tmp_path, f"{one}---\n{profile('description: two', name='one', extends='one')}")


def test_a_null_price_is_unknown_and_not_zero(tmp_path: Path) -> None:
    catalog = load(tmp_path, profile("pricePerDeviceHour: {value: null, unit: $/h, source: none}"))
    assert catalog.accelerator("mine").spec.price_per_device_hour.value is None


@pytest.mark.parametrize("value", ["9e299", "-9e299", "1" + "0" * 300, "0x" + "f" * 260])
def test_a_figure_that_no_number_holds_is_out_of_range(tmp_path: Path, value: str) -> None:
    (problem,) = problems(tmp_path, profile(f"memoryBytes: {{value: {value}, unit: GB}}"))
    assert problem.code == "LC2006"
    assert problem.place is not None
    assert problem.place.path == "spec.memoryBytes.value"


@pytest.mark.parametrize(
    ("flag", "value", "code"),
    [
        ("--gpu-memory-utilization", "high", "LC2021"),
        ("--gpu-memory-utilization", "'0.9'", "LC2021"),
        ("--gpu-memory-utilization", "1.5", "LC2021"),
        ("--gpu-memory-utilization", "0", "LC2021"),
        ("--max-num-seqs", "abc", "LC2021"),
        ("--max-num-seqs", "0", "LC2021"),
        ("--max-num-seqs", "-1", "LC2021"),
        ("--max-num-seqs", "true", "LC2021"),
        ("--block-size", "x", "LC2021"),
        ("--enforce-eager", "'yes'", "LC2021"),
        ("--kv-events-config", "'{'", "LC2021"),
        ("--dtype", "int3", "LC2022"),
        ("--port", "1", "LC2023"),
    ],
)
def test_a_setting_that_the_engine_would_not_take_is_refused_in_the_profile(
    tmp_path: Path, flag: str, value: str, code: str
) -> None:
    setting = f"{flag}: {{value: {value}, reason: mine}}"
    (problem,) = problems(tmp_path, profile(f"engines: {{vllm: {{settings: {{{setting}}}}}}}"))
    assert problem.code == code
    assert flag in problem.message
    assert problem.found == (flag if code == "LC2023" else value.strip("'"))
    assert problem.place is not None
    assert (problem.place.file, problem.place.line) == (str(tmp_path / "mine.yaml"), 6)
    assert problem.place.text[problem.place.column - 1 :].startswith(problem.found) or (
        problem.place.text[problem.place.column - 1 :].startswith(value)
    )


def test_a_flag_that_no_table_has_is_left_to_the_plan(tmp_path: Path) -> None:
    settings = "--max-num-seqs: {value: 7, reason: mine}, --no-such: {value: 1, reason: x}"
    catalog = load(tmp_path, profile(f"engines: {{vllm: {{settings: {{{settings}}}}}}}"))
    on = catalog.accelerator("mine").spec.engines["vllm"]
    assert [on.settings[flag].value for flag in ("--max-num-seqs", "--no-such")] == [7, 1]


def test_an_engine_of_a_new_version_extends_the_old_one(tmp_path: Path) -> None:
    text = HEAD.replace("Accelerator", "Engine") + (
        "metadata: {name: vllm}\nextends: vllm\nspec:\n  version: 0.33.0\n"
        "  flags: {--new-flag: {type: int}}\n"
    )
    catalog = load(tmp_path, text)
    assert "--new-flag" in catalog.engine("vllm", "0.33.0").spec.flags
    assert "--dtype" in catalog.engine("vllm", "0.33.0").spec.flags
    assert "--new-flag" not in catalog.engine("vllm", "0.32.0").spec.flags


@pytest.mark.parametrize(
    ("spec", "code", "column"),
    [
        ("memoryByts: {value: 1, unit: GB}", "LC2002", 3),
        ("memoryBytes: 80", "LC2005", 16),
        ("memoryBytes: {value: 80}", "LC2005", 16),
        ("memoryBytes: {value: 80, unit: GB/s}", "LC2005", 34),
        ("memoryBytes: {value: 0, unit: GB}", "LC2006", 24),
        ("memoryBytes: {value: -3, unit: GB}", "LC2006", 24),
        ("memoryBytes: {value: 1e300, unit: GB}", "LC2006", 24),
        (f"memoryBytes: {{value: 1{'0' * 350}, unit: GB}}", "LC2006", 24),
        ("memoryBytes: {value: .inf, unit: GB}", "LC2006", 24),
        ("memoryBytes: {value: .nan, unit: GB}", "LC2006", 24),
        ("memoryBytes: {value: 1.5, unit: B}", "LC2006", 24),
        ("memoryBandwidth: {value: 0, unit: TB/s}", "LC2006", 28),
        ("efficiency: {kv: {value: null}}", "LC2005", 28),
        ("memoryBandwidth: {value: fast, unit: TB/s}", "LC2004", 28),
        ("memoryBandwidth: {value: 1, unit: TB/s, confidence: sure}", "LC2004", 55),
        ("memoryBandwidth: {value: 1, unit: TB/s, from: me}", "LC2002", 43),
        ("efficiency: {kv: {value: 1.2}}", "LC2006", 28),
        ("efficiency: {weight: {bf61: {value: 0.5}}}", "LC2002", 25),
        ("vendor: 7", "LC2004", 11),
        ("engines: [vllm]", "LC2004", 12),
        ("engines: {vllm: {unsupported: {pipelines: no idea}}}", "LC2002", 34),
        ("overhead: {collectives: {'3': {}}}", "LC2002", 28),
        ("driver: {minimum: 7, source: x, confidence: low}", "LC2004", 21),
        ("driver: {minimum: null, source: null, confidence: low}", "LC2004", 35),
        ("driver: {minimum: null, source: x, confidence: sure}", "LC2004", 50),
        ("kubernetes: {selectors: {azure: []}}", "LC2002", 28),
        ("kubernetes: {tolerations: [{effect: NoSchedule}]}", "LC2003", 30),
        ("kubernetes: {tolerations: [{key: a, effect: Never}]}", "LC2004", 47),
        ("container: {seccomp: none}", "LC2004", 24),
        ("hostArchitectures: [sparc]", "LC2004", 23),
        ("transports: {ib: {env: {A: 1}}}", "LC2004", 30),
        ("engines: {vllm: {attention: {mamba: {}}}}", "LC2002", 32),
        ("engines: {vllm: {transfer: {sideChannelPort: {value: 70000}}}}", "LC2006", 56),
    ],
)
def test_a_fault_is_refused_where_it_stands(
    tmp_path: Path, spec: str, code: str, column: int
) -> None:
    (problem,) = problems(tmp_path, profile(spec))
    assert problem.place is not None
    assert (problem.code, problem.place.line, problem.place.column) == (code, 6, column)


SOURCED = "source: where it is from, confidence: low"


@pytest.mark.parametrize(
    ("spec", "hint"),
    [
        ("memoryBytes: 80GB", f"Write memoryBytes: {{value: 80, unit: GB, {SOURCED}}}."),
        ("memoryBytes: 80 Gi", f"Write memoryBytes: {{value: 80, unit: GiB, {SOURCED}}}."),
        ("memoryBytes: 80", f"Write memoryBytes: {{value: 80, unit: …, {SOURCED}}}."),
        ("memoryBytes: [80]", f"Write memoryBytes: {{value: …, unit: …, {SOURCED}}}."),
        ("memoryBytes: {value: 80}", f"Write memoryBytes: {{value: 80, unit: …, {SOURCED}}}."),
        ("memoryBytes: {value: 80GB}", f"Write memoryBytes: {{value: 80, unit: GB, {SOURCED}}}."),
        (
            "memoryBytes: {value: 80, unit: gb}",
            f"Write memoryBytes: {{value: 80, unit: GB, {SOURCED}}}.",
        ),
        (
            "memoryBandwidth: {value: 3.35, unit: TBps}",
            f"Write memoryBandwidth: {{value: 3.35, unit: TB/s, {SOURCED}}}.",
        ),
        (
            "memoryBandwidth: {value: 400, unit: Gb/s}",
            f"Write memoryBandwidth: {{value: 400, unit: Gbit/s, {SOURCED}}}.",
        ),
        ("efficiency: {kv: 0.5}", f"Write kv: {{value: 0.5, {SOURCED}}}."),
        ("efficiency: {kv: {value: null}}", f"Write kv: {{value: …, {SOURCED}}}."),
        ("vendor: 7", 'Put it in quotes: "7".'),
        ("engines: [vllm]", "Write engines: {KEY: …}."),
        ("nativeDtypes: fp8", "Write nativeDtypes: [fp8]."),
        ("kubernetes: {tolerations: [{effect: NoSchedule}]}", "Add it: a list replaces that of"),
        ("hostArchitectures: [sparc]", "Write one of the allowed words for hostArchitectures[0]."),
    ],
)
def test_a_hint_writes_what_was_meant_with_its_unit(tmp_path: Path, spec: str, hint: str) -> None:
    (problem,) = problems(tmp_path, profile(spec))
    assert problem.remedy.startswith(hint)


@pytest.mark.parametrize(
    ("text", "hint"),
    [
        (
            "metadata: {name: x}\nextends: nvidia-h100\n",
            "Add `spec: {}`, or under spec: what differs from nvidia-h100.",
        ),
        ("metadata: {name: x}\n", "Add what it says of itself under spec:."),
        ("metadata: x\nspec: {}\nextends: cpu-x86", "Write metadata: {name: x}."),
        ("metadata: {name: 5}\nspec: {}\nextends: cpu-x86", 'Put it in quotes: "5".'),
        ("spec: {}\nextends: cpu-x86", "Write metadata: {name: …}, by which fleets"),
        ("metadata: {name: x}\nspec: {}\nextends: hopper", "Add it: hopper does not say it."),
        ("metadata: {name: x}\nvendor: y\nspec: {}\nextends: cpu-x86", "Move vendor under spec:."),
    ],
)
def test_a_hint_fits_the_profile_that_lacks_something(tmp_path: Path, text: str, hint: str) -> None:
    (problem,) = problems(tmp_path, HEAD + text)
    assert problem.remedy.startswith(hint)


def test_an_unknown_figure_needs_no_unit(tmp_path: Path) -> None:
    catalog = load(tmp_path, profile("pricePerDeviceHour: {value: null, source: none}"))
    assert catalog.accelerator("mine").spec.price_per_device_hour.value is None


def test_a_profile_of_a_family_is_a_device_of_its_own(tmp_path: Path) -> None:
    whole = (
        "description: mine\n  memoryBytes: {value: 288, unit: GB}\n"
        "  memoryBandwidth: {value: 8, unit: TB/s}\n  devicesPerNode: {value: 8}\n"
        "  pricePerDeviceHour: {value: 4, unit: $/h}\n"
    )
    mine = load(tmp_path, profile(whole, extends="blackwell")).accelerator("mine")
    assert mine.lineage == ("mine",)
    assert mine.spec.engines["vllm"].attention["dense"].order[0] == "FLASHINFER"
    (problem,) = problems(tmp_path, profile("description: mine", extends="blackwell"))
    assert (problem.code, problem.message) == ("LC2003", 'the key "memoryBytes" is missing in spec')


def test_a_family_is_no_accelerator(tmp_path: Path) -> None:
    catalog = load(tmp_path, profile("description: mine"))
    assert "hopper" not in catalog.names("AcceleratorProfile")
    with pytest.raises(UnknownProfile):
        catalog.accelerator("hopper")
    text = profile("description: x").replace("AcceleratorProfile", "AcceleratorFamily")
    assert {p.code for p in problems(tmp_path, text)} == {"LC2001"}


def test_a_cited_fact_is_replaced_whole(tmp_path: Path) -> None:
    image = "{reference: 'mine:1', source: us, confidence: high}"
    spec = f"engines: {{vllm: {{images: {{0.32.0: {image}}}}}}}"
    images = load(tmp_path, profile(spec)).accelerator("mine").spec.engines["vllm"].images
    assert (images["0.32.0"].reference, images["0.32.0"].note) == ("mine:1", "")
    assert images["0.23.0"].reference == "vllm/vllm-openai:v0.23.0"
    half = "engines: {vllm: {images: {0.32.0: {reference: 'mine:1'}}}}"
    found = load(tmp_path, profile(half)).accelerator("mine").spec.engines["vllm"].images["0.32.0"]
    assert (found.source, found.confidence) == (str(tmp_path / "mine.yaml"), "low")
    (problem,) = problems(tmp_path, profile("engines: {vllm: {images: {0.32.0: {note: x}}}}"))
    assert problem.code == "LC2003"
    assert "engines.vllm.images.0.32.0.reference" in problem.message


def test_lists_of_labels_are_replaced_whole(tmp_path: Path) -> None:
    label = "{key: gpu, values: [h100, H100]}"
    spec = f"kubernetes: {{selectors: {{generic: [{label}]}}}}"
    kubernetes = load(tmp_path, profile(spec)).accelerator("mine").spec.kubernetes
    assert kubernetes is not None
    (mine,) = kubernetes.selectors["generic"]
    assert (mine.key, mine.values) == ("gpu", ("h100", "H100"))
    assert kubernetes.selectors["gke"][0].values[0] == "nvidia-h100-80gb"
    assert kubernetes.resource.name == "nvidia.com/gpu"


def test_what_may_be_unknown_may_be_null(tmp_path: Path) -> None:
    driver = "driver: {minimum: null, source: not looked up, confidence: low}"
    catalog = load(tmp_path, profile(f"{driver}\n  devicesPerNode: {{value: null}}"))
    spec = catalog.accelerator("mine").spec
    assert spec.driver is not None
    assert spec.driver.minimum is None
    assert spec.devices_per_node.value is None


def test_an_unknown_key_says_what_was_meant(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, profile("memoryBandwith: {value: 1, unit: TB/s}"))
    assert problem.suggestion == "memoryBandwidth"


def test_an_unknown_base_says_what_was_meant(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, profile("vendor: x", extends="nvidia-h10"))
    assert (problem.code, problem.suggestion) == ("LC2007", "nvidia-h100")


def test_a_profile_that_extends_nothing_must_be_whole(tmp_path: Path) -> None:
    text = f"{HEAD}metadata: {{name: mine}}\nspec:\n  vendor: acme\n"
    found = problems(tmp_path, text)
    assert {p.code for p in found} == {"LC2003"}
    assert any('"memoryBytes"' in p.message for p in found)


def test_a_new_engine_below_an_extended_accelerator_must_be_whole(tmp_path: Path) -> None:
    (problem,) = problems(tmp_path, profile("engines: {other: {package: other}}"))
    assert problem.code == "LC2003"
    assert "engines.other.reserveBytes" in problem.message


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("kind: Fleet\nmetadata: {name: x}\nspec: {}\n", "LC2001"),
        ("kind: AcceleratorProfil\nmetadata: {name: x}\nspec: {}\n", "LC2001"),
        ("kind: AcceleratorProfile\nspec: {}\n", "LC2003"),
        ("kind: AcceleratorProfile\nmetadata: {name: x}\n", "LC2003"),
        ("kind: AcceleratorProfile\nmetadata: {name: x}\nextend: y\nspec: {}\n", "LC2002"),
        ("kind: AcceleratorProfile\nmetadata: {name: x, by: y}\nspec: {}\n", "LC2002"),
        ("kind: AcceleratorProfile\nmetadata: {name: x}\nextends: 5\nspec: {}\n", "LC2004"),
        ("kind: AcceleratorProfile\nmetadata: {name: 5}\nspec: {}\n", "LC2004"),
        ("kind: AcceleratorProfile\nmetadata: x\nspec: {}\n", "LC2004"),
        ("kind: AcceleratorProfile\nmetadata: {name: x}\nspec: 3\n", "LC2004"),
        ("[1, 2]\n", "LC2001"),
        ("", "LC2009"),
        ("# nothing\n", "LC2009"),
    ],
)
def test_what_is_no_profile_is_refused(tmp_path: Path, text: str, code: str) -> None:
    head = "" if text.startswith(("[", "#")) or not text else HEAD.splitlines()[0] + "\n"
    assert code in {p.code for p in problems(tmp_path, head + text)}


def test_all_faults_of_all_files_are_told_at_once(tmp_path: Path) -> None:
    one, two = tmp_path / "one.yaml", tmp_path / "two.yaml"
    one.write_text(profile("vendor: 7\n  memoryBytes: 80"))
    two.write_text("a: [")
    with pytest.raises(SpecInvalid) as raised:
        Catalog.load([one, two, tmp_path / "none.yaml"])
    assert {p.code for p in raised.value.problems} == {"LC2004", "LC2005", "LC1010", "LC1001"}


VALUES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=8),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3)
    ),
    max_leaves=6,
)
PLACES = [
    ("metadata",), ("metadata", "name"), ("extends",), ("spec",), ("spec", "vendor"),
    ("spec", "memoryBytes"), ("spec", "memoryBytes", "value"), ("spec", "memoryBytes", "unit"),
    ("spec", "efficiency", "weight"), ("spec", "engines"), ("spec", "engines", "vllm", "settings"),
    ("spec", "engines", "vllm", "settings", "--block-size"),
]  # fmt: skip


@given(place=st.sampled_from(PLACES), value=VALUES)
def test_no_value_anywhere_breaks_the_reader(
    tmp_path_factory: pytest.TempPathFactory, place: tuple[str, ...], value: object
) -> None:
    document: dict[str, Any] = {
        "apiVersion": "fleet.llmd-ctl.dev/v1alpha1", "kind": "AcceleratorProfile",
        "metadata": {"name": "mine"}, "extends": "nvidia-h100",
        "spec": {"memoryBytes": {"value": 80, "unit": "GB"}},
    }  # fmt: skip
    node = document
    for key in place[:-1]:
        node = node.setdefault(key, {})
    node[place[-1]] = value
    path = tmp_path_factory.mktemp("fuzz") / "mine.yaml"
    path.write_text(json.dumps(document))
    try:
        catalog = Catalog.load([path])
    except SpecInvalid:
        return
    for name in catalog.names("AcceleratorProfile"):
        catalog.accelerator(name)
